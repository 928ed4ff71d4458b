"""The engine's loop: take what has arrived, one pass, tell. Knows a Core, no sockets and no text.

Two threads meet here. One delivers messages as they come and only sets flags or queues; the other
computes. A cancel therefore reaches the device at its next pass, however long the queue is.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from completiond.core import CancelToken
from completiond.drafters.reading import Reading
from completiond.engine import packing
from completiond.engine.job import Core, Event, Failed, Job, Progress, Rules
from completiond.errors import CompletiondError, EngineError

READ_EVERY = 16
"""Passes between two slices of reading while there is something to compute."""


class Loaded(NamedTuple):
    """What an entry point hands to the worker: the engine, how to make rules from data, and what
    reads the texts of clients, if the engine drafts from any."""

    core: Core
    rules: Callable[[Job], Rules]
    reading: Reading | None = None


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
            loaded = load()
        except CompletiondError as exc:
            self._send([packing.REFUSED, exc.code, str(exc)])
            return False
        except Exception as exc:
            # A defect is the same the next time: told like a refusal, not restarted in a loop.
            text = f"The model cannot be loaded ({type(exc).__name__}: {exc}); please report this."
            self._send([packing.REFUSED, EngineError.code, text])
            raise
        core, passes = loaded.core, 0
        self._send([packing.READY, core.info()])
        while self._take(loaded):
            if core.busy:
                self._tell(core.step())
                passes += 1
            if loaded.reading is not None and (not core.busy or passes % READ_EVERY == 0):
                loaded.reading.slice()
        return True

    def _take(self, loaded: Loaded) -> bool:
        """Everything that has arrived; waits only if there is nothing to do. False: stop."""
        core, reading = loaded.core, loaded.reading
        while True:
            busy = core.busy or (reading is not None and reading.busy)
            try:
                message = self._inbox.get(block=not busy)
            except Empty:
                return True
            match message:
                case [packing.STOP]:
                    return False
                case [packing.SUBMIT, job]:
                    self._admit(loaded, packing.unpack_job(job))
                case [packing.STATS, nonce]:
                    self._send([packing.STATS, nonce, core.stats()])
                case [packing.READ, client, document, text] if reading is not None:
                    reading.put(client, document, text)
                case [packing.FORGET, client] if reading is not None:
                    reading.forget(client)

    def _admit(self, loaded: Loaded, job: Job) -> None:
        try:
            loaded.core.admit(job, loaded.rules(job), self._tokens[job.id])
        except CompletiondError as exc:
            self._tell([Failed(job.id, exc.code, str(exc))])

    def _tell(self, events: list[Event]) -> None:
        """One message per pass. A run that ended needs its flag no more."""
        for event in events:
            if not isinstance(event, Progress):
                del self._tokens[event.job]
        if events:
            self._send([packing.EVENTS, packing.pack_events(events)])
