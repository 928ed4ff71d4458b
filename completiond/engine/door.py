"""The engine in a process beside the front: launched, watched, restarted. No torch here.

loading → ready → (dies) → restarting → ready …      failed: the model cannot be loaded
"""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from completiond.engine import packing
from completiond.engine.desk import Desk, Start
from completiond.errors import EngineDied
from completiond.footprint import LARGE_PAGES

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 30.0
STEADY_S = 60.0
"""A life of this length clears what is held against the ones before it."""
MAX_DEATHS_UNREADY = 4
"""Deaths in a row without ever being ready, after which the engine is given up."""
STOP_S = 5.0
"""How long a stopped engine may take to end by itself."""
UNSENT = 1 << 20
"""Bytes for the process that it has not taken yet; over it no texts are sent to be read."""
HUNG_S = 30.0
"""An engine that says nothing this long after it was asked is in a pass without end: killed."""


class ProcessEngine(Desk):
    """An engine in a process of its own, which ends with this one, and is restarted if it dies."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.spec = start
        self._ours: socket.socket | None = None  # to a process that was launched before the loop
        self._link: _Link | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def launch(self) -> None:
        """Start the process now, so that it loads while the front still imports what it needs.

        Raises EngineDied if there can be none.
        """
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = _popen(theirs.fileno())
        except OSError as exc:
            ours.close()
            raise EngineDied(f"The engine process cannot be started ({exc}).") from exc
        with suppress(BrokenPipeError, ConnectionResetError):  # one that died at once is seen later
            ours.sendall(self._greeting())
        self._ours = ours

    def discard(self) -> None:
        """End a process that was launched and will not be used; nothing happens after `start`."""
        if self._ours is not None and self._process is not None:
            self._ours.close()
            self._ours = None
            self._process.kill()
            self._process.wait()

    async def start(self) -> None:
        """Start the process, if `launch` did not; `ready` says when the model is there."""
        self._supervisor = asyncio.create_task(self._supervise())

    async def stop(self, drain: bool) -> None:
        """End the process: after its runs if `drain`, which then end as they would."""
        if drain and self.state == "ready":
            await self._runs.drained()
        patience_s = STOP_S if self.state in ("loading", "ready") else 0.0
        self._become("stopped")
        if drain:
            self._send([packing.STOP])
        elif self._link is not None:
            self._link.close()  # it ends at once, also in a pass
        if self._supervisor is not None:
            done, _ = await asyncio.wait([self._supervisor], timeout=patience_s)
            if not done:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
                await self._end_process(kill=True)
        self._runs.fail_all(EngineDied.code, "The engine has been stopped; start the daemon again.")

    def read(self, client: str, document: str, text: str) -> None:
        """Left out while the process is behind: runs and cancels must not queue behind texts."""
        if self._link is not None and self._link.unsent <= UNSENT:
            super().read(client, document, text)

    def _send(self, message: list[Any]) -> None:
        if self._link is not None:
            self._link.send(packing.pack(message))

    async def _supervise(self) -> None:
        """One life after the other, until it is stopped or given up."""
        deaths = unready_deaths = 0
        while self.state not in ("stopped", "failed"):
            born = time.monotonic()
            try:
                self._link = await self._spawn()
            except EngineDied as exc:
                self._fail(exc)
                return
            if self.state == "stopped":
                self._link.close()
            hung = await self._outlive(self._link)
            was = self.state
            code = await self._end_process(kill=hung)
            cause = f"no answer for {HUNG_S:.0f} s" if hung else _cause(code)
            if was in ("stopped", "failed"):
                return
            deaths = deaths + 1 if time.monotonic() - born < STEADY_S else 1
            unready_deaths = 0 if was == "ready" else unready_deaths + 1
            self._lost(f"The engine process ended ({cause}); it is being restarted; ask again.")
            if unready_deaths > MAX_DEATHS_UNREADY:
                self._fail(_hopeless(cause))
                return
            self._become("restarting")
            await asyncio.sleep(min(FIRST_BACKOFF_S * 2 ** min(deaths - 1, 16), LONGEST_BACKOFF_S))

    async def _outlive(self, link: "_Link") -> bool:
        """Wait for the end of the process; True if it hangs and has to be ended."""
        while True:
            asked, ready = time.monotonic(), self.state == "ready"
            if ready:
                self._send([packing.STATS, 0])  # answered between two passes
            with suppress(TimeoutError):
                async with asyncio.timeout(HUNG_S):
                    await link.closed.wait()
                    return False
            if ready and self.state == "ready" and self._heard < asked:
                return True

    async def _spawn(self) -> "_Link":
        """The link to a process that loads: the one that was launched, or a new one."""
        if self._ours is None:
            self.launch()
        ours, self._ours = self._ours, None
        assert ours is not None and self._process is not None, "launch makes both"
        log.info("engine process %d started", self._process.pid)
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_unix_connection(lambda: _Link(self._receive), sock=ours)
        except BaseException:
            ours.close()
            raise
        return link

    def _greeting(self) -> bytes:
        return packing.pack([packing.START, _plain(self.spec)])

    async def _end_process(self, *, kill: bool) -> int:
        """Collect the process. It ends with the link, but may be hung: then it is killed."""
        process, link = self._process, self._link
        if process is None:
            return 0
        if link is not None:
            link.close()
        if kill:
            process.kill()
        try:
            return await asyncio.to_thread(process.wait, STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return await asyncio.to_thread(process.wait)


class _Link(asyncio.Protocol):
    """The socket to one engine process."""

    def __init__(self, receive: Callable[[list[Any]], None]) -> None:
        self._receive = receive
        self._unpacker = packing.unpacker()
        self._transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        for message in self._unpacker:
            self._receive(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.closed.set()

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _popen(fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "completiond.engine_process", str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=LARGE_PAGES | os.environ,
        pass_fds=(fd,),
    )


def _plain(start: Start) -> dict[str, Any]:
    return {
        "kind": start.kind,
        "config": {section: dict(keys) for section, keys in start.config.items()},
        "model": dict(start.model),
        "draft": dict(start.draft) if start.draft else None,
        "script": dict(start.script),
    }


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _hopeless(cause: str) -> EngineDied:
    return EngineDied(
        f"The engine process ended {MAX_DEATHS_UNREADY + 1} times before it was ready (last: "
        f"{cause}); see the daemon's log, and whether there is enough memory for the model."
    )
