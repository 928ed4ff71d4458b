"""The daemon's end of the wire: one ROUTER socket on the event loop, and the bounds of floods.

Knows identities and bytes; decodes nothing, and remembers no client. What floods the socket costs
a bounded amount of memory, and the flood's author the connection. Chosen over zmq.asyncio because
it answers sooner (design/facts.md): the loop watches the socket's own descriptor, which is
edge-triggered, so every operation that may swallow an edge looks again.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType

import zmq

from completiond import endpoint as ep
from completiond.footprint import allow_many_files, anonymous_bytes, return_free_memory
from completiond.keys import ServerKeys
from completiond.protocol import codec
from completiond.protocol import messages as m
from completiond.router import Router

log = logging.getLogger(__name__)

BURST = 64
"""Messages, or frames to throw away, before other tasks of the loop get a turn."""
MEMORY_BOUND = 256 << 20
"""Growth of the process, bytes, that makes us drop every connection; 60,000 requests' worth."""
MAX_CONNECTIONS = 512
"""Over it we drop every connection: libzmq 4.3.5 aborts the process when it runs out of files."""
WATCH_S = 0.25
WATCH_FAST_S = 0.02
FAST_GROWTH = 16 << 20

_TOO_MANY_FRAMES = codec.encode(
    m.Failure(0, "protocol", "A message must be one frame; send the msgpack map by itself.")
)
_TOO_LARGE = codec.encode(
    m.Failure(0, "too_large", f"The message is over {m.MAX_MESSAGE:,} bytes; send less text.")
)


@dataclass(slots=True)
class Counts:
    """What the listener saw since it was opened."""

    received: int = 0
    refused: int = 0
    sent: int = 0
    lost: int = 0
    reopened: int = 0


class Listener:
    """Receives (identity, payload) and sends without ever waiting for a client.

    `async with` binds and holds the endpoint. Raises EndpointInUse, TransportError or ConfigError.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        insecure_loopback: bool = False,
        keys: ServerKeys | None = None,
        memory_bound: int = MEMORY_BOUND,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.counts = Counts()
        self._at = ep.parse(endpoint)
        self._keys = keys if self._at.path is None else None
        self._memory_bound = memory_bound
        self._max_connections = max_connections
        self.on_lost: Callable[[], None] = lambda: None
        self._lost = 0
        self._crowded = asyncio.Event()
        self._skipping: bytes | None = None
        self._burst = 0
        self._waiter: asyncio.Future[None] | None = None
        self._held = ExitStack()
        if self._at.path is None and keys is None:
            ep.refuse_open_tcp(self._at, insecure_loopback)

    @property
    def endpoint(self) -> str:
        """Where clients connect; names the real port if 0 was asked for."""
        return self._at.text

    async def __aenter__(self) -> "Listener":
        self._loop = asyncio.get_running_loop()
        allow_many_files()
        if self._at.path is not None:
            ep.check_private(self._at.path.parent)
        with ExitStack() as undo:
            undo.enter_context(ep.EndpointLock(self._at))
            if self._at.path is not None and ep.remove_stale_socket(self._at.path):
                log.info("Removed the socket of a daemon that is gone: %s", self._at.path)
            self._open()
            self._held = undo.pop_all()
        self._watch = asyncio.create_task(self._watch_bounds(), name="bounds of the socket")
        self._watch.add_done_callback(lambda _: self._wake())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._held:
            self._watch.cancel()
            self._close()
            if self._at.path is not None:
                self._at.path.unlink(missing_ok=True)  # libzmq leaves it behind
            if self._waiter is not None:
                self._waiter.cancel()
        await asyncio.wait([self._watch])

    # -- messages -------------------------------------------------------------------------------

    async def receive(self) -> tuple[bytes, bytes]:
        """The next message of any client: its identity and its one payload frame.

        One task at a time. Messages that break the wire's rules are answered here and skipped.
        """
        while True:
            self._burst += 1
            if self._burst % BURST == 0:
                await asyncio.sleep(0)
            if self._watch.done():
                self._watch.result()  # raises what kept the socket from being opened again
            try:
                message = self._take()
            except zmq.Again:
                await self._readable()
                continue
            if message is not None:
                self.counts.received += 1
                return message

    def send(self, identity: bytes, payload: bytes) -> bool:
        """Hand a message over without waiting; False if the client is gone or does not read."""
        try:
            self._socket.send_multipart((identity, payload), zmq.DONTWAIT)
        except zmq.ZMQError as exc:
            if exc.errno not in (errno.EAGAIN, errno.EHOSTUNREACH, errno.ENOTSOCK):
                raise
            self.counts.lost += 1
            return False
        finally:
            if self._waiter is not None:
                self._wake_if_readable()
        self.counts.sent += 1
        return True

    def _take(self) -> tuple[bytes, bytes] | None:
        """The next message, or None for one that was refused. Raises Again if there is none."""
        if self._skipping is not None:
            self._skip(self._skipping)
            return None
        identity: bytes = self._socket.recv(zmq.DONTWAIT)
        if not self._socket.getsockopt(zmq.RCVMORE):
            return None
        payload: bytes = self._socket.recv(zmq.DONTWAIT)
        if self._socket.getsockopt(zmq.RCVMORE):
            self._skipping = identity
            return None
        if len(payload) > m.MAX_MESSAGE:
            self._refuse(identity, _TOO_LARGE)
            return None
        return identity, payload

    def _skip(self, identity: bytes) -> None:
        """Throw away frames of a message that has too many: a burst, as there may be millions."""
        for _ in range(BURST * 16):
            if not self._socket.getsockopt(zmq.RCVMORE):
                self._skipping = None
                self._refuse(identity, _TOO_MANY_FRAMES)
                return
            self._socket.recv(zmq.DONTWAIT, copy=False)
        self._burst = BURST - 1  # the loop's other tasks come next

    def _refuse(self, identity: bytes, answer: bytes) -> None:
        self.counts.refused += 1
        self.send(identity, answer)

    # -- waiting --------------------------------------------------------------------------------

    async def _readable(self) -> None:
        assert self._waiter is None, "one task at a time may receive"
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake_if_readable(self) -> None:
        """Asking for EVENTS takes the edge off the descriptor; a lost edge would hang a message."""
        readable = int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN
        if readable:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- the socket and its bounds --------------------------------------------------------------

    def _open(self) -> None:
        self._router = Router(self._at, self._keys)
        self._at = self._router.at
        self._socket = self._router.socket
        self._loop.add_reader(self._router.fd, self._wake_if_readable)
        self._loop.add_reader(self._router.monitor_fd, self._count_connections)
        self._count_connections()  # a pipe signals only after it was once found empty

    def _close(self) -> None:
        if self._socket.closed:  # could not be opened again; its descriptors may be others' now
            return
        self._loop.remove_reader(self._router.fd)
        self._loop.remove_reader(self._router.monitor_fd)
        self._router.close()

    def _count_connections(self) -> None:
        """Look at the monitor; libzmq does not say whose connection was lost."""
        if self._router.count_connections() > self._max_connections:
            self._crowded.set()
        if self._router.lost != self._lost:
            self._lost = self._router.lost
            self.on_lost()

    async def _watch_bounds(self) -> None:
        """Drop all connections when they or the process's memory grow too far; clients come back.

        libzmq hands over complete messages only, and counts whole messages against its marks: a
        client that sends frames without end, or many connections, grow it where nobody can count.
        """
        start = last = anonymous_bytes()
        while True:
            now = anonymous_bytes()
            if self._crowded.is_set() or now - start > self._memory_bound:
                log.warning(
                    "Dropping all connections: there are %d, and memory grew by %d MiB.",
                    self._router.count_connections(),
                    (now - start) >> 20,
                )
                self._reopen()
                # What is still there was not the socket's. It must not trip us again.
                now = anonymous_bytes()
                start = max(start, now - self._memory_bound // 2)
            pause = WATCH_FAST_S if now - last > FAST_GROWTH else WATCH_S
            last = now
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._crowded.wait()

    def _reopen(self) -> None:
        self._close()
        self._skipping = None
        self._crowded.clear()
        return_free_memory()
        self._open()
        self.counts.reopened += 1
        self._wake()
