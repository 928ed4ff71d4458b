"""One bound ROUTER socket with everything it needs: context, CURVE authenticator, monitor.

Knows options of ZeroMQ and who may connect; knows no messages and no event loop. It has a context
of its own, because only a context's end says that a socket and what it held are really gone.
"""

import errno

import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from completiond import endpoint as ep
from completiond.errors import TransportError
from completiond.keys import ServerKeys
from completiond.protocol.messages import MAX_FRAME

ZAP_DOMAIN = "completiond"
UNREAD_IN = 16
"""Messages of one connection that may wait for us, 64 MB of the largest; after that the client has
to wait."""
UNREAD_OUT = 512
"""Messages that may wait for one client; then it loses what follows."""
HANDSHAKE_MS = 5_000
HEARTBEAT_MS, HEARTBEAT_TIMEOUT_MS = 1_000, 3_000
"""Of tcp: a machine that is cut off says no word. A process of our own machine never goes so."""
LOCAL_HEARTBEAT_MS, LOCAL_HEARTBEAT_TIMEOUT_MS = 10_000, 30_000


class Router:
    """Open from its making until `close`. Raises EndpointInUse or TransportError.

    `at` names the real port if 0 was asked for; `lost` counts connections that ended.
    """

    def __init__(self, at: ep.Endpoint, keys: ServerKeys | None) -> None:
        self.at = at
        self.lost = 0
        self._connections: set[int] = set()
        self._authenticator: ThreadAuthenticator | None = None
        self._context = zmq.Context()
        self.socket = _configured(self._context)
        try:
            _beat(self.socket, local=at.path is not None)
            self.socket.setsockopt(zmq.IPV6, ":" in at.host)
            if keys is not None:
                self._authenticator = _authenticate(self._context, self.socket, keys)
            self._monitor = self.socket.get_monitor_socket(
                zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
            )
            self._bind()
        except BaseException:
            self.close()
            raise
        self.fd = int(self.socket.getsockopt(zmq.FD))
        self.monitor_fd = int(self._monitor.getsockopt(zmq.FD))

    def close(self) -> None:
        """Returns when the address is free again and the memory of unread messages is returned."""
        if self.socket.closed:
            return
        if self._authenticator is not None:
            self._authenticator.stop()
        self.socket.disable_monitor()
        self._context.destroy(linger=0)

    def count_connections(self) -> int:
        """How many there are. Must be asked whenever `monitor_fd` has news, and once before."""
        while True:
            try:
                news = parse_monitor_message(self._monitor.recv_multipart(zmq.DONTWAIT))
            except zmq.Again:
                return len(self._connections)
            if news["event"] == zmq.EVENT_ACCEPTED:
                self._connections.add(int(news["value"]))
            else:
                self._connections.discard(int(news["value"]))
                self.lost += 1

    def _bind(self) -> None:
        try:
            self.socket.bind(self.at.text)
        except zmq.ZMQError as exc:
            if exc.errno == errno.EADDRINUSE:
                raise ep.in_use_by_another_program(self.at) from exc
            raise TransportError(
                f"Cannot listen at {self.at.text} ({exc.strerror}); choose another --endpoint."
            ) from exc
        if self.at.path is not None:
            self.at.path.chmod(0o600)
        elif self.at.port == 0:
            self.at = ep.parse(self.socket.getsockopt_string(zmq.LAST_ENDPOINT))


def _configured(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    router = context.socket(zmq.ROUTER)
    router.linger = 0
    router.setsockopt(zmq.ROUTER_MANDATORY, 1)
    router.setsockopt(zmq.MAXMSGSIZE, MAX_FRAME)
    router.setsockopt(zmq.RCVHWM, UNREAD_IN)
    router.setsockopt(zmq.SNDHWM, UNREAD_OUT)
    router.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    return router


def _beat(router: zmq.Socket[bytes], *, local: bool) -> None:
    router.setsockopt(zmq.HEARTBEAT_IVL, LOCAL_HEARTBEAT_MS if local else HEARTBEAT_MS)
    limit = LOCAL_HEARTBEAT_TIMEOUT_MS if local else HEARTBEAT_TIMEOUT_MS
    router.setsockopt(zmq.HEARTBEAT_TIMEOUT, limit)


class _Gate:
    """What the authenticator asks; it insists on this name of the method."""

    def __init__(self, keys: ServerKeys) -> None:
        self._keys = keys

    def callback(self, domain: str, key: bytes) -> bool:
        return domain == ZAP_DOMAIN and self._keys.allows(key.decode("ascii"))


def _authenticate(
    context: zmq.Context[zmq.Socket[bytes]], router: zmq.Socket[bytes], keys: ServerKeys
) -> ThreadAuthenticator:
    authenticator = ThreadAuthenticator(context)
    authenticator.start()
    authenticator.configure_curve_callback(ZAP_DOMAIN, credentials_provider=_Gate(keys))
    router.setsockopt_string(zmq.ZAP_DOMAIN, ZAP_DOMAIN)
    router.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    router.setsockopt_string(zmq.CURVE_SECRETKEY, keys.pair.secret)
    router.setsockopt_string(zmq.CURVE_PUBLICKEY, keys.pair.public)
    router.setsockopt(zmq.CURVE_SERVER, 1)
    return authenticator
