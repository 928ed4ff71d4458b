"""The front's end of the door: an engine that is submitted to, cancelled, restarted. No torch.

`ProcessEngine` keeps a process beside the front, `ThreadEngine` drives the same worker in a thread
of this process (tests, `complete` without a daemon). Both speak the messages of packing.py.

    loading → ready → (dies) → restarting → ready …      failed: the model cannot be loaded
"""

import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

from completiond.core import CancelReason
from completiond.engine import packing
from completiond.engine.job import Job
from completiond.engine.run import Run, Runs
from completiond.engine.worker import Loaded, Worker
from completiond.errors import CompletiondError, EngineDied, EngineLoading, from_code

EngineState = Literal["loading", "ready", "restarting", "failed", "stopped"]

log = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 30.0
STEADY_S = 60.0
"""A life of this length clears what is held against the ones before it."""
MAX_DEATHS_UNREADY = 4
"""Deaths in a row without ever being ready, after which the engine is given up."""
STOP_S = 5.0
"""How long a stopped engine may take to end by itself."""
HUNG_S = 30.0
"""An engine that says nothing this long after it was asked is in a pass without end: killed."""
STATS_S = 1.0
"""How long `stats` waits for a pass to end."""


@dataclass(frozen=True, slots=True)
class Start:
    """What an engine process is told first: plain data.

    `model` and `draft` are names and directories, for kind `model`; `script` is for `scripted`.
    """

    kind: Literal["model", "scripted"]
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model: tuple[str, str] = ("", "")
    draft: tuple[str, str] | None = None
    script: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """What the daemon needs of an engine, wherever it runs."""

    @property
    def state(self) -> EngineState: ...
    @property
    def info(self) -> dict[str, Any]: ...
    async def start(self) -> None: ...
    async def ready(self) -> None: ...
    def submit(self, job: Job) -> Run: ...
    def cancel(self, run: Run, reason: CancelReason, grace_s: float = 0.0) -> None: ...
    def revive(self, run: Run) -> None: ...
    async def stats(self) -> dict[str, Any]: ...
    async def stop(self, drain: bool) -> None: ...


class _Desk(ABC):
    """What both engines share: the runs, the state, and the messages of one worker."""

    def __init__(self) -> None:
        self.state: EngineState = "loading"
        self.info: dict[str, Any] = {}
        self._runs = Runs()
        self._failure: CompletiondError | None = None
        self._changed = asyncio.Event()
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._nonce = 0
        self._heard = 0.0  # monotonic time of the worker's last message

    @abstractmethod
    def _send(self, message: list[Any]) -> None:
        """Hand a message to the worker, without waiting."""

    async def ready(self) -> None:
        """Wait for the model. Raises the error for which it cannot be loaded."""
        while self.state in ("loading", "restarting"):
            self._changed.clear()
            await self._changed.wait()
        self._check_ready()

    def submit(self, job: Job) -> Run:
        """Start a run. Raises EngineLoading before the model is ready, and why it never will be."""
        self._check_ready()
        run = self._runs.open(job)
        self._send([packing.SUBMIT, packing.pack_job(run.job)])
        return run

    def cancel(self, run: Run, reason: CancelReason, grace_s: float = 0.0) -> None:
        if not run.over:
            self._send([packing.CANCEL, run.job.id, reason, grace_s])

    def revive(self, run: Run) -> None:
        """Take a superseded run back. It may come too late: then the outcome says superseded."""
        if not run.over:
            self._send([packing.REVIVE, run.job.id])

    async def stats(self) -> dict[str, Any]:
        """The engine's counters; empty if it is not ready or in a pass that does not end."""
        if self.state != "ready":
            return {}
        self._nonce = nonce = self._nonce + 1
        self._asked[nonce] = answer = asyncio.get_running_loop().create_future()
        self._send([packing.STATS, nonce])
        try:
            return await asyncio.wait_for(answer, STATS_S)
        except TimeoutError:
            return {}
        finally:
            del self._asked[nonce]

    def _receive(self, message: list[Any]) -> None:
        self._heard = time.monotonic()
        match message:
            case [packing.EVENTS, events]:
                for event in events:
                    self._runs.apply(packing.unpack_event(event))
            case [packing.STATS, nonce, counters]:
                if nonce in self._asked and not self._asked[nonce].done():
                    self._asked[nonce].set_result(counters)
            case [packing.READY, info]:
                self.info = info
                self._become("ready")
            case [packing.REFUSED, code, sentence]:
                self._fail(from_code(code, sentence))

    def _become(self, state: EngineState) -> None:
        self.state = state
        self._changed.set()

    def _fail(self, error: CompletiondError) -> None:
        """Give up: loading again would end the same way."""
        # While it loads for the first time `ready` tells it; later nobody waits there.
        level = logging.DEBUG if self.state == "loading" else logging.ERROR
        log.log(level, "the engine cannot be loaded: %s", error)
        self._failure = error
        self._runs.fail_all(error.code, str(error))
        self._become("failed")

    def _lost(self, message: str) -> None:
        """The worker is gone: whoever waits for it gets the reason."""
        ended = self._runs.fail_all(EngineDied.code, message)
        log.error("%s %d requests were answered with this.", message, ended)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result({})

    def _check_ready(self) -> None:
        if self.state in ("loading", "restarting"):
            again = " again" if self.state == "restarting" else ""
            raise EngineLoading(f"The model is being loaded{again}; ask again in a moment.")
        if self.state == "stopped":
            raise EngineDied("The engine has been stopped; start the daemon again.")
        if self._failure is not None:
            raise from_code(self._failure.code, str(self._failure))


class ProcessEngine(_Desk):
    """An engine in a process of its own, which ends with this one, and is restarted if it dies."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start
        self._link: _Link | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the process; `ready` says when the model is there."""
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
            except OSError as exc:
                self._fail(EngineDied(f"The engine process cannot be started ({exc})."))
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
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _popen(theirs.fileno())
        log.info("engine process %d started", self._process.pid)
        loop = asyncio.get_running_loop()
        try:
            _, link = await loop.create_unix_connection(lambda: _Link(self._receive), sock=ours)
        except BaseException:
            ours.close()
            raise
        link.send(packing.pack([packing.START, _plain(self._start)]))
        return link

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

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class ThreadEngine(_Desk):
    """The same worker in a thread of this process. `load` runs there too."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        super().__init__()
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(lambda message: self._post(self._receive, message))
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    async def start(self) -> None:
        self._thread.start()

    async def stop(self, drain: bool) -> None:
        """End the thread: after its runs if `drain`, else after the pass it is in."""
        if drain and self.state == "ready":
            await self._runs.drained()
        if self.state != "stopped":
            self._become("stopped")
            self._send([packing.STOP])
            await asyncio.to_thread(self._thread.join)
        self._runs.fail_all(EngineDied.code, "The engine has been stopped; start the daemon again.")

    def _send(self, message: list[Any]) -> None:
        self._worker.deliver(message)

    def _work(self) -> None:
        try:
            self._worker.run(self._load)
        except Exception as exc:
            # A thread has no supervisor: the runs must not wait for a worker that is gone.
            died = EngineDied(f"The engine failed ({exc!r}); start it again.")
            self._post(self._fail, died)
            raise

    def _post(self, call: Callable[[Any], None], value: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, value)


def _popen(fd: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "completiond.engine_process", str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(fd,),
    )


def _plain(start: Start) -> dict[str, Any]:
    return {
        "kind": start.kind,
        "config": {section: dict(keys) for section, keys in start.config.items()},
        "model": start.model,
        "draft": start.draft,
        "script": dict(start.script),
    }


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _hopeless(cause: str) -> EngineDied:
    return EngineDied(
        f"The engine process ended {MAX_DEATHS_UNREADY + 1} times before it was ready (last: "
        f"{cause}); see the daemon's log, and whether there is enough memory for the model."
    )
