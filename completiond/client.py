"""A client of the daemon: asks, waits for the answer, and asks again when the daemon comes back.

Knows the requests that wait; knows no sockets (connection.py) and no editors. Every request ends
in exactly one way: its answer, the daemon's failure, NoDaemon, or the caller's own cancellation.
"""

import asyncio
import itertools
import logging
import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from types import TracebackType
from typing import Any, Literal, TypeVar

from completiond import endpoint as ep
from completiond.connection import Connection
from completiond.core import CancelReason, Snapshot, text_hash
from completiond.errors import CompletiondError, NoDaemon, ProtocolError, from_code
from completiond.keys import ClientKeys
from completiond.protocol import codec
from completiond.protocol import messages as m

log = logging.getLogger(__name__)

MAX_CANCELS = 256
"""Cancels whose acknowledgement is kept for `cancelled`; the oldest are forgotten first."""

Key = tuple[Literal["hello", "complete", "status", "why"], int]
ASKED: tuple[Literal["complete", "status", "why"], ...] = ("complete", "status", "why")
"""Kinds of requests whose id an answer names."""
OnPartial = Callable[[m.Partial], None]
T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class _Request:
    """One that has no final answer yet. `sent` counts the connections that took it."""

    message: m.FromClient
    payload: bytes
    answer: asyncio.Future[Any]
    on_partial: OnPartial | None = None
    sent: int = 0
    in_flight: bool = False
    cancelled: CancelReason | None = None


class Client:
    """`async with Client(endpoint) as c`; belongs to the loop that entered it."""

    def __init__(
        self,
        endpoint: str,
        *,
        client: str = "completiond",
        version: str = "",
        keys: ClientKeys | None = None,
        first_id: int = 1,
    ) -> None:
        self.endpoint = endpoint
        self.clock_offset_ns = 0
        self.welcome: m.Welcome | None = None
        self._name, self._version = client, version
        self._connection = Connection(ep.parse(endpoint), keys, self)
        self._ids = itertools.count(first_id)
        self._requests: dict[Key, _Request] = {}
        self._acks: dict[int, asyncio.Future[m.Cancelled]] = {}
        self._hellos: deque[int] = deque()
        self._greeted_connection = 0
        self._open = False

    @property
    def connected(self) -> bool:
        return self._connection.connected

    async def __aenter__(self) -> "Client":
        self._loop = asyncio.get_running_loop()
        self._connection.__enter__()
        self._open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False
        try:
            self._connection.__exit__(kind, error, trace)
        finally:
            closed = NoDaemon("The client was closed before the daemon answered.")
            self._fail_all(closed)
            for ack in self._acks.values():
                _settle(ack, closed)

    # -- what callers ask -----------------------------------------------------------------------

    def next_id(self) -> int:
        return next(self._ids)

    async def hello(self, timeout: float | None = None) -> m.Welcome:
        """Introduce ourselves; sets `clock_offset_ns` (the daemon's clock minus ours).

        Raises NoDaemon if nobody answers in `timeout` seconds.
        """
        welcome: m.Welcome = await self._ask(("hello", self.next_id()), self._hello(), timeout)
        return welcome

    async def complete(
        self,
        message: m.Complete,
        on_partial: OnPartial | None = None,
        timeout: float | None = None,
        on_cancel: CancelReason | None = "abandoned",
    ) -> m.Completion:
        """The final answer. Raises what the daemon's failure stands for, TooLarge or NoDaemon.

        If the caller stops waiting, the daemon is told `on_cancel` (None: it is told nothing).
        """
        key: Key = ("complete", message.id)
        asked = self._put(key, message, on_partial)
        try:
            answer: m.Completion = await self._answer(key, asked, timeout)
            return answer
        finally:
            if not asked.answer.done() or asked.answer.cancelled():
                self._withdraw(message.id, on_cancel)

    def cancel(self, request: int, reason: CancelReason = "abandoned") -> None:
        """Tell the daemon; never waits. The request itself still gets its final answer."""
        ack = self._acks.get(request)
        if ack is None or ack.done():
            self._acks.pop(request, None)
            ack = self._acks[request] = self._loop.create_future()
        while len(self._acks) > MAX_CANCELS:
            _settle(self._acks.pop(next(iter(self._acks))), NoDaemon("Too many cancels wait."))
        asked = self._requests.get(("complete", request))
        if asked is not None:
            asked.cancelled = reason
        if asked is not None and not asked.in_flight:
            self._end_cancelled(asked)
            _settle(ack, m.Cancelled(request, "queued"))
        elif not self._connection.send(_encode(m.Cancel(request, reason))):
            _settle(ack, m.Cancelled(request, "unknown"))

    async def cancelled(self, request: int, timeout: float | None = None) -> m.Cancelled:
        """The acknowledgement of the last `cancel` of this request; may be awaited once."""
        ack = self._acks.get(request)
        assert ack is not None, "cancelled() follows cancel() of the same id"
        try:
            return await self._within(timeout, ack)
        finally:
            self._acks.pop(request, None)

    async def status(self, timeout: float | None = None) -> m.Status:
        ident = self.next_id()
        status: m.Status = await self._ask(("status", ident), m.AskStatus(ident), timeout)
        return status

    async def why(self, request: int, timeout: float | None = None) -> m.Why:
        """What became of a request, 0 of the latest."""
        ident = self.next_id()
        why: m.Why = await self._ask(("why", ident), m.AskWhy(ident, request), timeout)
        return why

    def feedback(self, feedback: m.Feedback) -> bool:
        """One-way; False if there is no connection or it does not take it."""
        return self._connection.send(_encode(feedback))

    def spans(self, spans: m.Spans) -> bool:
        """One-way; False if there is no connection or it does not take it."""
        return self._connection.send(_encode(spans))

    # -- the table of requests ------------------------------------------------------------------

    async def _ask(self, key: Key, message: m.FromClient, timeout: float | None) -> Any:
        return await self._answer(key, self._put(key, message), timeout)

    def _put(
        self, key: Key, message: m.FromClient, on_partial: OnPartial | None = None
    ) -> _Request:
        if not self._open:
            raise NoDaemon("The client is closed; open it with `async with`.")
        assert key not in self._requests, f"id {key[1]} is still being asked"
        asked = _Request(message, _encode(message), self._loop.create_future(), on_partial)
        self._requests[key] = asked
        self._offer(asked)
        return asked

    async def _answer(self, key: Key, asked: _Request, timeout: float | None) -> Any:
        try:
            return await self._within(timeout, asked.answer)
        finally:
            if self._requests.get(key) is asked:
                del self._requests[key]

    async def _within(self, timeout: float | None, answer: asyncio.Future[T]) -> T:
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError as exc:
            if self.connected:
                text = f"The daemon at {self.endpoint} did not answer within {timeout} s."
            else:
                why = self._connection.trouble or "start one with `completiond serve`."
                text = f"No daemon answers at {self.endpoint}; {why}"
            raise NoDaemon(text) from exc

    def _offer(self, asked: _Request) -> bool:
        """Send it if the connection takes it now; else `on_ready` offers it again."""
        if isinstance(asked.message, m.Hello):
            asked.message = self._hello()  # its clock is that of the moment of sending
            asked.payload = _encode(asked.message)
        if not self._connection.send(asked.payload):
            return False
        if isinstance(asked.message, m.Hello):
            self._hellos.append(asked.message.clock)
        asked.in_flight = True
        asked.sent += 1
        return True

    def _hello(self) -> m.Hello:
        return m.Hello([m.VERSION], self._name, self._version, time.monotonic_ns())

    def _withdraw(self, request: int, reason: CancelReason | None) -> None:
        """Nobody waits for this answer any more; it will be ignored."""
        if reason is not None:
            self._connection.send(_encode(m.Cancel(request, reason)))

    def _end_cancelled(self, asked: _Request) -> None:
        """A cancelled request that no daemon has is answered here."""
        message = asked.message
        assert isinstance(message, m.Complete) and asked.cancelled is not None
        position = message.offset + len(message.before)
        answer = m.Completion(message.id, message.version, position, [], asked.cancelled)
        self._finish(("complete", message.id), answer)

    def _finish(self, key: Key, result: Any) -> bool:
        """False if nobody waits: a duplicate, or the answer of a request that was withdrawn."""
        asked = self._requests.pop(key, None)
        if asked is not None:
            _settle(asked.answer, result)
        return asked is not None

    def _fail_all(self, error: CompletiondError) -> None:
        for key in list(self._requests):
            self._finish(key, error)

    # -- what the connection tells --------------------------------------------------------------

    def on_ready(self) -> None:
        if self.welcome is not None and self._greeted_connection != self._connection.count:
            # Another daemon has another clock. Nobody awaits this welcome.
            self._greeted_connection = self._connection.count
            if not any(kind == "hello" for kind, _ in self._requests):
                self._put(("hello", self.next_id()), self._hello())
        for asked in list(self._requests.values()):
            if not asked.in_flight and not self._offer(asked):
                return

    def on_lost(self) -> None:
        """What was asked is asked again, but once only: it may be what ended the daemon."""
        self._hellos.clear()
        for ident, ack in self._acks.items():
            _settle(ack, m.Cancelled(ident, "unknown"))
        for key, asked in list(self._requests.items()):
            asked.in_flight = False
            if asked.cancelled is not None:
                self._end_cancelled(asked)
            elif asked.sent > 1 and key[0] == "complete":
                self._finish(key, NoDaemon(f"The daemon at {self.endpoint} went away twice."))

    def on_message(self, data: bytes) -> None:
        try:
            message = codec.decode_from_daemon(data)
        except ProtocolError as exc:
            self._take_malformed(exc)
            return
        if isinstance(message, m.Partial):
            asked = self._requests.get(("complete", message.id))
            if asked is not None and asked.on_partial is not None:
                # Not called from here: what it raises would keep us from reading on.
                self._loop.call_soon(asked.on_partial, message)
        elif isinstance(message, m.Completion):
            self._finish(("complete", message.id), message)
        elif isinstance(message, m.Cancelled):
            if message.id in self._acks:
                _settle(self._acks[message.id], message)
        elif isinstance(message, m.Status):
            self._finish(("status", message.id), message)
        elif isinstance(message, m.Why):
            self._finish(("why", message.id), message)
        elif isinstance(message, m.Welcome):
            self._take_welcome(message)
        elif isinstance(message, m.Failure):
            self._take_failure(message)

    def _take_welcome(self, welcome: m.Welcome) -> None:
        now = time.monotonic_ns()
        sent = self._hellos.popleft() if self._hellos else now
        self.welcome = welcome
        self.clock_offset_ns = welcome.clock - (sent + now) // 2
        self._greeted_connection = self._connection.count
        for key in [key for key in self._requests if key[0] == "hello"]:
            self._finish(key, welcome)

    def _take_failure(self, failure: m.Failure) -> None:
        error = from_code(failure.code, failure.message)
        keys: list[Key] = [(kind, failure.id) for kind in ASKED]
        if failure.id == 0:  # of what we send, only a hello has no id that the answer could name
            keys = [key for key in self._requests if key[0] == "hello"]
        if not any([self._finish(key, error) for key in keys]):
            log.warning("The daemon says: %s", failure.message)

    def _take_malformed(self, error: ProtocolError) -> None:
        """Without a readable id it may be anybody's answer, so everybody is told."""
        failed = type(error)(f"The daemon's answer cannot be read: {error}")
        log.warning("%s", failed)
        ident = codec.id_of(error)
        keys: list[Key] = [(kind, ident) for kind in ASKED]
        if not any([self._finish(key, failed) for key in keys]) and ident == 0:
            self._fail_all(failed)


def complete_message(snapshot: Snapshot, id: int, **options: Any) -> m.Complete:
    """The request for a completion at the snapshot's cursor; `options` are fields of Complete."""
    same = {field.name: getattr(snapshot, field.name) for field in fields(snapshot)}
    return m.Complete(id=id, **same, **options)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
        future.exception()  # marked as seen: an acknowledgement may have no one who awaits it
    else:
        future.set_result(result)


def _encode(message: m.FromClient) -> bytes:
    try:
        return codec.encode(message)
    except ProtocolError as exc:
        if not isinstance(exc.__cause__, UnicodeEncodeError):
            raise
    return codec.encode(_rehashed(message, _without_surrogates(message)))


def _without_surrogates(value: Any) -> Any:
    """The same with U+FFFD for lone surrogates; lengths and so positions stay."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(
            value, **{f.name: _without_surrogates(getattr(value, f.name)) for f in fields(value)}
        )
    return value


def _rehashed(message: m.FromClient, clean: Any) -> Any:
    """A chunk whose text was cleaned gets the hash of what is sent, or the daemon ignores it."""
    if not isinstance(message, m.Complete):
        return clean
    pairs = zip(message.chunks, clean.chunks, strict=True)
    new = {old.hash: text_hash(now.text) for old, now in pairs if old.text != now.text}
    chunks = [replace(chunk, hash=new.get(chunk.hash, chunk.hash)) for chunk in clean.chunks]
    return replace(clean, chunks=chunks, context=[new.get(h, h) for h in clean.context])
