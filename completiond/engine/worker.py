"""The engine's loop: take what has arrived, one pass, tell. Knows a Core, no sockets and no text.

Two threads meet here. One delivers messages as they come and only sets flags or queues; the other
computes. A cancel therefore reaches the device at its next pass, however long the queue is.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from completiond.core import CancelToken
from completiond.engine import packing
from completiond.engine.job import Core, Event, Failed, Job, Progress, Rules
from completiond.errors import CompletiondError, EngineError


class Loaded(NamedTuple):
    """What an entry point hands to the worker: the engine, and how to make rules from data."""

    core: Core
    rules: Callable[[Job], Rules]


class Worker:
    """Drives one core. `send` carries one message to the front, from the computing thread."""

    def __init__(self, send: Callable[[list[Any]], None]) -> None:
        self._send = send
        self._inbox: SimpleQueue[list[Any]] = SimpleQueue()
        self._tokens: dict[int, CancelToken] = {}

    def deliver(self, message: list[Any]) -> None:
        """Take a message, from any thread. Flags are set here and now, not when their turn comes.

        A token exists from the moment its job arrives, so a cancel always finds it.
        """
        kind = message[0]
        if kind == packing.CANCEL:
            token = self._tokens.get(message[1])
            if token is not None:
                token.cancel(message[2], message[3])
        elif kind == packing.REVIVE:
            token = self._tokens.get(message[1])
            if token is not None:
                token.revive()
        elif kind == packing.DEMOTE:
            token = self._tokens.get(message[1])
            if token is not None:
                token.demote()
        else:
            if kind == packing.SUBMIT:
                self._tokens[message[1][0]] = CancelToken()
            self._inbox.put(message)

    def run(self, load: Callable[[], Loaded]) -> bool:
        """Load, then serve until a STOP. False if there is nothing to serve: the front was told."""
        try:
            core, rules = load()
        except CompletiondError as exc:
            self._send([packing.REFUSED, exc.code, str(exc)])
            return False
        except Exception as exc:
            # A defect is the same the next time: told like a refusal, not restarted in a loop.
            text = f"The model cannot be loaded ({type(exc).__name__}: {exc}); please report this."
            self._send([packing.REFUSED, EngineError.code, text])
            raise
        self._send([packing.READY, core.info()])
        while self._take(core, rules):
            self._tell(core.step())
        return True

    def _take(self, core: Core, rules: Callable[[Job], Rules]) -> bool:
        """Everything that has arrived; waits only if the core has nothing to do. False: stop."""
        while True:
            try:
                message = self._inbox.get(block=not core.busy)
            except Empty:
                return True
            if message[0] == packing.STOP:
                return False
            if message[0] == packing.SUBMIT:
                self._admit(core, rules, packing.unpack_job(message[1]))
            elif message[0] == packing.STATS:
                self._send([packing.STATS, message[1], core.stats()])

    def _admit(self, core: Core, rules: Callable[[Job], Rules], job: Job) -> None:
        try:
            core.admit(job, rules(job), self._tokens[job.id])
        except CompletiondError as exc:
            self._tell([Failed(job.id, exc.code, str(exc))])

    def _tell(self, events: list[Event]) -> None:
        """One message per pass. A run that ended needs its flag no more."""
        for event in events:
            if not isinstance(event, Progress):
                del self._tokens[event.job]
        if events:
            self._send([packing.EVENTS, packing.pack_events(events)])
