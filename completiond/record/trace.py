"""A buffer's recorded text as a typing trace that scripts/replay.py reads. Needs `record.text`.

Knows keys and their text around the cursor; writes nothing. What was typed between two questions is
told key by key, at the times of the keys that the language server answered itself.
"""

import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from itertools import pairwise
from os.path import commonprefix
from typing import Any, NamedTuple

from completiond.errors import RecordError
from completiond.record import filters
from completiond.record.rows import Filter

MOST_KEYS = 2_000
"""Of one trace, the newest."""
MOST_TYPED = 200
"""Characters that may have been typed between two questions; more were put in at once."""
_STROKE = re.compile(r"\r?\n[ \t]*|[\s\S]")
"""What one key writes; a new line comes with its indentation."""


class _Seen(NamedTuple):
    """A buffer when the daemon was asked about it."""

    at_ms: int
    text: str
    cursor: int


class _Key(NamedTuple):
    """A key of that buffer; `place` is the cursor's, in the whole document."""

    at_ms: int
    place: int


def trace(db: sqlite3.Connection, only: Filter) -> dict[str, Any]:
    """Of `only.path`, in the time that is asked for. Raises RecordError if no text was recorded."""
    where = filters.of_keys(db, only)
    ask = (
        "SELECT k.at_ms, s.place, s.before, s.after FROM said s JOIN keys k ON k.key = s.key "
        f"WHERE {where.text} ORDER BY k.key DESC LIMIT {MOST_KEYS}"
    )
    rows = db.execute(ask, where.values).fetchall()[::-1] if only.path else []
    if not rows:
        raise RecordError(
            "No text of this buffer is recorded, so it cannot be replayed; "
            "start the daemon with `completiond serve --record-text`."
        )
    seen, places = [], []
    for at_ms, place, *blobs in rows:
        before, after = (zlib.decompress(blob).decode() for blob in blobs)
        seen.append(_Seen(at_ms, before + after, len(before)))
        places.append(place)
    keys = _keys(db, where, seen[0].at_ms)
    return _told(only, _language(db, where), seen, places, keys)


def _told(
    only: Filter, language: str, seen: list[_Seen], places: list[int], keys: list[_Key]
) -> dict[str, Any]:
    began = seen[0].at_ms
    events: list[dict[str, Any]] = [_event(began, seen[0].cursor, "", "", "move")]
    for number, (old, new) in enumerate(pairwise(seen), 1):
        between = [key for key in keys if old.at_ms < key.at_ms <= new.at_ms]
        moved = [key._replace(place=key.place - places[number]) for key in between]
        events += _edits(old, new, moved)
    at = 0
    for event in events:  # the wall clock may have gone backwards
        at = event["t_ms"] = max(at, event["t_ms"] - began)
    return {
        "id": re.sub(r"\W+", "_", only.path).strip("_") or "buffer",
        "path": only.path,
        "language": language,
        "typing": {"model": "recorded", "keys": len(events) - 1},
        "before_text": seen[0].text,
        "events": events,
        "after_text": seen[-1].text,
    }


def _edits(old: _Seen, new: _Seen, keys: list[_Key]) -> Iterator[dict[str, Any]]:
    """From one text to the next: key by key where that is what happened, else at once."""
    if old.text == new.text:
        if old.cursor != new.cursor:
            yield _event(new.at_ms, new.cursor, "", "", "move")
        return
    start, removed, added = _difference(old.text, new.text, min(old.cursor, new.cursor))
    if removed or start + len(added) != new.cursor or len(added) > MOST_TYPED:
        kind = "edit" if len(added) <= MOST_TYPED else "paste-like"
        yield _event(new.at_ms, start, removed, added, kind, new.cursor)
        return
    at = start
    for stroke in _STROKE.findall(added):
        behind = at + len(stroke)
        when = next((key.at_ms for key in keys if key.place >= behind), new.at_ms)
        yield _event(when, at, "", stroke, "type", behind)
        at = behind


def _difference(old: str, new: str, cursor: int) -> tuple[int, str, str]:
    """Where they begin to differ (not behind the cursor: `aa` may grow at any place), what is
    gone, and what is new."""
    start = min(len(commonprefix((old, new))), cursor)
    most = min(len(old), len(new)) - start
    left, right = old[start:], new[start:]
    same = min(most, len(commonprefix((left[::-1], right[::-1]))))
    return start, left[: len(left) - same], right[: len(right) - same]


def _event(
    at: int, offset: int, delete: str, insert: str, kind: str, cursor: int | None = None
) -> dict[str, Any]:
    told = {"t_ms": at, "offset": offset, "delete": delete, "insert": insert, "kind": kind}
    return told | ({"cursor": cursor} if cursor is not None else {})


def _keys(db: sqlite3.Connection, where: filters.Where, since_ms: int) -> list[_Key]:
    ask = f"SELECT k.at_ms, k.position FROM keys k WHERE {where.text} AND k.at_ms >= ? ORDER BY 1"
    return [_Key(*row) for row in db.execute(ask, (*where.values, since_ms))]


def _language(db: sqlite3.Connection, where: filters.Where) -> str:
    ask = (
        "SELECT word FROM keys k JOIN groups g ON g.id = k.grp JOIN words w ON w.id = g.language "
        f"WHERE {where.text} ORDER BY k.key DESC LIMIT 1"
    )
    row = db.execute(ask, where.values).fetchone()
    return str(row[0]) if row else ""


def as_text(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, indent=1)
