"""bench.py simulate: tokens per pass of model-free drafts, the human text taken as the answer.

No model runs: a pass keeps of a draft what the text says, and the text's own next token. Beside it
transformers' own candidate generator for prompt lookup, on the same prompts.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = REPOSITORY.parent / "shared" / "data"
SETS = {
    "commit": "commit_points_dev.jsonl",
    "heif": "heif_multi_line_python.jsonl",
    "safim": "safim_block.jsonl",
}
"""Files of infill items by the names of their sets."""


class Item(NamedTuple):
    """A prompt, the ids that answer it, and what else is read for drafts: the open files, and of
    the buffer itself what the prompt leaves out."""

    context: Any
    answer: list[int]
    files: list[list[int]]
    speller: Any


class _Speller:
    """A vocabulary as words.Speller."""

    def __init__(self, index: Any, tokenizer: Any) -> None:
        self.continuing = index.continuing
        self.spell = tokenizer.token_bytes
        self.encode = tokenizer.encode


def add_simulate(commands: Any) -> None:
    parser = commands.add_parser("simulate", help="tokens a pass of model-free drafts, no model")
    parser.add_argument("--set", default="commit", help="commit, edit, heif, safim, or a file")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b", help="whose vocabulary")
    parser.add_argument("--draft-tokens", type=int, default=7)
    parser.add_argument("--limit", type=int, default=0, help="items; 0: all")
    parser.add_argument("--tokens", type=int, default=64, help="of each answer at most")
    parser.add_argument(
        "--answers", type=Path, help="what a model answered (`decode --record`), for the human text"
    )
    parser.set_defaults(run=simulate, name="simulate")


def simulate(arguments: Any) -> dict[str, Any]:
    found = islice(texts(arguments.set), arguments.limit or None)
    chosen = list(items(arguments, found))
    if arguments.answers:
        chosen = answered(chosen, arguments.answers)
    rates, costs = {}, {}
    for name, make in sorted(_drafting(arguments.draft_tokens).items()):
        emitted, took, passes = 0, [], 0
        for item in chosen:
            propose, observe = make(item)
            done, spent = _run(item, propose)
            observe(done)
            emitted, passes = emitted + len(item.answer), passes + len(spent)
            took += spent[1:]
        rates[name] = round(emitted / passes, 3)
        costs[name] = round(sorted(took)[len(took) // 2] * 1e6, 1) if took else None
        print(f"{name:>28}  {rates[name]:6.3f} tokens/pass  {costs[name]} µs a step (median)")
    speeds = {name: _speed(chosen, policy) for name, policy in _policies()}
    for name, speed in speeds.items():
        print(f"{name:>28}  {speed:6.3f} times plain, by the cost table")
    return {
        "items": len(chosen),
        "tokens_per_pass": rates,
        "step_us": costs,
        "by_policy": speeds,
    }


COSTS = {1: 17.0, 2: 20.0, 4: 26.0, 8: 28.0, 16: 30.0, 32: 54.0}
"""Milliseconds of a pass by rows to compare policies on: the 0.5b's on two cores."""


def answered(chosen: list[Item], file: Path) -> list[Item]:
    """The items with what a model said, greedily; those that it was not asked are left out."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    said = {line["n"]: line for line in lines}
    for number, item in enumerate(chosen):
        told = said.get(number, {}).get("prompt", len(item.context.ids))
        if told != len(item.context.ids):
            raise SystemExit(f"{file} was recorded with other prompts; record it again.")
    return [item._replace(answer=said[n]["ids"]) for n, item in enumerate(chosen) if n in said]


def _policies() -> Iterator[tuple[str, Any]]:
    from completiond.drafters.costs import Costs
    from completiond.drafters.planner import Planner
    from completiond.drafters.policies import FixedK, SimpleRule

    yield "planner", Planner(Costs(COSTS))
    yield "simple rule", SimpleRule()
    for k in (1, 3, 7, 15, 31):
        yield f"fixed {k}", FixedK(k)


def _speed(items: list[Item], policy: Any) -> float:
    """Tokens a second against plain decoding, all items by one client, suffix drafts alone."""
    from completiond.core import Step
    from completiond.drafters.costs import Costs
    from completiond.drafters.suffix import Suffix
    from completiond.drafters.tree import tried

    costs, tokens, spent = Costs(COSTS), 0, 0.0
    for item in items:
        drafter = Suffix(item.speller)
        for number, ids in enumerate(item.files):
            drafter.feed("c", str(number), ids)

        def propose(context: Any, drafter: Any = drafter, item: Item = item) -> Any:
            nonlocal spent
            n = policy.budget("c", "suffix", 31)
            draft = policy.choose("c", drafter.propose(context, n), 1)
            left = item.answer[len(context.ids) - context.prompt :]
            kept = sum(node.kept for node in tried(draft, left))
            counts = {"suffix": len(draft)}, {"suffix": kept}
            rows = 1 + len(draft)
            step = Step(tuple(left[: kept + 1]), rows, *counts, tree=draft)
            policy.observe("c", step, {"suffix": 0.05} if n else {})
            spent += costs.ms(rows) + 0.05 * (n > 0)
            return draft

        _run(item, propose)
        tokens += len(item.answer)
    return round(tokens * COSTS[1] / spent, 3)


Propose = Callable[[Any], Any]


def _run(item: Item, propose: Propose) -> tuple[Any, list[float]]:
    """The context at the end, and the seconds that each pass's draft took."""
    from dataclasses import replace

    ids = list(item.context.ids)
    context, spent = replace(item.context, ids=ids), []
    prompt = len(ids)
    while len(ids) - prompt < len(item.answer):
        started = time.perf_counter()
        draft = propose(context)
        spent.append(time.perf_counter() - started)
        left = item.answer[len(ids) - prompt :]
        at = {-1: 0}
        for node, (token, parent) in enumerate(zip(draft.ids, draft.parents, strict=True)):
            depth = at.get(parent)
            if depth is not None and depth < len(left) and left[depth] == token:
                at[node] = depth + 1
        ids += left[: max(at.values()) + 1]
    return context, spent


def _drafting(width: int) -> dict[str, Callable[[Item], tuple[Propose, Callable[[Any], None]]]]:
    from completiond.core import NO_DRAFT, Draft, Step
    from completiond.drafters.lookup import Lookup
    from completiond.drafters.suffix import Suffix
    from completiond.drafters.tree import merge

    def chain(draft: Any) -> Any:
        """The likeliest path alone."""
        path, last = [], -1
        for node, parent in enumerate(draft.parents):
            if parent == last:
                path.append(node)
                last = node
        return Draft.chain([draft.ids[i] for i in path], "suffix")

    def nothing(context: Any) -> None:
        pass

    def plain(item: Item) -> Any:
        return lambda context: NO_DRAFT, nothing

    def lookup(item: Item) -> Any:
        drafter = Lookup()
        return lambda context: drafter.propose(context, width), nothing

    def suffix(files: bool, branches: bool, more: bool = False) -> Any:
        def make(item: Item) -> Any:
            drafter, simple = Suffix(item.speller), Lookup()
            for number, ids in enumerate(item.files if files else ()):
                drafter.feed("c", str(number), ids)

            def propose(context: Any) -> Any:
                draft = drafter.propose(context, width)
                if more:
                    return merge([draft, simple.propose(context, width)], width)
                return draft if branches else chain(draft)

            return propose, lambda context: drafter.observe(context, Step((), reason="eos"))

        return make

    def library(size: int) -> Any:
        def make(item: Item) -> Any:
            return _library(width, size), nothing

        return make

    return {
        "plain": plain,
        "hf lookup, n-gram 2": library(2),
        "hf lookup, n-gram 3": library(3),
        "lookup": lookup,
        "suffix chain": suffix(files=False, branches=False),
        "suffix chain, all texts": suffix(files=True, branches=False),
        "suffix tree": suffix(files=False, branches=True),
        "suffix tree, all texts": suffix(files=True, branches=True),
        "suffix + lookup, all texts": suffix(files=True, branches=True, more=True),
    }


def _library(width: int, size: int) -> Propose:
    import torch
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    from completiond.core import Draft

    rule = PromptLookupCandidateGenerator(
        num_output_tokens=width, max_matching_ngram_size=size, max_length=1 << 20
    )

    def propose(context: Any) -> Any:
        ids = torch.tensor([context.ids])
        candidates, _ = rule.get_candidates(ids)
        return Draft.chain(candidates[0, len(context.ids) :].tolist(), "hf")

    return propose


def items(arguments: Any, found: Iterable[tuple[str, str, str, list[str]]]) -> Iterator[Item]:
    """The prompts that the product makes of `found`: before, between, behind, open files."""
    from completiond import config
    from completiond.core import Snapshot
    from completiond.drafters.base import DraftContext
    from completiond.prompt import templates
    from completiond.prompt.builder import PromptBuilder, around
    from completiond.prompt.healing import HealingMask, VocabularyIndex
    from completiond.prompt.spelling import spell
    from completiond.prompt.tokenizer import Tokenizer
    from completiond.sources import in_front

    tokenizer = Tokenizer.load(config.cache_dir() / "models" / arguments.model)
    template = templates.choose(tokenizer)
    stop_ids = template.stop_ids(tokenizer) if template else []
    builder = PromptBuilder(
        tokenizer, template, context=4096, completion=config.Completion(), eos_ids=stop_ids
    )
    index = VocabularyIndex(spell(tokenizer))
    for prefix, middle, suffix, files in found:
        snapshot = Snapshot.around(
            prefix + suffix, len(prefix), document="d", version=1, language="", path="f"
        )
        built = builder.build(snapshot, max_tokens=arguments.tokens)
        prompt = built.prompt
        healed = prompt.healed.encode()
        mask = HealingMask(index, tokenizer.token_bytes, healed) if healed else None
        answer = [*tokenizer.encode(prompt.healed + middle), *stop_ids[:1]][: arguments.tokens]
        context = DraftContext(
            "b",
            "c",
            list(prompt.ids),
            len(prompt.ids),
            prompt.segments,
            mask=mask,
            stop_ids=tuple(stop_ids),
            healed=prompt.healed,
        )
        files_ids = [
            tokenizer.encode(text)
            for text in (*files, in_front(snapshot, built), around(snapshot)[1])
            if text
        ]
        yield Item(context, answer, files_ids, _Speller(index, tokenizer))


def texts(name: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """(prefix, middle, suffix, open files) of each item of a set."""
    if name == "edit":
        import make_edit_set

        for item in make_edit_set.items():
            yield item.prefix, item.middle, item.suffix, item.files
        return
    path = DATA / "infill" / SETS[name] if name in SETS else Path(name)
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        trace = path.parent.parent / entry["trace"] if "trace" in entry else None
        opened = json.loads(trace.read_text(encoding="utf-8"))["other_open_files"] if trace else []
        yield entry["prefix"], entry["middle"], entry["suffix"], [f["text"] for f in opened]
