"""Questions to the record about single keys, and what there is to filter by. Write nothing.

Plain functions of a connection that `connect` opens; figures.py has those about many keys.
"""

import json
import sqlite3
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from completiond.errors import RecordError
from completiond.record import filters, place, schema
from completiond.record.rows import (
    EVERYTHING,
    GROUP,
    Drafted,
    Filter,
    Key,
    Pass,
    Said,
    Served,
    Spelled,
)
from completiond.record.schema import SELECT_KEY

BUSY_S = 1.0
LOOK_S = 0.01
LATELY = 5_000
"""Keys whose buffers are offered as filters."""
AT_ONCE = 500
LOOKED_AT = 50_000
"""Keys among which the latest ones are looked for."""


def connect(store: Path) -> sqlite3.Connection:
    """A connection that only reads; several may while the daemon writes."""
    if not place.is_file(store):
        raise sqlite3.OperationalError("it is no regular file")
    db = sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)
    db.execute("PRAGMA query_only = 1")
    return db


@contextmanager
def reading(store: Path) -> Iterator[sqlite3.Connection]:
    """A connection for a while. Raises RecordError if the store cannot be read."""
    try:
        with closing(connect(store)) as db:
            if 0 < _version(db) < schema.VERSION:
                raise RecordError(
                    f"An older version wrote the record {store}; start the daemon and ask it for "
                    "a completion, which brings it up to date."
                )
            yield db
    except sqlite3.Error as exc:
        raise RecordError(
            f"The record {store} cannot be read ({exc}); see docs/record.md."
        ) from exc


def _version(db: sqlite3.Connection) -> int:
    """What the store is; one that is just being begun, or brought up to date, is waited for."""
    give_up = time.monotonic() + BUSY_S
    while (found := schema.version(db)) < schema.VERSION and time.monotonic() < give_up:
        time.sleep(LOOK_S)
    return found


def latest(
    db: sqlite3.Connection, many: int = 100, only: Filter = EVERYTHING, after_key: int = 0
) -> list[Key]:
    """The newest keys, the newest first; with `after_key` those that came behind that one.

    Without a buffer's name only those among the newest LOOKED_AT keys up to `until_ms`.
    """
    where = filters.of_keys(db, only, apart=not only.path)
    order, last = "k.at_ms DESC, k.key DESC", 1 << 62
    if not only.path:  # by number, back to where it is given up: the times come in no such order
        order, last = "k.key DESC", _last(db, only.until_ms)
        after_key = max(after_key, last - LOOKED_AT)
    ask = f"{SELECT_KEY} WHERE {where.text} AND k.key > ? AND k.key <= ? ORDER BY {order} LIMIT ?"
    return [_key(row) for row in db.execute(ask, (*where.values, after_key, last, many))]


def _last(db: sqlite3.Connection, until_ms: int) -> int:
    """The newest key up to that time. Without one it is the newest that was written: where the
    clock has gone back, others have later times."""
    if until_ms >= EVERYTHING.until_ms:
        row = db.execute("SELECT max(key) FROM keys").fetchone()
    else:
        newest = "SELECT key FROM keys WHERE at_ms <= ? ORDER BY at_ms DESC LIMIT 1"
        row = db.execute(newest, (until_ms,)).fetchone()
    return int(row[0] or 0) if row else 0


def one(db: sqlite3.Connection, key: int) -> Key | None:
    """The key of that number."""
    row = db.execute(f"{SELECT_KEY} WHERE k.key = ?", (key,)).fetchone()
    return _key(row) if row else None


def of_request(db: sqlite3.Connection, request: int) -> Key | None:
    """The newest key that a client gave this id; 0: of all, if it asked or was refused."""
    refused = "k.kind = (SELECT id FROM words WHERE word = 'refused')"
    which = "k.request = ? AND k.request > 0" if request else f"(k.request > ? OR {refused})"
    ask = f"{SELECT_KEY} WHERE {which} ORDER BY k.key DESC LIMIT 1"
    row = db.execute(ask, (request,)).fetchone()
    return _key(row) if row else None


def drafts(db: sqlite3.Connection, key: int) -> list[Drafted]:
    """What each source proposed for that key, the one that proposed most first."""
    ask = (
        "SELECT word, drafted, held FROM drafts JOIN words ON id = source WHERE key = ? "
        "ORDER BY drafted DESC"
    )
    return [Drafted(*row) for row in db.execute(ask, (key,))]


def drafts_of(db: sqlite3.Connection, keys: Sequence[int]) -> dict[int, list[Drafted]]:
    """The same of many keys; those without a draft are left out."""
    found: dict[int, list[Drafted]] = defaultdict(list)
    for at in range(0, len(keys), AT_ONCE):
        some = keys[at : at + AT_ONCE]
        ask = (
            "SELECT key, word, drafted, held FROM drafts JOIN words ON id = source "
            f"WHERE key IN ({', '.join('?' * len(some))}) ORDER BY key, drafted DESC"
        )
        for key, *draft in db.execute(ask, some):
            found[key].append(Drafted(*draft))
    return found


def strip(db: sqlite3.Connection, key: int) -> list[Pass]:
    """The passes of that key's run; kept for the newest keys only."""
    row = db.execute("SELECT passes FROM strips WHERE key = ?", (key,)).fetchone()
    passes = json.loads(row[0]) if row else []
    words = _spelled(db, key) or [[]] * len(passes)
    return [
        Pass(committed, tuple(Drafted(*draft) for draft in found), tuple(map(Spelled._make, said)))
        for (committed, found), said in zip(passes, words, strict=True)
    ]


def _spelled(db: sqlite3.Connection, key: int) -> list[list[Any]]:
    row = db.execute("SELECT passes FROM spelled WHERE key = ?", (key,)).fetchone()
    found: list[list[Any]] = json.loads(zlib.decompress(row[0])) if row else []
    return found


def said(db: sqlite3.Connection, key: int) -> Said | None:
    """The text around that key and its answers, if text is recorded."""
    ask = "SELECT document, place, before, after, answers FROM said WHERE key = ?"
    row = db.execute(ask, (key,)).fetchone()
    if row is None:
        return None
    before, after, answers = (zlib.decompress(blob).decode() for blob in row[2:])
    return Said(key, row[0], row[1], before, after, tuple(json.loads(answers)))


def served(db: sqlite3.Connection) -> list[Served]:
    """The daemons that wrote keys, the newest first."""
    ask = "SELECT daemon, started_ms, pid, version, model, facts FROM daemons ORDER BY 1 DESC"
    return [Served(*(*row[:-1], json.loads(row[-1]))) for row in db.execute(ask)]


def names(db: sqlite3.Connection) -> dict[str, list[str]]:
    """What one can filter by: `language`, `editor`, `model`, and the `path` of late buffers."""
    found = {name: _words(db, f"SELECT {name} FROM groups") for name in GROUP}
    lately = f"SELECT path FROM keys ORDER BY key DESC LIMIT {LATELY}"
    return found | {"path": _words(db, f"SELECT path FROM ({lately})")}


def _words(db: sqlite3.Connection, idents: str) -> list[str]:
    ask = f"SELECT word FROM words WHERE id IN ({idents}) AND word != '' ORDER BY word"
    return [word for (word,) in db.execute(ask)]


def _key(row: Sequence[Any]) -> Key:
    return Key(*(*row[:-1], json.loads(row[-1]) if row[-1] else {}))
