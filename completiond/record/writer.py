"""The thread that writes the record: takes what has changed seven times a second, come what may.

Who tells it of a key never waits. A store that cannot be used is left, and the next one begun; what
goes wrong is said once. Knows stores and their errors; knows no messages.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from completiond.config import Record
from completiond.record import place
from completiond.record.rows import Served
from completiond.record.store import Full, Newer, Store
from completiond.record.wall import now_ms

log = logging.getLogger(__name__)

TICK_S = 0.15
"""A crash loses what was told since the last tick."""
MOST_WAITING = 20_000
"""Keys that wait to be written; more are lost, and counted."""
MOST_TEXTS = 1_000
"""The same with their text."""
LOCKED_S = 10.0
"""A store that somebody has locked for so long is left."""
LOOK_S = 60.0
"""How often to look how large the store is, and for a newer one."""
AGE_S = 3_600.0
"""How often to look for keys that are too old: a clock that is wrong for a moment takes few."""
AGAIN_S = 5.0
"""How long to leave a disk alone that could not be written."""
MOST_STORES = 3
"""Stores that one daemon begins because others cannot be used; then it gives up."""
DAY_MS = 86_400_000


class Writer:
    """`put` from any thread; `start` and `stop` from one."""

    def __init__(self, daemon: Served, bounds: Record, directory: Path | None = None) -> None:
        self._daemon = daemon
        self._bounds = bounds
        self._place = directory or place.directory()
        self._lock = threading.Lock()
        self._waiting: dict[int, Full] = {}
        self._news: Served | None = None
        self._stopped, self._wake = threading.Event(), threading.Event()
        self._store: Store | None = None
        self._said: set[str] = set()
        self._begun = 0
        self._off = False
        self._locked_since = 0.0
        self._pause_until = 0.0
        self._look_at = self._age_at = 0.0
        self._goal = 0
        most = bounds.mb << 20
        self._most_bytes = most - most // 16
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self.lost = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, and end."""
        self._stopped.set()
        self._wake.set()
        self._thread.join(timeout=5.0)

    def put(self, number: int, state: Full) -> None:
        """This is the key of that number now."""
        if self._off:
            return
        with self._lock:
            before, many = self._waiting.get(number), len(self._waiting)
            if before is not None and state.text is None:
                state = state._replace(text=before.text)
            if before is None and many >= MOST_TEXTS:
                state = state._replace(text=None)
            if before is not None or many < MOST_WAITING:
                self._waiting[number] = state
            else:
                self.lost += 1
        if not self._wake.is_set():
            self._wake.set()

    def describe(self, daemon: Served) -> None:
        """The daemon has loaded its model."""
        with self._lock:
            self._daemon = self._news = daemon
        self._wake.set()

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        """A tick behind the first news, and again as long as there is something to do."""
        while not self._stopped.is_set():
            self._wake.wait()
            self._wake.clear()
            self._stopped.wait(TICK_S)
            self.tick()
            if self._waiting or self._goal:
                self._wake.set()
        self._pause_until = 0.0
        self.tick()
        self._close()

    def tick(self) -> None:
        """Write what waits. Never raises."""
        if self._off or time.monotonic() < self._pause_until:
            return
        states = self._take()
        try:
            self._write(states)
        except sqlite3.Error as exc:
            self._give_back(states)
            self._failed(exc)
        except OSError as exc:
            self._give_back(states)
            self._pause(f"The record cannot be written in {self._place} ({exc.strerror}).")
        except (ValueError, OverflowError) as exc:  # a text or a number that no store can hold
            self.lost += len(states)
            self._say("odd", f"Some keys could not be recorded ({exc}).")

    def _write(self, states: Mapping[int, Full]) -> None:
        if self._store is None:
            if not states:
                return  # nobody asks: no file
            self._store = self._open()
        if states:
            self._store.write(states)
        if (news := self._news) is not None:
            self._news = None
            self._store.describe(news)
        self._locked_since = 0.0
        self._trim(self._store)

    def _open(self) -> Store:
        self._begun = max(self._begun, 1)
        found = place.newest(self._place)
        self._news = None
        if found is None:
            found, first = place.following(None, self._place), self._place / "record-1.db"
            if found != first:
                self._say_left(first, "it is no regular file", found)
        return Store(found, self._daemon)

    def _trim(self, store: Store) -> None:
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._goal = store.doomed(before_ms=self._oldest(now), most_bytes=self._most_bytes)
            store.tidy()
            if place.newest(self._place) != store.path:  # removed, or left by another daemon
                self._close()
                return
        if self._goal and not store.remove(self._goal):
            self._goal = 0

    def _oldest(self, now: float) -> int:
        """Older keys may go, milliseconds of unix time; asked once an hour."""
        if now < self._age_at:
            return 0
        self._age_at = now + AGE_S
        return now_ms() - self._bounds.days * DAY_MS

    def _take(self) -> dict[int, Full]:
        with self._lock:
            states, self._waiting = self._waiting, {}
        return states

    def _give_back(self, states: dict[int, Full]) -> None:
        """They still wait, behind what is known of them by now."""
        with self._lock:
            self._waiting = states | self._waiting
            for number in list(self._waiting)[: max(0, len(self._waiting) - MOST_WAITING)]:
                del self._waiting[number]
                self.lost += 1

    # -- what goes wrong ------------------------------------------------------------------------

    def _failed(self, exc: sqlite3.Error) -> None:
        code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            self._locked()
        elif code == sqlite3.SQLITE_FULL:
            self._full()
        elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(exc, Newer):
            self._leave(str(exc))
        elif code == sqlite3.SQLITE_ERROR:  # another program's tables
            self._leave(str(exc))
        else:  # no right to write, a disk that fails
            self._close()
            self._pause(f"The record cannot be written in {self._place} ({exc}).")

    def _locked(self) -> None:
        now = time.monotonic()
        self._locked_since = self._locked_since or now
        if now - self._locked_since >= LOCKED_S:
            self._leave(f"it has been locked for {LOCKED_S:.0f} s")

    def _full(self) -> None:
        """The oldest keys make room, if the disk lets even that be written."""
        self._say("full", f"The disk of {self._place} is full: keys of the record are lost.")
        try:
            if self._store is not None:
                self._store.remove(self._store.doomed(before_ms=0, most_bytes=0))
        except sqlite3.Error:
            self._pause_until = time.monotonic() + AGAIN_S

    def _leave(self, why: str) -> None:
        """This store is of no use; go on with the next one."""
        self._close()
        bad = place.newest(self._place)
        self._locked_since = 0.0
        self._begun += 1
        if self._begun > MOST_STORES:
            self._off = True
            self._say(
                "off", f"Nothing is recorded any more: no store in {self._place} can be used."
            )
            return
        following = place.following(bad, self._place)
        self._say_left(bad, why, following)
        try:
            place.create(following)
            place.forget_old(self._place)
        except OSError as exc:
            self._pause(f"The record cannot be written in {self._place} ({exc.strerror}).")

    def _say_left(self, bad: Path | None, why: str, following: Path) -> None:
        self._say("left", f"The record {bad} cannot be used ({why}); {following.name} is begun.")

    def _pause(self, sentence: str) -> None:
        self._pause_until = time.monotonic() + AGAIN_S
        self._say("pause", sentence)

    def _say(self, what: str, sentence: str) -> None:
        if what not in self._said:
            self._said.add(what)
            log.warning("%s", sentence)

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
            self._goal = 0
