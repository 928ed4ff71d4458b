"""Some days of the record in figures: for the report. Knows the questions; knows no words.

A day begins at midnight UTC: that is how sums are kept.
"""

import sqlite3
from dataclasses import dataclass, replace

from completiond.record import figures, queries
from completiond.record.rows import (
    Bar,
    Filter,
    Point,
    Rate,
    Retained,
    Served,
    Spread,
    Totals,
)

DAY_MS = 86_400_000
LONGEST_TABLE = 12
"""Languages of a table, those with the most keys."""
ASKED = ("model", "joined")
"""Kinds of keys that waited for the model."""


@dataclass(frozen=True, slots=True)
class Group:
    """The keys of one language or one model."""

    name: str
    totals: Totals
    total: Spread | None
    daemon: Spread | None


@dataclass(frozen=True, slots=True)
class Account:
    """What happened in these days. `served` is the daemon that wrote last, if any did."""

    days: int
    since_ms: int
    totals: Totals
    kinds: dict[str, int]
    reasons: dict[str, int]
    outcomes: dict[str, int]
    retained: list[Retained]
    rates: list[Rate]
    stages: list[Spread]
    points: list[Point]
    bars: list[Bar]
    languages: list[Group]
    models: list[Group]
    served: Served | None

    @property
    def asked(self) -> int:
        """Keys that waited for the model."""
        return sum(self.kinds.get(kind, 0) for kind in ASKED)

    def stage(self, name: str) -> Spread | None:
        return next((spread for spread in self.stages if spread.stage == name), None)


def account(db: sqlite3.Connection, days: int, now_ms: int) -> Account:
    """The last `days` days, today being one of them."""
    since = Filter(since_ms=(now_ms // DAY_MS - days + 1) * DAY_MS)
    counts = figures.counted(db, since)
    found = queries.names(db)
    served = queries.served(db)
    return Account(
        days=days,
        since_ms=since.since_ms,
        totals=figures.totals(counts),
        kinds=figures.named(counts, "kind"),
        reasons=figures.named(counts, "reason"),
        outcomes=figures.named(counts, "outcome"),
        retained=figures.retained(counts),
        rates=figures.rates(counts),
        stages=figures.by_stage(db, since),
        points=figures.over_time(db, since),
        bars=figures.histogram(db, since),
        languages=_most([_group(db, n, replace(since, language=n)) for n in found["language"]]),
        models=_most([_group(db, n, replace(since, model=n)) for n in found["model"]]),
        served=served[0] if served else None,
    )


def _group(db: sqlite3.Connection, name: str, only: Filter) -> Group:
    spreads = {spread.stage: spread for spread in figures.by_stage(db, only, ("total", "daemon"))}
    totals = figures.totals(figures.counted(db, only))
    return Group(name, totals, spreads.get("total"), spreads.get("daemon"))


def _most(groups: list[Group]) -> list[Group]:
    """Those with keys, the one with most first."""
    found = [group for group in groups if group.totals.keys]
    return sorted(found, key=lambda group: -group.totals.keys)[:LONGEST_TABLE]
