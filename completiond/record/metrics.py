"""The record as counters that only grow, for Prometheus: numbers only, no names of metrics.

They begin with the week before the caller did (weeks are how sums are kept for long) and grow until
the record forgets that week. Durations are counted within 5 %.
"""

import sqlite3
from collections import Counter
from dataclasses import dataclass

from completiond.record import figures
from completiond.record.rows import Filter
from completiond.record.spread import middle
from completiond.record.tallies import HOUR_MS, MEASURED

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the buckets: from a kept answer to a cold prompt on a slow processor."""
WEEK_MS = 168 * HOUR_MS


@dataclass(frozen=True, slots=True)
class Durations:
    """One stage as a histogram: keys up to each of BOUNDS_S, all of them, and their seconds."""

    stage: str
    up_to: tuple[int, ...]
    keys: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """`counts` are named as in docs/record.md."""

    counts: Counter[str]
    durations: tuple[Durations, ...]


def numbers(db: sqlite3.Connection, began_ms: int) -> Numbers:
    """All since the week before `began_ms`, unix time, which a caller leaves as it is."""
    since = Filter(since_ms=max(0, (began_ms // WEEK_MS - 1) * WEEK_MS))
    found = [_durations(stage, figures.buckets(db, since, stage)) for stage in MEASURED]
    return Numbers(figures.counted(db, since), tuple(one for one in found if one.keys))


def _durations(stage: str, counts: Counter[int]) -> Durations:
    seconds = [(middle(bucket) / 1e6, n) for bucket, n in counts.items()]
    up_to = tuple(sum(n for took, n in seconds if took <= bound) for bound in BOUNDS_S)
    return Durations(stage, up_to, counts.total(), sum(took * n for took, n in seconds))
