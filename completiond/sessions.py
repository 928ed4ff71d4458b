"""Who waits for what: clients, their buffers, the newest request of each, the chunks they sent.

Knows requests and text. Knows no sockets, no engine and no clock; does nothing by itself: every
method answers what should happen, and the composition root does it. `F` is the root's handle of a
run on its way.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, NamedTuple, TypeVar

from completiond.core import Snapshot, text_hash
from completiond.errors import Overloaded, RequestError
from completiond.protocol import messages as m
from completiond.reuse import Answers

F = TypeVar("F")

MAX_BUFFERS = 8
"""Idle buffers of one client whose latest run is remembered; the longest idle goes first."""
MAX_FINISHED = 256
"""Ids of one client that are remembered as finished."""
MAX_CHUNK_BYTES = 4 << 20
"""Text of other files that is kept for one client, bytes of UTF-8."""
MAX_WAITING_TEXT = 8 << 20
"""Characters of chunks that the waiting requests of one client may hold on to; a request over it is
answered without any, and told so."""
MAX_ANSWER_BYTES = 8 << 20
"""Earlier answers that are kept for one client; those of the longest idle buffers go first."""
MAX_REMEMBERED = 64 << 20
"""What is kept for all clients, bytes; those that are idle longest are forgotten over it."""
BUFFER_BYTES = 192 << 10
"""What a buffer's window and its latest runs take, roughly."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One request that has no reply yet."""

    client: bytes
    request: m.Complete
    snapshot: Snapshot
    arrived_ns: int
    chunks: list[m.Chunk]
    unknown: list[str]
    settled: bool = False

    @property
    def enough_ns(self) -> int:
        """From when on whole lines are enough of an answer; 0: never."""
        wait_ms = self.request.line_ms if self.request.n == 1 else None
        return self.arrived_ns + wait_ms * 1_000_000 if wait_ms is not None else 0


class Shown(NamedTuple):
    """The reply that a buffer got last: a person may be looking at this text."""

    ticket: Ticket
    text: str


class Admission(NamedTuple):
    """The request is in; `superseded` is the one that it replaces, to be answered now."""

    ticket: Ticket
    superseded: Ticket | None


@dataclass(slots=True)
class Buffer(Generic[F]):
    """One document of one client: the request that waits, the latest run, the earlier answers.

    `ahead` is a run that nobody asked for yet: what follows if the text that is shown is accepted.
    `read` is the window that drafts were last taken from.
    """

    ticket: Ticket | None = None
    flight: F | None = None
    ahead: F | None = None
    shown: Shown | None = None
    read: Snapshot | None = None
    answers: Answers = field(default_factory=Answers)


class ChunkStore:
    """Chunks by hash, the latest used last, under a bound of bytes."""

    def __init__(self, limit: int = MAX_CHUNK_BYTES) -> None:
        self._limit = limit
        self._bytes = 0
        self._chunks: OrderedDict[str, m.Chunk] = OrderedDict()

    @property
    def bytes(self) -> int:
        return self._bytes

    def add(self, chunk: m.Chunk) -> None:
        """Keep a chunk. One whose text does not match its hash is ignored: it would poison."""
        if chunk.hash in self._chunks or chunk.hash != text_hash(chunk.text):
            return
        self._chunks[chunk.hash] = chunk
        self._bytes += _size(chunk)
        while self._bytes > self._limit:
            self._bytes -= _size(self._chunks.popitem(last=False)[1])

    def get(self, wanted: Iterable[str]) -> tuple[list[m.Chunk], list[str]]:
        """The chunks of these hashes in this order, and the hashes that are not known."""
        found, unknown = [], []
        for name in dict.fromkeys(wanted):
            if name in self._chunks:
                self._chunks.move_to_end(name)
                found.append(self._chunks[name])
            else:
                unknown.append(name)
        return found, unknown


def _size(chunk: m.Chunk) -> int:
    return len(chunk.text.encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class _Client(Generic[F]):
    waiting: dict[int, Ticket] = field(default_factory=dict)
    finished: OrderedDict[int, None] = field(default_factory=OrderedDict)
    buffers: OrderedDict[str, Buffer[F]] = field(default_factory=OrderedDict)
    chunks: ChunkStore = field(default_factory=ChunkStore)
    counted: int = 0
    """Bytes when it was weighed last; what it has grown by since is one answer at most."""

    def context(self, wanted: Iterable[str]) -> tuple[list[m.Chunk], list[str]]:
        """What the store has of `wanted`; nothing while too much text waits already, which stays
        although the store may have dropped it."""
        found, unknown = self.chunks.get(wanted)
        waiting = {c.hash: len(c.text) for t in self.waiting.values() for c in t.chunks}
        waiting |= {c.hash: len(c.text) for c in found}
        if found and sum(waiting.values()) > MAX_WAITING_TEXT:
            return [], [*(chunk.hash for chunk in found), *unknown]
        return found, unknown

    def weigh(self) -> int:
        """Forget what is over its own bound; how much it has grown since the last time."""
        answers = sum(buffer.answers.bytes for buffer in self.buffers.values())
        for buffer in self.buffers.values():
            if answers <= MAX_ANSWER_BYTES:
                break
            answers -= buffer.answers.bytes
            buffer.answers.clear()
        was = self.counted
        self.counted = self.chunks.bytes + len(self.buffers) * BUFFER_BYTES + answers
        return self.counted - was


class Sessions(Generic[F]):
    """Admission and its bounds. A ticket is settled once, in `settle`, which frees its place."""

    def __init__(self, *, clients: int, queue: int) -> None:
        self._max_clients = clients
        self._max_queue = queue
        self._clients: OrderedDict[bytes, _Client[F]] = OrderedDict()
        self._bytes = 0
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[Ticket]:
        """The requests that wait for a reply, of all clients."""
        return (ticket for client in self._clients.values() for ticket in client.waiting.values())

    def admit(self, client: bytes, request: m.Complete, now_ns: int) -> Admission:
        """Let a request in; the newest of its buffer wins.

        Raises RequestError for an id that is still in use, Overloaded when there is no room.
        """
        state = self._client(client)
        if request.id in state.waiting:
            raise RequestError(
                f"Request {request.id} still waits for its reply; give each request its own id."
            )
        buffer = state.buffers.get(request.document)
        old = buffer.ticket if buffer is not None else None
        self._check_room(state, leaving=old is not None)
        for chunk in request.chunks:
            state.chunks.add(chunk)
        chunks, unknown = state.context(request.context)
        request = replace(request, chunks=[])  # what is kept of them is in the store
        ticket = Ticket(client, request, _snapshot(request), now_ns, chunks, unknown)
        if old is not None:
            self.settle(old)
        self._enter(state, ticket)
        self._bytes += state.weigh()
        self._bound_memory()
        return Admission(ticket, old)

    def settle(self, ticket: Ticket) -> bool:
        """True exactly once for each ticket: whoever gets it sends the one final reply."""
        if ticket.settled:
            return False
        ticket.settled = True
        self.waiting -= 1
        state = self._clients.get(ticket.client)
        if state is None:
            return True
        del state.waiting[ticket.request.id]
        state.finished[ticket.request.id] = None
        if len(state.finished) > MAX_FINISHED:
            state.finished.popitem(last=False)
        buffer = state.buffers[ticket.request.document]
        if buffer.ticket is ticket:
            buffer.ticket = None
        return True

    def find(self, client: bytes, ident: int) -> Ticket | Literal["finished", "unknown"]:
        """The request of that id, or what is remembered of it."""
        state = self._clients.get(client)
        if state is None:
            return "unknown"
        return state.waiting.get(ident) or ("finished" if ident in state.finished else "unknown")

    def buffer(self, ticket: Ticket) -> Buffer[F]:
        """The buffer of a request; a fresh one if the client has been forgotten since."""
        state = self._clients.get(ticket.client)
        found = state.buffers.get(ticket.request.document) if state is not None else None
        return found if found is not None else Buffer()

    def show(self, ticket: Ticket, text: str) -> None:
        """The ticket was answered with this text alone."""
        self.buffer(ticket).shown = Shown(ticket, text)

    def shown(self, client: bytes, ident: int) -> Shown | None:
        """The reply to that request, if it is the latest of its buffer and nobody asks there."""
        state = self._clients.get(client)
        for buffer in state.buffers.values() if state is not None else ():
            if buffer.shown is not None and buffer.shown.ticket.request.id == ident:
                return buffer.shown if buffer.ticket is None else None
        return None

    def owed(self) -> list[bytes]:
        """Clients that wait for a reply."""
        return [name for name, state in self._clients.items() if state.waiting]

    def forget(self, client: bytes) -> list[Buffer[F]]:
        """The client is gone: its tickets are settled (nobody would read a reply).

        Returns its buffers, whose runs nobody waits for any more.
        """
        state = self._clients.get(client)
        if state is None:
            return []
        for ticket in list(state.waiting.values()):
            self.settle(ticket)
        self._drop(client)
        return list(state.buffers.values())

    # -- bounds ---------------------------------------------------------------------------------

    def _client(self, name: bytes) -> _Client[F]:
        """The client's state, the most recent now. A new one may push out one that is idle."""
        state = self._clients.get(name)
        if state is None:
            if len(self._clients) >= self._max_clients:
                self._forget_idle_client()
            state = self._clients[name] = _Client()
        self._clients.move_to_end(name)
        return state

    def _forget_idle_client(self) -> None:
        idle = next((name for name, state in self._clients.items() if not state.waiting), None)
        if idle is None:
            raise Overloaded(
                f"All {self._max_clients} clients wait for a reply; ask again in a moment."
            )
        self._drop(idle)

    def _drop(self, name: bytes) -> None:
        self._bytes -= self._clients.pop(name).counted

    def _bound_memory(self) -> None:
        """Most clients are gone without a word: what they left must not add up."""
        if self._bytes <= MAX_REMEMBERED:
            return
        idle = (name for name, state in list(self._clients.items()) if not state.waiting)
        while self._bytes > MAX_REMEMBERED and (name := next(idle, None)) is not None:
            self._drop(name)

    def _check_room(self, state: _Client[F], *, leaving: bool) -> None:
        if leaving:
            return  # the request that it supersedes makes room
        if len(state.waiting) >= m.MAX_WAITING:
            raise Overloaded(
                f"{m.MAX_WAITING} requests of this client wait already; ask again later."
            )
        if self.waiting >= self._max_queue:
            raise Overloaded(f"{self._max_queue} requests wait already; ask again in a moment.")

    def _enter(self, state: _Client[F], ticket: Ticket) -> None:
        request = ticket.request
        state.waiting[request.id] = ticket
        state.finished.pop(request.id, None)
        self.waiting += 1
        buffer = state.buffers.setdefault(request.document, Buffer())
        buffer.ticket, buffer.shown = ticket, None
        state.buffers.move_to_end(request.document)
        idle = [name for name, other in state.buffers.items() if other.ticket is None]
        for name in idle[: max(0, len(idle) - MAX_BUFFERS)]:
            del state.buffers[name]


def _snapshot(request: m.Complete) -> Snapshot:
    return Snapshot(
        document=request.document,
        version=request.version,
        language=request.language,
        path=request.path,
        before=request.before,
        after=request.after,
        offset=request.offset,
        prefix_hash=request.prefix_hash,
        indent=request.indent,
    )
