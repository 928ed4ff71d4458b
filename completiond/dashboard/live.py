"""What changes while the page is open: the record grows, the daemon's state. Server-sent events.

The record is looked at 20 times a second (a number in the shared memory of its log), and only while
somebody looks at the page; so is the daemon, once a second for all pages together.
"""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from completiond.errors import CompletiondError
from completiond.protocol.messages import Status
from completiond.record import place
from completiond.record.queries import connect

LOOK_S = 0.05
ASK_S = 1.0
ALIVE_S = 4.0
"""A page that has heard nothing for longer knows that nobody speaks."""
NEW_STORE_S = 1.0

Ask = Callable[[], Awaitable[Status]]


class Watch:
    """Of the store: whether it has changed since the last look."""

    def __init__(self, directory: Path) -> None:
        self._place = directory
        self._store: Path | None = None
        self._db: sqlite3.Connection | None = None
        self._seen = -1
        self._look_at = 0.0

    def changed(self) -> bool:
        now = time.monotonic()
        if now >= self._look_at:  # a newer one may have been begun
            newest = place.newest(self._place)
            self._look_at = now + (NEW_STORE_S if newest else 0.0)
            if newest != self._store:
                self.close()
                self._store, self._seen = newest, -1
        try:
            version = self._version()
        except sqlite3.Error:
            self.close()
            version = -2
        changed, self._seen = version != self._seen, version
        return changed

    def _version(self) -> int:
        if self._store is None:
            return 0
        if self._db is None:
            self._db = connect(self._store)
        return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db = None


class Daemon:
    """What it said last, asked for as long as anybody listens."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._listeners = 0
        self._asker: asyncio.Task[None] | None = None
        self.number = 0
        self.said: dict[str, Any] = {"status": None, "trouble": ""}

    def __enter__(self) -> "Daemon":
        self._listeners += 1
        if self._asker is None:
            self._asker = asyncio.create_task(self._keep_asking())
        return self

    def __exit__(self, *_: object) -> None:
        self._listeners -= 1
        if not self._listeners and self._asker is not None:
            self._asker.cancel()
            self._asker = None

    async def _keep_asking(self) -> None:
        while True:
            self.said = await self.once()
            self.number += 1
            await asyncio.sleep(ASK_S)

    async def once(self) -> dict[str, Any]:
        """What it says now."""
        try:
            status = await self._ask()
        except CompletiondError as exc:
            return {"status": None, "trouble": str(exc)}
        told = asdict(status) | {"memory": _memory(status.engine.get("pid", 0))}
        return {"status": told, "trouble": ""}


async def events(directory: Path, daemon: Daemon, over: asyncio.Event) -> AsyncGenerator[str, None]:
    """For one page, until it goes or everything is `over`."""
    told, spoke = -1, time.monotonic()
    with daemon, closing(Watch(directory)) as watch:
        yield _event("hello", {})
        while not over.is_set():
            now = time.monotonic()
            if watch.changed():
                spoke = now
                yield _event("record", {})
            if daemon.number != told and daemon.number:
                told, spoke = daemon.number, now
                yield _event("daemon", daemon.said)
            if now - spoke > ALIVE_S:
                spoke = now
                yield _event("alive", {})
            await asyncio.sleep(LOOK_S)


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _memory(pid: int) -> int:
    """Resident bytes of a daemon of this machine and of its engine; 0 if it is not here."""
    pages = 0
    for one in (pid, *_children(pid)):
        try:
            pages += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return pages * os.sysconf("SC_PAGESIZE") if pid else 0


def _children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (OSError, ValueError):
        return []
