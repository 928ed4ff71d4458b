"""What the planner chose: how often each source was asked, how much it drafted, what a pass
committed. From the strips of the newest keys that have one; writes nothing.
"""

import json
import sqlite3
from collections import Counter
from typing import NamedTuple

from completiond.record import filters
from completiond.record.rows import EVERYTHING, Filter

LOOKED_AT = 300
"""Runs whose passes are counted."""


class Chosen(NamedTuple):
    """One source: passes that it drafted for, and tokens."""

    source: str
    passes: int
    drafted: int
    held: int


class Choices(NamedTuple):
    """`plain` of the `passes` had no draft, all of them gave `written` tokens; `committed` is
    passes by the tokens that they gave."""

    runs: int
    passes: int
    plain: int
    written: int
    sources: list[Chosen]
    committed: dict[int, int]


def choices(db: sqlite3.Connection, only: Filter = EVERYTHING) -> Choices:
    where = filters.of_keys(db, only, apart=not only.path)
    ask = (
        f"SELECT s.passes FROM strips s JOIN keys k ON k.key = s.key WHERE {where.text} "
        f"ORDER BY s.key DESC LIMIT {LOOKED_AT}"
    )
    runs = [json.loads(text) for (text,) in db.execute(ask, where.values)]
    passes = [one for run in runs for one in run]
    chosen, drafted, held = Counter[str](), Counter[str](), Counter[str]()
    for _, drafts in passes:
        for source, proposed, kept in drafts:
            chosen[source] += 1
            drafted[source] += proposed
            held[source] += kept
    return Choices(
        len(runs),
        len(passes),
        sum(not drafts for _, drafts in passes),
        sum(committed for committed, _ in passes),
        [Chosen(source, n, drafted[source], held[source]) for source, n in chosen.most_common()],
        dict(sorted(Counter(committed for committed, _ in passes).items())),
    )
