"""Durations in buckets, of which percentiles can be taken at any time. Arithmetic only.

A bucket is an eighth of an octave, so a percentile is within 5 % of the true one.
"""

import math
from collections.abc import Mapping, Sequence

PER_OCTAVE = 8
LAST = 40 * PER_OCTAVE


def bucket(us: int) -> int:
    """The bucket of a duration; all under 1 µs are one."""
    return min(LAST, round(PER_OCTAVE * math.log2(us))) if us > 1 else 0


def middle(number: int) -> int:
    """The duration that stands for a bucket."""
    return round(2 ** (number / PER_OCTAVE))


def edges(number: int) -> tuple[int, int]:
    """From which duration on, and below which, the bucket is."""
    if number == 0:
        return 0, 2
    low, high = (math.ceil(2 ** ((number + half) / PER_OCTAVE)) for half in (-0.5, 0.5))
    return low, high


def percentiles(counts: Mapping[int, int], wanted: Sequence[float]) -> list[int]:
    """By the counts of each bucket; zeros if there are none."""
    total = sum(counts.values())
    found, seen = [], 0
    ordered = iter(sorted(counts.items()))
    current = 0
    for share in sorted(wanted):
        while seen < max(1, math.ceil(share * total)) and total:
            current, count = next(ordered)
            seen += count
        found.append(middle(current) if total else 0)
    return found


def exact(durations: Sequence[int], wanted: Sequence[float]) -> list[int]:
    """The same of the durations themselves."""
    ordered = sorted(durations)
    last = len(ordered) - 1
    ranks = (max(0, math.ceil(share * len(ordered)) - 1) for share in sorted(wanted))
    return [ordered[min(last, rank)] if ordered else 0 for rank in ranks]
