"""Counts and durations from the keys themselves: the newest SAMPLE that fit. Writes nothing.

Says what the sums would say (tallies.py), and a test holds the two together.
"""

import sqlite3
from collections import Counter, defaultdict

from completiond.record import filters
from completiond.record.rows import RETAINED_S, STAGES, Filter
from completiond.record.spread import bucket
from completiond.record.tallies import INSIDE

SAMPLE = 10_000
"""Keys that are read for an answer."""

_INSIDE = [f"{stage}_us" for stage in INSIDE]
_DAEMON = " + ".join(f"ifnull({column}, 0)" for column in _INSIDE)
_DURATIONS = {stage: f"{stage}_us" for stage in (*STAGES, "total", "text", "drawn", "free")} | {
    "daemon": f"CASE WHEN coalesce({', '.join(_INSIDE)}) NOTNULL THEN {_DAEMON} END"
}
_NUMBERS = ("generated", "passes", "wrote", "prompt", "prefilled", "reused")
_RETAINED = [
    column
    for s in RETAINED_S
    for column in (f"SUM(kept_{s})", f"SUM(CASE WHEN kept_{s} NOTNULL THEN ifnull(taken, 0) END)")
]
_SUMS = [
    "SUM(shown) FILTER (WHERE outcome.word != '')",
    "SUM(taken) FILTER (WHERE outcome.word != '')",
    *(f"SUM({name})" for name in _NUMBERS),
    *_RETAINED,
]
_NAMES = [
    "shown characters",
    "taken characters",
    *_NUMBERS,
    *(name for s in RETAINED_S for name in (f"left {s}", f"left {s} of")),
]
_WORDS = ("kind", "reason", "why", "outcome")
_REASON = (
    "CASE WHEN reason.word = 'timeout' AND shown > 0 THEN 'ok' "
    "WHEN why.word = '' THEN reason.word ELSE why.word END"
)
_NO_WARM = "k.kind IS NOT (SELECT id FROM words WHERE word = 'warm')"


def moments(db: sqlite3.Connection, only: Filter, stage: str) -> dict[int, Counter[int]]:
    """Buckets of a stage, by the moment of the key."""
    where = filters.of_keys(db, only)
    ask = f"SELECT at_ms, {_DURATIONS[stage]} FROM {_newest(where.text)}"
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for at_ms, us in db.execute(ask, where.values):
        if us is not None:
            found[at_ms][bucket(us)] += 1
    return found


def counted(db: sqlite3.Connection, only: Filter) -> Counter[str]:
    """The same names as in the sums."""
    where = filters.of_keys(db, only)
    ask = (
        f"SELECT kind.word, {_REASON}, outcome.word, COUNT(*), {', '.join(_SUMS)} "
        f"FROM {_newest(where.text)} k "
        + " ".join(f"JOIN words {name} ON {name}.id = k.{name}" for name in _WORDS)
        + " GROUP BY 1, 2, 3"
    )
    total: Counter[str] = Counter()
    for kind, reason, outcome, keys, *sums in db.execute(ask, where.values):
        names = ["keys", f"kind {kind}", f"reason {reason}"]
        names += ["answers", f"outcome {outcome}"] if outcome else []
        total.update(dict.fromkeys(names, keys))
        total.update({name: n or 0 for name, n in zip(_NAMES, sums, strict=True)})
    return total + _drafts(db, where)


def _drafts(db: sqlite3.Connection, where: filters.Where) -> Counter[str]:
    ask = (
        "SELECT word, SUM(d.drafted), SUM(d.held) FROM drafts d JOIN words ON id = source "
        f"WHERE d.key IN (SELECT key FROM {_newest(where.text)}) GROUP BY 1"
    )
    found: Counter[str] = Counter()
    for source, drafted, held in db.execute(ask, where.values):
        found.update({f"drafted {source}": drafted, f"held {source}": held})
    return found


def _newest(where: str) -> str:
    return f"(SELECT * FROM keys k WHERE {where} AND {_NO_WARM} ORDER BY at_ms DESC LIMIT {SAMPLE})"
