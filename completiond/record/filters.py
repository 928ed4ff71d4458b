"""Which keys a question is about, as SQL. Knows the tables and `Filter`.

A time is covered by sums of weeks, days and hours: of over two days all but the days at its ends
are weeks where whole weeks fit.
"""

import sqlite3
from typing import Any, NamedTuple

from completiond.record.rows import EVERYTHING, GROUP, Filter
from completiond.record.tallies import HOUR_MS
from completiond.record.wall import now_ms

LONG_MS = 6 * HOUR_MS
"""From so long a time on, sums are asked instead of the keys themselves."""
FINE_HOURS = 48
"""Up to so long a time, it is covered by hours."""
FINE_AXIS_HOURS = 200
"""The same where a question asks when."""
DAY, WEEK = 24, 168


class Where(NamedTuple):
    """A condition, and the values of its question marks."""

    text: str
    values: list[Any]


def is_long(only: Filter) -> bool:
    """Whether sums answer it: a long time, and no single buffer."""
    until = min(only.until_ms, now_ms())
    return not only.path and until - only.since_ms > LONG_MS


def of_keys(db: sqlite3.Connection, only: Filter, *, apart: bool = False) -> Where:
    """A condition on `keys k`; `apart`: for a search that goes by another order than the time."""
    parts, values = ["1" + _in_groups(db, only, "k.grp")], list[Any]()
    if only.since_ms > 0 or only.until_ms < EVERYTHING.until_ms:
        parts.append(f"{'+' if apart else ''}k.at_ms BETWEEN ? AND ?")
        values += [only.since_ms, only.until_ms]
    if only.path:
        parts.append("k.path = (SELECT id FROM words WHERE word = ?)")
        values.append(only.path)
    return Where(" AND ".join(parts), values)


class Slots(NamedTuple):
    """Sums of so many hours each, from slot `first` to slot `last`."""

    hours: int
    first: int
    last: int


def of_groups(db: sqlite3.Connection, only: Filter) -> str:
    """A condition on the groups of sums, which begins with AND if there is one."""
    return _in_groups(db, only, "grp")


def slots(db: sqlite3.Connection, only: Filter, *, axis: bool = False) -> list[Slots]:
    """What covers the time, each hour once. Hours, or days, that it touches are taken whole.

    `axis`: all of one length, as fine as there is time for.
    """
    ask = "SELECT {}(slot) FROM sums WHERE hours = 1"  # one at a time: the index says both at once
    ends = [db.execute(ask.format(end)).fetchone()[0] for end in ("min", "max")]
    if ends[0] is None:
        return []
    first = max(int(ends[0]), only.since_ms // HOUR_MS)
    last = min(int(ends[1]), only.until_ms // HOUR_MS)
    if last - first <= (FINE_AXIS_HOURS if axis else FINE_HOURS):
        return [Slots(1, first, last)]
    days = Slots(DAY, first // DAY, last // DAY)
    return [days] if axis else _with_weeks(days)


def _with_weeks(days: Slots) -> list[Slots]:
    """The same time, its whole weeks as weeks."""
    in_week = WEEK // DAY
    weeks = Slots(WEEK, -(-days.first // in_week), (days.last + 1) // in_week - 1)
    if weeks.last < weeks.first:
        return [days]
    before = Slots(DAY, days.first, weeks.first * in_week - 1)
    behind = Slots(DAY, (weeks.last + 1) * in_week, days.last)
    return [part for part in (before, weeks, behind) if part.first <= part.last]


def _in_groups(db: sqlite3.Connection, only: Filter, column: str) -> str:
    wanted = {name: getattr(only, name) for name in GROUP if getattr(only, name)}
    if not wanted:
        return ""
    same = " AND ".join(f"{name} = (SELECT id FROM words WHERE word = ?)" for name in wanted)
    found = db.execute(f"SELECT id FROM groups WHERE {same}", tuple(wanted.values()))
    return f" AND {column} IN ({', '.join(str(ident) for (ident,) in found)})"
