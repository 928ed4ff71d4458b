"""A client's end of the wire: one DEALER socket on the event loop, and whether anyone is there.

Knows bytes and whether the daemon is connected; knows no requests. What a lost connection had not
taken yet is dropped by libzmq (IMMEDIATE), so whoever asks again never asks twice. All descriptors
are edge-triggered: every operation that may swallow an edge looks again.
"""

import asyncio
import os
from types import TracebackType
from typing import Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from completiond import endpoint as ep
from completiond.keys import ClientKeys
from completiond.protocol.messages import MAX_FRAME

BURST = 64
"""Messages that are read before the loop's other tasks get a turn."""
RECONNECT_MS, RECONNECT_MAX_MS = 50, 1_000
HEARTBEAT_MS, HEARTBEAT_TIMEOUT_MS = 10_000, 30_000

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_DISCONNECTED
)


class Events(Protocol):
    """Who is told; `on_ready` follows each connection and each time that sending may go on."""

    def on_message(self, data: bytes) -> None: ...

    def on_lost(self) -> None: ...

    def on_ready(self) -> None: ...


class Connection:
    """Connects, and connects again; `count` says how often it did, `trouble` why it could not."""

    def __init__(self, at: ep.Endpoint, keys: ClientKeys | None, events: Events) -> None:
        self.connected = False
        self.count = 0
        self.trouble = ""
        self._at = at
        self._keys = keys
        self._events = events
        self._closed = True

    def __enter__(self) -> "Connection":
        if self._at.path is not None and self._at.path.parent.exists():
            ep.check_private(self._at.path.parent)
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        self._socket = _dealer(self._context, self._at, self._keys)
        self._monitor = self._socket.get_monitor_socket(_EVENTS)
        self._socket.connect(self._at.text)
        self._fds = [int(s.getsockopt(zmq.FD)) for s in (self._monitor, self._socket)]
        for fd in self._fds:
            self._loop.add_reader(fd, self._look)
        self._closed = False
        self._look()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self.connected = False
        for fd in self._fds:
            self._loop.remove_reader(fd)
        self._socket.disable_monitor()
        self._context.destroy(linger=0)

    def send(self, payload: bytes) -> bool:
        """Never waits; False if nobody is connected or the daemon takes no more for now."""
        if self._closed:
            return False
        # If the daemon came back meanwhile, this would go to the new one before we knew that the
        # old one is lost, and its asker would send it there again.
        self._read_monitor()
        if not self.connected:
            return False
        try:
            self._socket.send(payload, zmq.DONTWAIT)
        except zmq.Again:
            return False
        finally:
            if self._readable():
                self._loop.call_soon(self._look)
        return True

    def _look(self) -> None:
        """Called when a descriptor has news: read until nothing is left, or a burst has passed.

        Answers come first: those that a dying connection still delivered count.
        """
        if self._closed:
            return
        self._read_messages()
        if self._closed:  # by whom the message was for
            return
        self._read_monitor()
        if self.connected:
            self._events.on_ready()
        if not self._closed and self._readable():
            self._loop.call_soon(self._look)

    def _readable(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def _read_messages(self) -> None:
        for _ in range(BURST):
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            self._events.on_message(b"".join(frames))
            if self._closed:
                return

    def _read_monitor(self) -> None:
        while True:
            try:
                news = parse_monitor_message(self._monitor.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return
            event = news["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connected = True
                self.count += 1
                self.trouble = ""
                self._loop.call_soon(self._look)
            elif event != zmq.EVENT_DISCONNECTED:
                self.trouble = _what_failed(int(event), int(news["value"]))
            elif self.connected:
                self.connected = False
                self._events.on_lost()


def _what_failed(event: int, value: int) -> str:
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return "it does not know this client's key; run `completiond keys authorise` over there."
    if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return "one side uses CURVE keys and the other does not, or they do not match."
    return (
        f"the handshake failed ({os.strerror(value)}); if the daemon asks for keys, see "
        "`completiond keys --help`."
    )


def _dealer(
    context: zmq.Context[zmq.Socket[bytes]], at: ep.Endpoint, keys: ClientKeys | None
) -> zmq.Socket[bytes]:
    dealer = context.socket(zmq.DEALER)
    dealer.linger = 0
    dealer.setsockopt(zmq.IMMEDIATE, 1)
    dealer.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME)
    dealer.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    dealer.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MAX_MS)
    dealer.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_MS)
    dealer.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    dealer.setsockopt(zmq.IPV6, ":" in at.host)
    if keys is not None and at.path is None:
        dealer.setsockopt_string(zmq.CURVE_SERVERKEY, keys.server)
        dealer.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.pair.public)
        dealer.setsockopt_string(zmq.CURVE_SECRETKEY, keys.pair.secret)
    return dealer
