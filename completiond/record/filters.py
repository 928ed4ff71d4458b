"""Which keys a question is about, as SQL. Knows the tables and `Filter`."""

import sqlite3
import time
from typing import Any, NamedTuple

from completiond.record.rows import EVERYTHING, GROUP, Filter
from completiond.record.tallies import HOUR_MS

LONG_MS = 6 * HOUR_MS
"""From so long a time on, sums of whole hours are asked instead of the keys themselves."""


class Where(NamedTuple):
    """A condition, and the values of its question marks."""

    text: str
    values: list[Any]


def is_long(only: Filter) -> bool:
    """Whether sums of hours answer it: a long time, and no single buffer."""
    until = min(only.until_ms, time.time_ns() // 1_000_000)
    return not only.path and until - only.since_ms > LONG_MS


def of_keys(db: sqlite3.Connection, only: Filter) -> Where:
    """A condition on `keys k`."""
    parts, values = ["1" + _in_groups(db, only, "k.grp")], list[Any]()
    if only.since_ms > 0 or only.until_ms < EVERYTHING.until_ms:
        parts.append("k.at_ms BETWEEN ? AND ?")
        values += [only.since_ms, only.until_ms]
    if only.path:
        parts.append("k.path = (SELECT id FROM words WHERE word = ?)")
        values.append(only.path)
    return Where(" AND ".join(parts), values)


def of_hours(db: sqlite3.Connection, only: Filter) -> Where:
    """A condition on the sums of hours; those that the time touches are taken whole."""
    hours = [only.since_ms // HOUR_MS, only.until_ms // HOUR_MS]
    return Where(f"hour BETWEEN ? AND ?{_in_groups(db, only, 'grp')}", hours)


def _in_groups(db: sqlite3.Connection, only: Filter, column: str) -> str:
    wanted = {name: getattr(only, name) for name in GROUP if getattr(only, name)}
    if not wanted:
        return ""
    same = " AND ".join(f"{name} = (SELECT id FROM words WHERE word = ?)" for name in wanted)
    found = db.execute(f"SELECT id FROM groups WHERE {same}", tuple(wanted.values()))
    return f" AND {column} IN ({', '.join(str(ident) for (ident,) in found)})"
