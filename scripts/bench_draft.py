"""bench.py draft: microseconds of a step and bytes of each model-free drafter, on real code.

The texts are Python's own library. A run is a prompt of 4,000 tokens that goes on as the file does,
some tokens a step; the suffix drafter knows 200,000 tokens of other files besides.
"""

import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CORPUS, PROMPT = 200_000, 4_000


def add_draft(commands: Any) -> None:
    parser = commands.add_parser("draft", help="microseconds a step and bytes of each drafter")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="whose vocabulary")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--tokens", type=int, default=3, help="committed a step")
    parser.add_argument("--draft-tokens", type=int, default=15)
    parser.set_defaults(run=draft, name="draft")


def draft(arguments: Any) -> dict[str, Any]:
    from completiond.drafters.costs import Costs
    from completiond.drafters.lookahead import Lookahead
    from completiond.drafters.lookup import Lookup
    from completiond.drafters.planner import Planner
    from completiond.drafters.recycled import Recycled
    from completiond.drafters.suffix import Suffix
    from completiond.drafters.tree import merge

    documents = list(_documents(arguments.model))
    text = max(documents, key=len)
    suffix = Suffix()
    fed = _timed(lambda: _feed(suffix, [d for d in documents if d is not text]))
    lookup, planner = Lookup(), Planner(Costs({1: 20.0, 8: 22.0, 16: 30.0}))
    steps, width = _Steps(text, arguments), arguments.draft_tokens
    times = {
        "recycled": steps.of(Recycled().propose),
        "lookup": steps.of(lookup.propose),
        "suffix": steps.of(suffix.propose),
        "lookahead": steps.of(Lookahead().propose),
        "token recycling": steps.of(_recycling(text).propose),
    }
    tree = suffix.propose(steps.context, width)
    pair = [tree, lookup.propose(steps.context, width)]
    times["merge of two"] = [_timed(lambda: merge(pair, width)) for _ in range(200)]
    times["planner"] = [_timed(lambda: planner.choose("c", tree, 1)) for _ in range(200)]
    for name, spent in times.items():
        print(
            f"{name:>14}  {_us(spent, 2):7.1f} µs median  {_us(spent, 10):7.1f} µs at most of 9/10"
        )
    known = suffix._clients["c"].corpus.tokens
    print(f"{known} tokens fed in {fed * 1e3:.0f} ms, {suffix.bytes >> 10} KiB")
    return {
        "step_us": {name: _us(spent, 2) for name, spent in times.items()},
        "p90_us": {name: _us(spent, 10) for name, spent in times.items()},
        "corpus_tokens": known,
        "feed_ms": round(fed * 1e3, 1),
        "suffix_bytes": suffix.bytes,
    }


class _Steps:
    """A run on a text, always the same steps; the first, which reads the prompt, is not timed."""

    def __init__(self, text: list[int], arguments: Any) -> None:
        self._text, self._arguments = text, arguments

    def of(self, propose: Callable[[Any, int], Any]) -> list[float]:
        from completiond.core import Segment
        from completiond.drafters.base import DraftContext

        ids = self._text[:PROMPT]
        segments = (Segment("suffix", 0, PROMPT // 4), Segment("prefix", PROMPT // 4, PROMPT))
        hint = tuple(self._text[PROMPT + 1 : PROMPT + 65])  # a deviation at once
        self.context = DraftContext("b", "c", ids, PROMPT, segments, hint=hint)
        propose(self.context, self._arguments.draft_tokens)
        times = []
        for step in range(self._arguments.steps):
            at = PROMPT + step * self._arguments.tokens % (len(self._text) - PROMPT - 64)
            ids += self._text[at : at + self._arguments.tokens]
            times.append(_timed(lambda: propose(self.context, self._arguments.draft_tokens)))
        return times


def _documents(model: str) -> Iterator[list[int]]:
    """Files of the standard library, as ids, until there are enough."""
    from completiond.config import cache_dir
    from completiond.prompt.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(cache_dir() / "models" / model)
    total = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        ids = tokenizer.encode(path.read_text(encoding="utf-8", errors="replace"))
        yield ids
        total += len(ids)
        if total > 1.3 * CORPUS:
            return


def _recycling(text: list[int]) -> Any:
    """One that was told of every token of a text that eight others may follow."""
    from completiond.core import Step
    from completiond.drafters.base import DraftContext
    from completiond.drafters.token_recycling import LIKELIEST, TokenRecycling

    drafter = TokenRecycling()
    for at in range(1, len(text) - LIKELIEST):
        likely = tuple((token, 1 / LIKELIEST) for token in text[at : at + LIKELIEST])
        context = DraftContext("b", "c", text[: at + 1][-4:], 1)
        drafter.observe(context, Step((text[at],), likely=(likely,)))
    return drafter


def _feed(suffix: Any, documents: list[list[int]]) -> None:
    for number, ids in enumerate(documents):
        suffix.feed("c", str(number), ids)


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _us(seconds: list[float], part: int) -> float:
    """The median for 2, the ninth tenth for 10."""
    ordered = sorted(seconds)
    return round(ordered[len(ordered) * (part - 1) // part] * 1e6, 1)
