"""Scores of answers: cut to what was asked for, compared with what was there, side with side.

Pure functions of texts and numbers. Both sides of a comparison go through the same `cut`. Intervals
of 95 % are bootstraps of the paired differences over groups: holes of one text hang together.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from infill_items import BLOCK_KINDS, LINE_KINDS, Item

RESAMPLES = 2000
LEAST_REST = 4
"""Characters of the rest of a line that a span does not hold by chance."""
MEETING = 3
"""Lines in a row that the buffer has next: one alone may be a closer of the block's own."""


def cut(text: str, item: Item) -> str:
    """What of an answer stands for the hole: its line, its block, or its span."""
    if item.kind in LINE_KINDS:
        whole_line = not item.prefix.rpartition("\n")[2].strip()
        return (text.lstrip("\n") if whole_line else text).partition("\n")[0].rstrip()
    if item.kind in BLOCK_KINDS:
        return _block(text, item)
    rest = item.suffix.partition("\n")[0].strip()
    return text.partition(rest)[0] if len(rest) >= LEAST_REST else text


def _block(text: str, item: Item) -> str:
    """Up to where it goes on as the buffer does; at a file's end, to where it leaves the block.

    Where no tests judge it, where the block ends is chance: it has as many lines as what was there.
    """
    lines = text.rstrip().split("\n")
    if not (item.more.get("tests") or item.more.get("io_tests")):
        return "\n".join(lines[: item.middle.rstrip().count("\n") + 1])
    below = [line.rstrip() for line in item.suffix.split("\n") if line.strip()][:MEETING]
    indented = _indented(item.prefix.rpartition("\n")[2] + text)
    for at in range(1, len(lines)):
        coming = [line.rstrip() for line in lines[at:] if line.strip()][: len(below) or 1]
        leaves = indented and not _indented(lines[at]) and lines[at][:1] not in (")", "]", "}")
        if coming == below[: len(coming)] or (not below and lines[at] and leaves):
            return "\n".join(lines[:at]).rstrip()
    return "\n".join(lines)


def _indented(text: str) -> bool:
    return text.lstrip("\n")[:1] in (" ", "\t")


def exact(text: str, item: Item) -> bool:
    """Whether it is what was there, but for white space around it. `text` is cut."""
    return text.strip() == item.middle.strip()


def similarity(text: str, item: Item) -> float:
    """1 - edits / the longer one's length, of texts without white space around them."""
    ours, theirs = text.strip(), item.middle.strip()
    longest = max(len(ours), len(theirs))
    return 1.0 if not longest else 1 - edits(ours, theirs) / longest


def edits(one: str, other: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(other) + 1))
    for i, char in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, char_other in enumerate(other, 1):
            changed = before + (char != char_other)
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, changed)
    return row[-1]


def mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 4) if values else None


def paired(
    first: Sequence[float], second: Sequence[float], groups: Sequence[str]
) -> dict[str, Any]:
    """How much higher the first is, with its interval; and how often each is the higher one."""
    differences = [float(a) - float(b) for a, b in zip(first, second, strict=True)]
    return {
        "difference": mean(differences),
        "interval": bootstrap(differences, groups),
        "only_first": sum(d > 0 for d in differences),
        "only_second": sum(d < 0 for d in differences),
    }


def bootstrap(values: Sequence[float], groups: Sequence[str]) -> list[float]:
    """The middle 95 % of the means of resampled groups, the same each time."""
    sums: dict[str, list[float]] = {}
    for value, group in zip(values, groups, strict=True):
        sums.setdefault(group, []).append(value)
    parts = [(sum(found), len(found)) for found in sums.values()]
    if len(parts) < 2:
        return []
    chance, means = random.Random(1), []
    for _ in range(RESAMPLES):
        drawn = chance.choices(parts, k=len(parts))
        means.append(sum(total for total, _ in drawn) / sum(count for _, count in drawn))
    means.sort()
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]
    return [round(low, 4), round(high, 4)]


def by_language(items: Sequence[Item], scores: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """The mean of each score over the items of each language, and how many those are."""
    found: dict[str, Any] = {}
    for language in sorted({item.language for item in items}):
        at = [i for i, item in enumerate(items) if item.language == language]
        means = {name: mean([values[i] for i in at]) for name, values in scores.items()}
        found[language] = {"items": len(at)} | means
    return found
