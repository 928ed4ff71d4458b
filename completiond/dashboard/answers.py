"""The record as the page is told it: plain data out of a connection. Knows questions and their
answers' names; draws nothing and knows no request.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Protocol

from completiond.dashboard.asked import Asked
from completiond.record import choices, figures, filters, queries
from completiond.record.facts import facts_of, in_words
from completiond.record.filters import LONG_MS
from completiond.record.rows import Key, Point
from completiond.record.wall import now_ms

MINUTE_MS = 60_000
_TOLD = (
    *("key", "at_ms", "language", "editor", "model", "path", "position", "trigger", "kind"),
    *("reason", "why", "outcome", "request", "shown", "taken", "prompt", "reused", "prefilled"),
    *("generated", "passes", "wrote", "drafted", "held", "free_us", "after_cancel", "drawn_us"),
    "clock_us",
)


class _Row(Protocol):
    def _asdict(self) -> dict[str, Any]: ...


def plain(key: Key) -> dict[str, Any]:
    """A row of the waterfall."""
    told = {name: getattr(key, name) for name in _TOLD}
    return told | {"stages": key.stages, "took_us": key.took_us}


def latest(db: sqlite3.Connection, asked: Asked) -> dict[str, Any]:
    return {"keys": [plain(key) for key in queries.latest(db, asked.many, asked.only)]}


def one(db: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Everything that is known of one key."""
    key = queries.one(db, number)
    if key is None:
        return None
    drafts = queries.drafts(db, number)
    facts = facts_of(key, drafts, now_ms())
    said = queries.said(db, number)
    return plain(key) | {
        "words": in_words(facts),
        "facts": {name: facts[name] for name in ("characters", "ended", "removed", "left")},
        "message": facts.get("message", ""),
        "drafts": _dicts(drafts),
        "strip": [
            {"committed": one.committed, "drafts": _dicts(one.drafts), "words": _dicts(one.words)}
            for one in queries.strip(db, number)
        ],
        "said": said and {"before": said.before[-400:], "answers": said.answers},
    }


def charts(db: sqlite3.Connection, asked: Asked) -> dict[str, Any]:
    """Everything that is drawn of many keys."""
    only = asked.only
    counts = figures.counted(db, only)
    totals = figures.totals(counts)
    return {
        "totals": totals._asdict()
        | {"taken": totals.taken, "tokens_per_pass": totals.tokens_per_pass},
        "reused": counts["reused"],
        "kinds": figures.named(counts, "kind"),
        "reasons": figures.named(counts, "reason"),
        "outcomes": figures.named(counts, "outcome"),
        "sources": _dicts(figures.rates(counts)),
        "retained": _dicts(figures.retained(counts)),
        "stages": _dicts(figures.by_stage(db, only)),
        "stage": asked.stage,
        "points": _dicts(_points(db, asked)),
        "bars": _dicts(figures.histogram(db, only, asked.stage)),
        "choices": _choices(choices.choices(db, only)),
    }


def _points(db: sqlite3.Connection, asked: Asked) -> list[Point]:
    """Over a long time they are hours or days: finer where all keys are from the last hours."""
    found = figures.over_time(db, asked.only, asked.stage)
    lately = now_ms() - LONG_MS + MINUTE_MS
    if not filters.is_long(asked.only) or not found or found[0].at_ms < lately:
        return found
    return figures.over_time(db, replace(asked.only, since_ms=lately), asked.stage)


def about(db: sqlite3.Connection) -> dict[str, Any]:
    """What one may filter by, and the daemon that wrote last."""
    served = queries.served(db)[:1]
    told = [
        {"model": one.model, "version": one.version, "started_ms": one.started_ms} | one.facts
        for one in served
    ]
    texts = db.execute("SELECT EXISTS (SELECT 1 FROM said)").fetchone()[0]
    return {"names": queries.names(db), "served": told, "text": bool(texts)}


def _choices(found: choices.Choices) -> dict[str, Any]:
    return found._asdict() | {"sources": _dicts(found.sources)}


def _dicts(rows: Iterable[_Row]) -> list[dict[str, Any]]:
    return [row._asdict() for row in rows]
