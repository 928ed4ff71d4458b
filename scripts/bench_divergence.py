"""bench.py quality --divergence: does a greedy answer depend on how wide its passes were?

A plain continuation, token by token and alone, is computed again in passes of random widths with
random neighbours in the same pass, as drafts and other clients make them. What may differ is
rounding alone: how often it changes the best token, and how near the two best ones then were.
"""

import random
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

WIDEST = 32
NEIGHBOURS = 3
"""At most so many other sequences in a pass."""
PROMPT, ANSWER = 256, 64
"""Tokens."""
ROUNDS = 3
"""Ways in which each prompt is computed again."""
PROMPTS = 16


class Plain(NamedTuple):
    """A greedy continuation: its ids, the logits [V] behind each, and the gap of the best two."""

    ids: list[int]
    logits: list[Any]
    gaps: list[float]


class Again(NamedTuple):
    """The same computed otherwise: rows equal to the bit, and where the best token changed."""

    rows: int
    equal: int
    diverged: int | None


def diverge(arguments: Any) -> dict[str, Any]:
    import bench_quality

    from completiond.model import store
    from completiond.prompt.tokenizer import Tokenizer

    files = store.resolve(arguments.model)
    arguments.snippets = PROMPTS
    tokenizer = Tokenizer.load(files.directory, name=files.name)
    prompts = [ids[:PROMPT] for ids in bench_quality.read_snippets(arguments, tokenizer)]
    found = {}
    for kernel in (arguments.kernel, arguments.reference):
        runner = bench_quality.load(files, kernel, arguments)
        found[kernel] = summary(list(runs(runner, prompts)))
        print(f"{kernel}: {found[kernel]}")
        del runner
    return {"divergence": found}


def runs(runner: Any, prompts: Sequence[list[int]]) -> Iterator[tuple[Plain, Again]]:
    chance = random.Random(1)
    for prompt in prompts:
        plain = continue_plainly(runner, prompt)
        for _ in range(ROUNDS):
            yield plain, compare(plain, list(compute_again(runner, prompt, plain.ids, chance)))


def continue_plainly(runner: Any, prompt: list[int]) -> Plain:
    from completiond.model.kv_cache import Slot

    slot = Slot(runner.kv)
    logits, ids = [runner.prefill(slot, prompt)], []
    for _ in range(ANSWER):
        ids.append(int(logits[-1].argmax()))
        logits.append(runner.prefill(slot, ids[-1:]))
    tops = [row.topk(2).values.tolist() for row in logits[:ANSWER]]
    return Plain(ids, logits[:ANSWER], [first - second for first, second in tops])


def compute_again(
    runner: Any, prompt: list[int], ids: list[int], chance: random.Random
) -> Iterator[Any]:
    """The logits [V] in front of each of `ids`, of passes that are cut at random."""
    from completiond.model.attention import Segment
    from completiond.model.kv_cache import Slot

    slot, text = Slot(runner.kv), prompt + ids[:-1]
    first = len(prompt) - 1  # the row whose logits choose the first of `ids`
    while len(slot) < len(text):
        start = len(slot)
        part = text[start : start + chance.randint(1, WIDEST)]
        wanted = tuple(i for i in range(len(part)) if start + i >= first)
        others = [neighbour(runner, chance) for _ in range(chance.randint(0, NEIGHBOURS))]
        place = chance.randint(0, len(others))
        others.insert(place, Segment(slot, part, None, wanted))
        yield from runner.forward(others).logits[place]
        slot.keep(part, range(len(part)))


def neighbour(runner: Any, chance: random.Random) -> Any:
    """Another sequence's part of a pass: random ids on an empty slot."""
    from completiond.model.attention import Segment
    from completiond.model.kv_cache import Slot

    ids = [chance.randrange(runner.vocab_size) for _ in range(chance.randint(1, WIDEST))]
    return Segment(Slot(runner.kv), ids, None, (len(ids) - 1,))


def compare(plain: Plain, logits: Sequence[Any]) -> Again:
    """Rows behind the first other token are of no interest: there a run would go another way."""
    equal = 0
    for at, (mine, theirs) in enumerate(zip(plain.logits, logits, strict=True)):
        equal += int(bool((mine == theirs).all()))
        if int(theirs.argmax()) != plain.ids[at]:
            return Again(at + 1, equal, at)
    return Again(len(logits), equal, None)


def summary(found: Sequence[tuple[Plain, Again]]) -> dict[str, Any]:
    """Of all runs: how many diverged, and the gaps of plain's best two tokens where they did."""
    gaps = [plain.gaps[again.diverged] for plain, again in found if again.diverged is not None]
    usual = [gap for plain, _ in found for gap in plain.gaps]
    rows, equal = sum(a.rows for _, a in found), sum(a.equal for _, a in found)
    return {
        "runs": len(found),
        "tokens": ANSWER,
        "diverged": len(gaps),
        "rate": round(len(gaps) / len(found), 4),
        "per_1000_tokens": round(1000 * len(gaps) / rows, 2),
        "rows_equal_to_the_bit": round(equal / rows, 4),
        "gaps": [round(gap, 4) for gap in sorted(gaps)],
        "usual_gap": round(statistics.median(usual), 3),
    }
