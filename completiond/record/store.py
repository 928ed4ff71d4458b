"""One store being written: rows in, rows changed, old rows out. Knows SQL and rows; no threads.

Every call is one transaction. What goes wrong is sqlite3's error, and nothing is half written.
"""

import json
import sqlite3
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from completiond.record import place, schema
from completiond.record.rows import GROUP, NUMBERS, WORDS, Drafted, Key, Pass, Said, Served
from completiond.record.tallies import HOUR_MS, SPANS, added

BUSY_S = 0.2
KNOWN = 8_192
"""Keys that may still change: who tells of them remembers fewer."""
LONGEST_WORD = 200
WORDS_AT_HAND = 4_096


class Full(NamedTuple):
    """A key as it is now, and what belongs to it. `text` only if text is recorded."""

    key: Key
    drafts: tuple[Drafted, ...] = ()
    passes: tuple[Pass, ...] = ()
    text: Said | None = None


class _Written(NamedTuple):
    row: int
    key: Key
    drafts: tuple[Drafted, ...]


class Newer(sqlite3.DatabaseError):
    """A later version of this program wrote the store."""


class Store:
    """`write` takes keys by a number that the caller gave them; 0 is no number."""

    def __init__(self, path: Path, daemon: Served) -> None:
        place.create(path)
        self.path = path
        self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        self._words: dict[str, int] = {}
        self._groups: dict[tuple[str, ...], int] = {}
        self._written: OrderedDict[int, _Written] = OrderedDict()
        self._seen = -1
        self._removed = False
        try:
            self._open(daemon)
        except sqlite3.Error:
            self._db.close()
            raise

    def _open(self, daemon: Served) -> None:
        self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA journal_size_limit = 16777216")
        if schema.version(self._db) > schema.VERSION:
            raise Newer("a newer version of completiond wrote it")
        schema.migrate(self._db)
        with self._transaction():
            made = self._db.execute(_BEGIN, (daemon.started_ms, daemon.pid, daemon.version))
        self.daemon = int(made.lastrowid or 0)
        self.describe(daemon)

    def describe(self, daemon: Served) -> None:
        """What is known of the daemon that writes here, now that its model is loaded."""
        ask = "UPDATE daemons SET model = ?, facts = ? WHERE daemon = ?"
        with self._transaction():
            self._db.execute(
                ask, (daemon.model, json.dumps(daemon.facts, default=str), self.daemon)
            )

    def close(self) -> None:
        self._db.close()

    # -- writing --------------------------------------------------------------------------------

    def write(self, states: Mapping[int, Full]) -> None:
        """Keys that are new, and those that have changed since they were written."""
        tally = Counter[tuple[int, ...]]()
        now: dict[int, _Written] = {}
        with self._transaction():
            for number, state in states.items():
                now[number] = self._put(number, state, now)
                self._tally(tally, self._written.get(number), -1)
                self._tally(tally, now[number], 1)
            for ask, length in ((_ADD_SUM, 4), (_ADD_SPREAD, 5)):
                rows = [(*at, n) for at, n in tally.items() if len(at) == length and n]
                self._db.executemany(ask, rows)
        self._written.update(now)
        while len(self._written) > KNOWN:
            self._written.popitem(last=False)

    def _put(self, number: int, state: Full, now: Mapping[int, _Written]) -> _Written:
        was, key = self._written.get(number), state.key
        behind = now.get(key.answer or 0) or self._written.get(key.answer or 0)
        row = (
            self._group(key),
            *(self._word(getattr(key, name)) for name in WORDS),
            *(self._number(key, name, behind) for name in NUMBERS),
            json.dumps(key.details) if key.details else None,
        )
        if was is None:
            ident = int(self._db.execute(_INSERT, row).lastrowid or 0)
        else:
            ident = was.row
            self._db.execute(_UPDATE, (*row, ident))
        self._put_more(ident, state, was)
        return _Written(ident, key, state.drafts)

    def _number(self, key: Key, name: str, behind: _Written | None) -> int | None:
        if name == "daemon":
            return self.daemon
        if name == "answer":
            return behind.row if behind is not None else None
        value: int | None = getattr(key, name)
        return value

    def _put_more(self, ident: int, state: Full, was: _Written | None) -> None:
        if was is None or state.drafts != was.drafts:
            found = [(ident, self._word(source), *counts) for source, *counts in state.drafts]
            self._db.executemany("INSERT OR REPLACE INTO drafts VALUES (?, ?, ?, ?)", found)
        if state.passes:
            strip = json.dumps([[one.committed, one.drafts] for one in state.passes])
            self._db.execute("INSERT OR REPLACE INTO strips VALUES (?, ?)", (ident, strip))
            self._spell(ident, state)
        if state.text is not None:
            text = state.text
            blobs = [
                zlib.compress(part.encode("utf-8", "replace"), 1)
                for part in (text.before, text.after, json.dumps(text.answers))
            ]
            values = (ident, text.document, text.offset, *blobs)
            self._db.execute("INSERT OR REPLACE INTO said VALUES (?, ?, ?, ?, ?, ?)", values)

    def _spell(self, ident: int, state: Full) -> None:
        """The tokens of its strip as text, if that is recorded."""
        if any(one.words for one in state.passes):
            text = json.dumps([one.words for one in state.passes], ensure_ascii=False)
            blob = zlib.compress(text.encode("utf-8", "replace"), 1)
            self._db.execute("INSERT OR REPLACE INTO spelled VALUES (?, ?)", (ident, blob))

    def _tally(self, tally: Counter[tuple[int, ...]], written: _Written | None, sign: int) -> None:
        """Put on what a key adds, or take it off: of `sums` 4 numbers say where, of `spread` 5."""
        if written is None:
            return
        group, hour = self._group(written.key), written.key.at_ms // HOUR_MS
        counts = added(written.key, written.drafts)
        sums = [(self._word(what), n) for what, n in counts.sums.items()]
        spread = [(self._word(stage), at, n) for (stage, at), n in counts.spread.items()]
        for hours in SPANS:
            slot = hour // hours
            for what, n in sums:
                tally[hours, slot, what, group] += sign * n
            for stage, at, n in spread:
                tally[hours, stage, slot, at, group] += sign * n

    # -- words ----------------------------------------------------------------------------------

    def _word(self, text: str) -> int:
        text = text[-LONGEST_WORD:]
        found = self._words.get(text)
        if found is None:
            self._db.execute("INSERT OR IGNORE INTO words (word) VALUES (?)", (text,))
            row = self._db.execute("SELECT id FROM words WHERE word = ?", (text,)).fetchone()
            found = self._words[text] = int(row[0])
        return found

    def _group(self, key: Key) -> int:
        names = tuple(getattr(key, name) for name in GROUP)
        found = self._groups.get(names)
        if found is None:
            idents = [self._word(name) for name in names]
            ask = "INSERT OR IGNORE INTO groups (language, editor, model) VALUES (?, ?, ?)"
            self._db.execute(ask, idents)
            same = "SELECT id FROM groups WHERE language = ? AND editor = ? AND model = ?"
            found = self._groups[names] = int(self._db.execute(same, idents).fetchone()[0])
        return found

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._refresh()
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._words.clear()  # what was looked up may never have been written
            self._groups.clear()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _refresh(self) -> None:
        """Another daemon may have removed words that we know."""
        seen = int(self._db.execute("PRAGMA data_version").fetchone()[0])
        if seen != self._seen or len(self._words) > WORDS_AT_HAND:
            self._words.clear()
            self._groups.clear()
        self._seen = seen

    # -- bounds ---------------------------------------------------------------------------------

    def doomed(self, *, before_ms: int, most_bytes: int) -> int:
        """The key up to which the oldest are to go, that one not: too old, or too many.

        At most an eighth of all keys goes for its age: the clock may be wrong.
        """
        row = self._db.execute("SELECT min(key), max(key) FROM keys").fetchone()
        if row[0] is None:
            return 0
        first, last = int(row[0]), int(row[1])
        young = "SELECT min(key) FROM keys WHERE at_ms >= ?"
        found = self._db.execute(young, (before_ms,)).fetchone()[0]
        goal = min(int(found or last + 1), first + max(1, (last - first) // 8))
        if self._bytes() > most_bytes:
            goal = max(goal, first + max(1, (last - first) // 16))
        return goal

    def remove(self, goal: int, most: int = 5_000) -> bool:
        """Remove some of the keys before that one; whether there are more."""
        first = self._db.execute("SELECT min(key) FROM keys").fetchone()[0]
        if first is None or first >= goal:
            return False
        self._remove(min(goal, int(first) + most))
        return int(first) + most < goal

    def _remove(self, until: int) -> None:
        with self._transaction():
            for table in ("keys", "drafts", "strips", "said", "spelled"):
                self._db.execute(f"DELETE FROM {table} WHERE key < ?", (until,))
            oldest = self._db.execute("SELECT min(at_ms) FROM keys").fetchone()[0]
            for table in ("sums", "spread"):
                ask = f"DELETE FROM {table} WHERE slot < ? / hours"
                self._db.execute(ask, ((oldest or 0) // HOUR_MS,))
        self._removed = True
        self._db.execute("PRAGMA incremental_vacuum(2000)").fetchall()

    def tidy(self) -> None:
        """Remove what nothing names any more, and strips of all but the newest keys."""
        with self._transaction():
            for table in ("strips", "spelled"):
                ask = f"DELETE FROM {table} WHERE key < (SELECT max(key) FROM keys) - ?"
                self._db.execute(ask, (STRIPS,))
            (words,) = self._db.execute("SELECT count(*) FROM words").fetchone()
            if words > MANY_WORDS and self._removed:
                self._removed = False
                self._db.execute(_UNUSED)
                self._words.clear()

    def _bytes(self) -> int:
        pages, free, size = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size


STRIPS = 20_000
MANY_WORDS = 50_000
_BEGIN = "INSERT INTO daemons (started_ms, pid, version, model, facts) VALUES (?, ?, ?, '', '{}')"
_MARKS = ", ".join("?" * len(schema.KEY_COLUMNS))
_INSERT = f"INSERT INTO keys ({', '.join(schema.KEY_COLUMNS)}) VALUES ({_MARKS})"
_UPDATE = f"UPDATE keys SET {', '.join(f'{c} = ?' for c in schema.KEY_COLUMNS)} WHERE key = ?"
_ADD_SUM = (
    "INSERT INTO sums VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (hours, slot, what, grp) DO UPDATE SET n = n + excluded.n"
)
_ADD_SPREAD = (
    "INSERT INTO spread VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (hours, stage, slot, bucket, grp) DO UPDATE SET n = n + excluded.n"
)
_UNUSED = (
    "DELETE FROM words WHERE id NOT IN (SELECT path FROM keys) AND id NOT IN (SELECT stage FROM "
    "spread) AND id NOT IN (SELECT what FROM sums) AND id NOT IN (SELECT source FROM drafts) "
    + "".join(f"AND id NOT IN (SELECT {name} FROM keys) " for name in WORDS[1:])
    + "".join(f"AND id NOT IN (SELECT {name} FROM groups) " for name in GROUP)
)
