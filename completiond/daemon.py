"""The front's request path: messages in, exactly one final reply per request out.

Knows every part and the order in which they are used; each part knows its own business only. Law:
a request is settled in one place (`Sessions.settle`), and whoever settles it sends its reply.
"""

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from completiond import gate, replies
from completiond.acks import Acks
from completiond.config import Config
from completiond.core import GREEDY, CancelReason
from completiond.engine.desk import Engine
from completiond.errors import (
    CompletiondError,
    EngineError,
    EngineLoading,
    ProtocolError,
    UnknownModel,
)
from completiond.flight import Flight
from completiond.flights import Flights, Watcher
from completiond.footprint import return_free_memory
from completiond.liveness import Liveness
from completiond.prompts import Prompts
from completiond.protocol import codec
from completiond.protocol import messages as m
from completiond.record.facts import facts_of
from completiond.record.wall import now_ms
from completiond.recorder import Editors, Recorder
from completiond.remembered import Remembered, Sink
from completiond.sessions import Sessions, Ticket
from completiond.told import Told
from completiond.work import Work

log = logging.getLogger(__name__)

RETRIES = 2
"""Runs more than candidates asked for, where some of them said the same."""
LAST_WORDS_S = 0.05
"""How long replies may take to leave the socket before it is closed: closing drops what waits."""


class Post(Protocol):
    """What the daemon needs of a listener, which calls `on_lost` when a connection is lost."""

    on_lost: Callable[[], None]

    async def receive(self) -> tuple[bytes, bytes]: ...
    def send(self, identity: bytes, payload: bytes) -> bool: ...


class Daemon:
    """One model, many clients. `serve` reads messages until it is cancelled."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        post: Post,
        sink: Sink | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        """`counts` are those of the whole front, if it has other doors."""
        self._config = config
        self._engine = engine
        self._post = post
        self._sessions: Sessions[Flight] = Sessions(
            clients=config.serve.clients, queue=config.serve.queue
        )
        self._flights: Flights | None = None
        self._tasks: dict[Ticket, asyncio.Task[None]] = {}
        self._statuses: set[asyncio.Task[None]] = set()
        self._acks = Acks(self._send)
        self._liveness = Liveness(self._ping)
        self._keys = Remembered(sink)
        self._told = Told(self._keys)
        about = Editors(self._told.editor, lambda: self.model)
        self._recorder = Recorder(self._keys, about, text=config.record.text)
        self._started = time.monotonic()
        self.counts: Counter[str] = Counter() if counts is None else counts
        self.draining = False
        post.on_lost = self._liveness.look

    async def open(self, prompts: Callable[[], Prompts], watcher: Watcher | None = None) -> None:
        """Load the model and, beside it, what makes its prompts.

        Raises why that cannot be done; until then requests are told to wait.
        """
        await self._engine.start()
        made, _ = await asyncio.gather(asyncio.to_thread(prompts), self._engine.ready())
        return_free_memory()  # a tokenizer is parsed from a large text
        self._recorder.beside = watcher
        self._recorder.spell = made.tokenizer.decode
        self._flights = Flights(self._engine, made, self._taken, self.counts, self._recorder)

    async def serve(self) -> None:
        """Handle messages, each in the order of its arrival."""
        while True:
            client, payload = await self._post.receive()
            self.handle(client, payload)

    async def drain(self) -> None:
        """Refuse new requests and wait for the replies of those that are in."""
        self.draining = True
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def close(self) -> None:
        """Reply to whoever still waits, then stop the engine."""
        self.draining = True
        self._liveness.stop()
        for ticket in list(self._sessions):
            error = EngineError("The daemon has been stopped; start it again.")
            self._leave(ticket)
            self._end(ticket, m.Failure(ticket.request.id, error.code, str(error)))
        await self._engine.stop(drain=False)
        await asyncio.sleep(LAST_WORDS_S)

    # -- messages -------------------------------------------------------------------------------

    def handle(self, client: bytes, payload: bytes) -> None:
        """Take one message; never waits."""
        try:
            message = codec.decode_from_client(payload)
        except ProtocolError as exc:
            self.counts["malformed"] += 1
            self._send(client, m.Failure(codec.id_of(exc), exc.code, str(exc)))
            return
        match message:
            case m.Complete():
                self._admit(client, message)
            case m.Cancel():
                self._cancel(client, message)
            case m.Hello():
                self._send(client, replies.welcome(message, self.model, self.state))
            case m.AskStatus():
                task = asyncio.create_task(self._status(client, message))
                self._statuses.add(task)
                task.add_done_callback(self._statuses.discard)
            case m.AskWhy(ident, request):
                self._send(client, m.Why(ident, self._facts(client, request), self._keys.summary()))
            case m.Feedback():
                self._feedback(client, message)
            case m.Spans():
                self.counts["spans"] += len(message.spans)
                refused = self._told.spans(client, message, self.model)
                self.counts["spans refused"] += refused

    def _admit(self, client: bytes, request: m.Complete) -> None:
        """Let a request in and start on it; the one that it supersedes is answered at once."""
        self.counts["requests"] += 1
        try:
            if self.draining:
                raise EngineError("The daemon is shutting down; ask again when it is back.")
            ticket, old = self._sessions.admit(client, request, time.monotonic_ns())
        except CompletiondError as exc:
            self._send(client, m.Failure(request.id, exc.code, str(exc)))
            return
        if old is not None:
            # The new request takes the run over within its grace, or ends it.
            self._leave(old)
            if self._flights is not None:
                self._flights.leave(self._sessions.buffer(ticket), "superseded", m.GRACE_S)
            gone = replies.nothing(old, "superseded")
            self._reply(old, gone)
        if request.chunks and self._flights is not None:
            self._flights.sources.chunks(client, request.chunks)
        task = self._tasks[ticket] = asyncio.create_task(self._run(ticket))
        task.add_done_callback(lambda task: self._finished(ticket, task))

    def _cancel(self, client: bytes, cancel: m.Cancel) -> None:
        """Answer the request now; acknowledge when the device is free of its run."""
        found = self._sessions.find(client, cancel.id)
        if isinstance(found, Ticket):
            flight = self._give_up(found, cancel.reason)
            was: m.CancelWas = "queued"
        else:
            # Of requests with a reply, only one in its grace still has a run to give up.
            flight, was = self._acks.find(client, cancel.id), found
            if flight is not None and cancel.reason == "abandoned":
                self._engine.cancel(flight.run, cancel.reason)
        if flight is None or flight.run.over:
            self._send(client, m.Cancelled(cancel.id, was))
        else:
            self._acks.owe(flight, client, cancel.id)

    def _give_up(self, ticket: Ticket, reason: CancelReason) -> Flight | None:
        """Answer the request; the run that may have to be waited for."""
        buffer = self._sessions.buffer(ticket)
        self._leave(ticket)
        self._end(ticket, replies.nothing(ticket, reason))
        if self._flights is not None:
            self._flights.leave(buffer, reason, m.GRACE_S if reason == "superseded" else 0.0)
        return buffer.flight

    def _feedback(self, client: bytes, told: m.Feedback) -> None:
        """A person looks at an answer: what follows it if it is accepted may be wanted next."""
        self.counts[f"feedback {told.event}"] += 1
        self._told.feedback(client, told)
        shown = self._sessions.shown(client, told.id) if told.event == "shown" else None
        if shown is None or self._flights is None or self.draining:
            return
        self._flights.ahead(self._work(shown.ticket), shown.text)

    def _facts(self, client: bytes, request: int) -> dict[str, Any]:
        """The newest key of that request id, 0 of all; empty if it is not remembered."""
        entry = self._keys.find(client, request)
        return facts_of(entry.key, entry.drafts, now_ms()) if entry is not None else {}

    def _ping(self) -> None:
        """Whoever waits for a reply and cannot be told anything is gone."""
        for client in self._sessions.owed():
            self._send(client, m.Ping())

    async def _status(self, client: bytes, asked: m.AskStatus) -> None:
        stats = await self._engine.stats()
        own: dict[str, Any] = {f"daemon {name}": n for name, n in self.counts.items()}
        own["pid"] = os.getpid()
        status = m.Status(
            id=asked.id,
            state=self.state,
            model=self.model,
            device=str(self._engine.info.get("device", "")),
            uptime_s=time.monotonic() - self._started,
            clients=len(self._sessions),
            waiting=self.waiting,
            running=int(stats.get("running", 0)),
            engine=self._engine.info | stats | own | {"state": self._engine.state},
        )
        self._send(client, status)

    @property
    def waiting(self) -> int:
        """Requests that have no reply yet."""
        return self._sessions.waiting

    @property
    def model(self) -> str:
        return str(self._engine.info.get("model", self._config.model.name))

    @property
    def state(self) -> m.State:
        if self.draining:
            return "draining"
        if self._engine.state in ("failed", "stopped", "restarting"):
            return "restarting"
        return "loading" if self._flights is None else "ready"

    # -- the request path -----------------------------------------------------------------------

    async def _complete(self, ticket: Ticket) -> m.Completion:
        """prompt → run → clean → reply; `Flights` does the first three for each candidate."""
        work = self._work(ticket)
        if work.max_tokens == 0:
            return replies.nothing(ticket, "zero_limit")
        flights = self._ready(ticket.request.model)
        if refused := self._refused(work, flights):
            return replies.not_asked(work, flights.known(work), refused)
        try:
            async with asyncio.timeout(self._seconds_left(ticket)):
                for candidate in range(ticket.request.n + RETRIES):
                    if len({answer.shown for answer in work.answers}) == ticket.request.n:
                        break
                    tell = self._teller(ticket, candidate)
                    work.answers.append(await flights.answer(work, candidate, tell))
        except TimeoutError:
            work.answers += flights.cut_off(work)
        return replies.reply(work, self._least(ticket))

    def _refused(self, work: Work, flights: Flights) -> str:
        """Why no run may be started for this request; who follows a suggestion is answered."""
        ticket = work.ticket
        if ticket.request.trigger == "invoked" or not self._config.completion.gate:
            return ""
        why = gate.refusal(ticket.snapshot)
        return "" if why and flights.follows(work) else why

    def _least(self, ticket: Ticket) -> int:
        """Characters that an answer must have to be shown."""
        return 1 if ticket.request.trigger == "invoked" else self._config.completion.min_chars

    def _work(self, ticket: Ticket) -> Work:
        request = ticket.request
        asked = request.max_tokens
        return Work(
            ticket,
            self._sessions.buffer(ticket),
            self._config.completion.max_tokens if asked is None else asked,
            request.sampling or GREEDY,
        )

    def _ready(self, model: str) -> Flights:
        if model not in ("", self.model, self._config.model.name):
            raise UnknownModel(
                f"This daemon serves {self.model}, not {model!r:.80}; start another one."
            )
        if self._flights is None:
            raise EngineLoading("The model is being loaded; ask again in a moment.")
        return self._flights

    def _seconds_left(self, ticket: Ticket) -> float:
        asked = ticket.request.max_ms
        limit_ms = self._config.completion.max_ms if asked is None else asked
        return limit_ms / 1e3 - (time.monotonic_ns() - ticket.arrived_ns) / 1e9

    def _teller(self, ticket: Ticket, candidate: int) -> Callable[[str], None] | None:
        if not ticket.request.stream:
            return None
        ident = ticket.request.id
        return lambda text: self._send(ticket.client, m.Partial(ident, text, candidate))

    def _taken(self, flight: Flight) -> None:
        """A request took the run over: those who cancelled it are acknowledged now."""
        self.counts["joined"] += 1
        self._acks.tell(flight, None)

    # -- replies --------------------------------------------------------------------------------

    async def _run(self, ticket: Ticket) -> None:
        try:
            reply: m.FromDaemon = await self._complete(ticket)
        except CompletiondError as exc:
            reply = m.Failure(ticket.request.id, exc.code, str(exc))
        self._end(ticket, reply)

    def _finished(self, ticket: Ticket, task: asyncio.Task[None]) -> None:
        """Even a defect of ours ends in one reply."""
        self._tasks.pop(ticket, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("a request failed by a defect of the daemon", exc_info=error)
        text = "The daemon failed at this request; its log says why. Please report it."
        self._end(ticket, m.Failure(ticket.request.id, CompletiondError.code, text))

    def _leave(self, ticket: Ticket) -> None:
        """Stop working on a request; its run goes on until it is cancelled."""
        task = self._tasks.pop(ticket, None)
        if task is not None:
            task.cancel()

    def _end(self, ticket: Ticket, reply: m.FromDaemon) -> None:
        """Send the one final reply, unless it has been sent."""
        if not self._sessions.settle(ticket):
            return
        assert isinstance(reply, m.Completion | m.Failure), "only these end a request"
        if isinstance(reply, m.Completion) and self._leads_on(ticket, reply):
            self._sessions.show(ticket, reply.candidates[0].text)
        self._reply(ticket, reply)

    def _reply(self, ticket: Ticket, reply: m.Completion | m.Failure) -> None:
        """Send it first: nobody waits for what is noted of it."""
        at = time.monotonic_ns()
        self._send(ticket.client, reply)
        self._recorder.replied(ticket, reply, at)

    def _leads_on(self, ticket: Ticket, reply: m.Completion) -> bool:
        """Whether a person is offered one text, as one types, and so may take it."""
        as_one_types = ticket.request.trigger == "automatic" and ticket.request.n == 1
        return self._config.completion.prefetch and as_one_types and reply.reason == "ok"

    def _send(self, client: bytes, message: m.FromDaemon) -> None:
        try:
            payload = codec.encode(message)
        except ProtocolError as exc:
            # A request that is settled gets a reply, even if it is not the one that was meant.
            log.error("an answer cannot be sent: %s", exc)
            payload = codec.encode(m.Failure(getattr(message, "id", 0), exc.code, str(exc)))
        if not self._post.send(client, payload):
            self._gone(client)

    def _gone(self, client: bytes) -> None:
        """Nobody reads any more: its requests end without a reply, its runs at the next pass."""
        log.info("a client is gone; its runs are abandoned")
        for ticket in [ticket for ticket in self._tasks if ticket.client == client]:
            self._leave(ticket)
        gone = self._sessions.forget(client)
        self._recorder.forget(client)
        if self._flights is not None:
            for buffer in gone:
                self._flights.forget(buffer)
            self._flights.forget_client(client)  # last: a run that goes on would be kept anew
