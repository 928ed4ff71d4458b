"""bench.py quality --items: exact matches of greedy fills, kernel against kernel, item by item.

Prompts, stop rule and trimming are the product's; drafts are on, which on int8 changes no token.
Results go to a file of JSON lines as they come, and a run that is repeated goes on behind them.
An item whose answer grows clearly longer than its reference is no match, and ends there.
"""

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filler import Filler
from infill_items import LINE_KINDS, Item, read_items
from row_file import RowFile

SLACK = 24
"""Tokens that an answer may have more than its reference, for a stop that comes behind it."""
LONGEST = 256
PREFIX_TOKENS, SUFFIX_TOKENS = 768, 256


def exact(filler: Filler, item: Item) -> tuple[bool, str]:
    """Whether the answer is the reference but for white space around it; the answer."""
    from completiond.prompt.stopping import trim

    room = len(filler.tokenizer.encode(item.middle)) + SLACK
    built = filler.built(item, min(room, LONGEST))
    stop = built.stop | ({"single": True} if item.kind in LINE_KINDS else {})
    filler.forget()
    ran = filler.run(built, stop)
    text = trim(ran.text, stop, ran.reason)
    return ran.reason != "length" and text.strip() == item.middle.strip(), text


# -- results --------------------------------------------------------------------------------------


class Results:
    """Answers by kernel and item in a file that grows."""

    def __init__(self, path: Path) -> None:
        self._file = RowFile(path, ("kernel", "item"))
        self.exact = {key: row["exact"] for key, row in self._file.rows.items()}

    def add(self, kernel: str, item: Item, right: bool, text: str) -> None:
        self.exact[kernel, item.key] = right
        self._file.add({"kernel": kernel, "item": item.key, "exact": right, "text": text})


def paired(first: Sequence[bool], second: Sequence[bool]) -> dict[str, Any]:
    """How much more often the first is right, with the 95 % interval of the paired difference."""
    differences = [int(a) - int(b) for a, b in zip(first, second, strict=True)]
    n = len(differences)
    spread = statistics.stdev(differences) if n > 1 else 0.0
    mean, half = statistics.fmean(differences), 1.96 * spread / math.sqrt(n)
    return {
        "items": n,
        "difference": round(mean, 4),
        "interval": [round(mean - half, 4), round(mean + half, 4)],
        "only_first": differences.count(1),
        "only_second": differences.count(-1),
    }


def by_set(items: Sequence[Item], results: Results, kernels: Sequence[str]) -> Iterator[str]:
    """A row for each set: its items and each kernel's exact matches."""
    yield " | ".join(["set", "items", *kernels])
    for name in sorted({item.set for item in items}):
        keys = [item.key for item in items if item.set == name]
        counts = [sum(results.exact[kernel, key] for key in keys) for kernel in kernels]
        yield " | ".join([name, str(len(keys)), *map(str, counts)])


def compare(arguments: Any) -> dict[str, Any]:
    """Fill each item with both kernels, in a mixed order: what is done is a fair sample."""
    kernels = [arguments.reference, arguments.kernel]
    items = read_items(arguments.data / "infill")
    random.Random(1).shuffle(items)
    items = items[: arguments.limit or None]
    results = Results(arguments.out)
    fillers: dict[str, Filler] = {}
    for item in items:
        for kernel in kernels:
            if (kernel, item.key) in results.exact:
                continue
            if kernel not in fillers:
                fillers[kernel] = make_filler(arguments, kernel)
            results.add(kernel, item, *exact(fillers[kernel], item))
    return report(items, results, kernels)


def make_filler(arguments: Any, kernel: str) -> Filler:
    flags = {
        "engine.kernel": kernel,
        "engine.threads": arguments.threads,
        "completion.prefix_tokens": PREFIX_TOKENS,
        "completion.suffix_tokens": SUFFIX_TOKENS,
    }
    return Filler(arguments.model, flags)


def report(items: Sequence[Item], results: Results, kernels: Sequence[str]) -> dict[str, Any]:
    """Prints a table by set; the last of `kernels` is compared with the first."""
    for row in by_set(items, results, kernels):
        print(row)
    right = {k: [results.exact[k, item.key] for item in items] for k in kernels}
    return {
        "exact": {kernel: sum(found) for kernel, found in right.items()},
        "paired": paired(right[kernels[-1]], right[kernels[0]]),
    }
