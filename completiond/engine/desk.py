"""What every engine is to the front, wherever it runs: the runs, the state, the worker's messages.

Knows the door's messages and asyncio; starts nothing. `Start` and `Engine` are the two nouns.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from completiond.core import CancelReason
from completiond.engine import packing
from completiond.engine.job import Failed, Job
from completiond.engine.run import Run, Runs
from completiond.errors import CompletiondError, EngineDied, EngineLoading, from_code

EngineState = Literal["loading", "ready", "restarting", "failed", "stopped"]

log = logging.getLogger(__name__)

STATS_S = 1.0
"""How long `stats` waits for a pass to end."""


@dataclass(frozen=True, slots=True)
class Start:
    """What an engine process is told first: plain data.

    `model` and `draft` are the facts of model files, for kind `model`; `script` is for `scripted`.
    """

    kind: Literal["model", "scripted"]
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)
    draft: Mapping[str, Any] | None = None
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
    def demote(self, run: Run) -> None: ...
    def read(self, client: str, document: str, text: str) -> None: ...
    def forget(self, client: str) -> None: ...
    async def stats(self) -> dict[str, Any]: ...
    async def stop(self, drain: bool) -> None: ...


class Desk(ABC):
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
        try:
            self._send([packing.SUBMIT, packing.pack_job(run.job)])
        except Exception as exc:  # whatever a job may hold: no run may stay open that never began
            self._runs.apply(Failed(run.job.id, "internal", f"The job cannot be sent ({exc})."))
            raise
        return run

    def cancel(self, run: Run, reason: CancelReason, grace_s: float = 0.0) -> None:
        if not run.over:
            self._send([packing.CANCEL, run.job.id, reason, grace_s])

    def revive(self, run: Run) -> None:
        """Take a superseded run back. It may come too late: then the outcome says superseded."""
        if not run.over:
            self._send([packing.REVIVE, run.job.id])

    def demote(self, run: Run) -> None:
        """Nobody waits for it: it goes on when nobody else asks, as if it had been begun ahead."""
        if not run.over:
            self._send([packing.DEMOTE, run.job.id])

    def read(self, client: str, document: str, text: str) -> None:
        """Drafts for this client may come from `text` too; read when there is time for it."""
        if self.state == "ready":
            self._send([packing.READ, client, document, text])

    def forget(self, client: str) -> None:
        """Nothing of what the client's texts said is kept."""
        if self.state == "ready":
            self._send([packing.FORGET, client])

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
