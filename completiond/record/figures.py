"""Questions to the record about many keys: percentiles, histograms, counts. Write nothing.

Over a long time, and without a buffer's name, they come from sums of hours, days and weeks, which a
million keys do not slow down; else from the newest keys that fit (sample.py).
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence

from completiond.record import filters, sample
from completiond.record.rows import (
    EVERYTHING,
    RETAINED_S,
    Bar,
    Filter,
    Point,
    Rate,
    Retained,
    Spread,
    Totals,
)
from completiond.record.spread import edges, percentiles
from completiond.record.tallies import HOUR_MS, MEASURED

SHARES = (0.5, 0.9, 0.99)


def over_time(
    db: sqlite3.Connection, only: Filter = EVERYTHING, stage: str = "total", points: int = 48
) -> list[Point]:
    """Percentiles of a stage in equal spans of time, the earliest first; empty ones left out."""
    found = _moments(db, only, stage)
    if not found:
        return []
    moments = list(found)
    first = min(moments)
    step = max(1, -(-(max(moments) - first + 1) // points))
    slots: dict[int, Counter[int]] = defaultdict(Counter)
    for at, counts in found.items():
        slots[(at - first) // step].update(counts)
    return [
        Point(first + slot * step, counts.total(), *percentiles(counts, SHARES))
        for slot, counts in sorted(slots.items())
    ]


def by_stage(
    db: sqlite3.Connection, only: Filter = EVERYTHING, stages: Sequence[str] = MEASURED
) -> list[Spread]:
    """Percentiles of each stage that took any time, in the order of `stages`.

    `free` is from a cancel to a free device, `drawn` from the reply to what the editor drew.
    """
    found = {stage: buckets(db, only, stage) for stage in stages}
    return [
        Spread(stage, found[stage].total(), *percentiles(found[stage], SHARES))
        for stage in stages
        if found[stage]
    ]


def buckets(db: sqlite3.Connection, only: Filter, stage: str) -> Counter[int]:
    """How many keys had the stage in each bucket (spread.py)."""
    counts: Counter[int] = Counter()
    if not filters.is_long(only):
        for found in sample.moments(db, only, stage).values():
            counts.update(found)
        return counts
    for part in filters.slots(db, only):
        counts.update(dict(db.execute(_ask(db, only, "bucket"), (stage, *part))))
    return counts


def histogram(db: sqlite3.Connection, only: Filter = EVERYTHING, stage: str = "total") -> list[Bar]:
    """How many keys took how long, in bars of an eighth of an octave without gaps."""
    counts = buckets(db, only, stage)
    if not counts:
        return []
    return [Bar(*edges(at), counts[at]) for at in range(min(counts), max(counts) + 1)]


def counted(db: sqlite3.Connection, only: Filter = EVERYTHING) -> Counter[str]:
    """All counts by name; docs/record.md says which there are."""
    if not filters.is_long(only):
        return sample.counted(db, only)
    ask = (
        "SELECT word, total FROM (SELECT what, SUM(n) AS total FROM sums WHERE hours = ? AND slot "
        f"BETWEEN ? AND ?{filters.of_groups(db, only)} GROUP BY what) JOIN words ON id = what"
    )
    counts: Counter[str] = Counter()
    for part in filters.slots(db, only):
        counts.update(dict(db.execute(ask, part)))
    return counts


# -- of the counts --------------------------------------------------------------------------------


def named(counts: Counter[str], name: str) -> dict[str, int]:
    """Of those counts the ones of one kind: `kind`, `reason`, `outcome`; the largest first."""
    return {
        what.removeprefix(f"{name} "): n
        for what, n in counts.most_common()
        if what.startswith(f"{name} ") and n > 0
    }


def totals(counts: Counter[str]) -> Totals:
    names = {field: field.replace("_characters", " characters") for field in Totals._fields}
    outcomes = {
        field: f"outcome {field}" for field in ("accepted", "partially", "typed", "rejected")
    }
    return Totals(**{field: counts[name] for field, name in (names | outcomes).items()})


def rates(counts: Counter[str]) -> list[Rate]:
    """Acceptance by source, the one that drafts most first."""
    drafted = named(counts, "drafted")
    return [Rate(source, n, counts[f"held {source}"]) for source, n in drafted.items()]


def retained(counts: Counter[str]) -> list[Retained]:
    """Of what was taken, how many characters are left after each of RETAINED_S."""
    return [Retained(s, counts[f"left {s} of"], counts[f"left {s}"]) for s in RETAINED_S]


# -- durations ------------------------------------------------------------------------------------


def _moments(db: sqlite3.Connection, only: Filter, stage: str) -> dict[int, Counter[int]]:
    """Buckets of a stage by moment: the beginning of an hour or a day, or that of the key."""
    if not filters.is_long(only):
        return sample.moments(db, only, stage)
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for part in filters.slots(db, only, axis=True):
        for slot, bucket, n in db.execute(_ask(db, only, "slot, bucket"), (stage, *part)):
            found[slot * part.hours * HOUR_MS][bucket] += n
    return found


def _ask(db: sqlite3.Connection, only: Filter, by: str) -> str:
    return (
        f"SELECT {by}, SUM(n) FROM spread WHERE stage = (SELECT id FROM words WHERE word = ?) AND "
        f"hours = ? AND slot BETWEEN ? AND ?{filters.of_groups(db, only)} GROUP BY {by}"
    )
