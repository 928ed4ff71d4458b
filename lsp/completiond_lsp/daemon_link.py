"""The way to the daemon: connects when it is needed, has a daemon started, comes back.

Knows the client; knows no editor. A request waits for a daemon that is starting or loads its model,
so that whoever typed too early is answered as soon as it is ready; without one on its way it is
told NoDaemon at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from completiond import config
from completiond.client import Client
from completiond.endpoint import default_endpoint, parse
from completiond.errors import CompletiondError, NoDaemon
from completiond.keys import ClientKeys, client_keys
from completiond.protocol.messages import Complete, Completion
from completiond.version import __version__
from completiond_lsp.daemon_process import SERVE, DaemonProcess

log = logging.getLogger(__name__)

NAME = "completiond-lsp"
HELLO_S = 0.5
PATIENCE_S = 180.0
"""How long a request waits for a daemon that is on its way; typing on ends it sooner."""
STATUS_S = 5.0
"""How long a daemon may take to say how far it is: an engine that loads keeps it waiting."""
WATCH_S = 0.1
POLL_S = 0.1
IDLE_POLL_S = 1.0
"""How long to leave alone what cannot be reached by its settings."""
GONE = "The completion daemon has gone; suggestions come back when it does."


@dataclass(frozen=True, slots=True)
class Target:
    """Which daemon: `endpoint` empty means the user's own; `start` allows to start it."""

    endpoint: str = ""
    start: bool = True
    model: str = ""
    command: Sequence[str] = SERVE

    def resolve(self) -> tuple[str, ClientKeys | None]:
        """The endpoint: given, configured, or the default; and keys if it wants some.

        Raises ConfigError or TransportError.
        """
        serve = config.load().serve
        endpoint = self.endpoint or serve.endpoint or default_endpoint()
        plain = parse(endpoint).path is not None or serve.insecure_loopback
        return endpoint, None if plain else client_keys(endpoint)


class Way(NamedTuple):
    """How things stand; `why` says more of `unreachable`."""

    state: Literal["starting", "loading", "ready", "unreachable"]
    model: str = ""
    why: str = ""


class Watched(Client):
    """A client that calls `stir` when its connection comes or goes."""

    stir: Callable[[], None]

    def on_ready(self) -> None:
        super().on_ready()
        self.stir()

    def on_lost(self) -> None:
        super().on_lost()
        self.stir()


class DaemonLink:
    """One connection, kept by one task.

    `tell` shows a sentence to the person, once for each time that the daemon is away; `changed`
    hears how things stand.
    """

    def __init__(
        self,
        target: Target,
        tell: Callable[[str], None],
        changed: Callable[[Way], None] = lambda _: None,
    ) -> None:
        self.target = target
        self.way = Way("starting")
        self._tell, self._changed = tell, changed
        self._told = False
        self._client: Client | None = None
        self._settled, self._stirred, self._wanted = (asyncio.Event() for _ in range(3))
        self._keeper: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client | None:
        """The client, if the daemon answered last time."""
        return self._client

    def aim(self, target: Target) -> bool:
        """Use another daemon from now on, the same is left alone. Whether it leaves one in use."""
        if target == self.target:
            return False
        used = self._keeper is not None
        self.close()
        self.target = target
        return used

    async def connected(self, patience: float = PATIENCE_S) -> Client:
        """The client of a daemon that is ready. Raises NoDaemon if none is on its way."""
        if self._client is not None and not self._client.connected:
            self.lost(self._client)
        self.want()
        if not self._settled.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), patience)
        if self._client is None or self.way.state != "ready":
            raise NoDaemon(self.way.why or "No daemon answers yet.")
        return self._client

    async def complete(self, client: Client, message: Complete, limit: float) -> Completion:
        """The answer. Raises NoDaemon as soon as the connection is lost, or after `limit` seconds.

        The client would wait for another daemon and ask again; an editor has moved on by then.
        """
        call = asyncio.ensure_future(client.complete(message, timeout=limit, on_cancel=None))
        try:
            while not call.done():
                await asyncio.wait({call}, timeout=WATCH_S)
                if not call.done() and not client.connected:
                    raise NoDaemon("The daemon went away.")
            return await call
        except NoDaemon:
            if not client.connected:
                self.lost(client)
            raise
        finally:
            call.add_done_callback(lambda done: done.cancelled() or done.exception())
            call.cancel()

    def want(self) -> None:
        """See to a connection; returns at once."""
        if self._client is None:
            self._settled.clear()
            self._wanted.set()
            self._stirred.set()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep(self.target), name="daemon link")

    def lost(self, client: Client) -> None:
        """Take note that the daemon of this client does not answer any more."""
        if client is self._client:
            self._client = None
            self._stands(Way("unreachable", why=GONE))
            self._stirred.set()

    def unready(self) -> None:
        """Take note that the daemon's engine does not answer now: it says when it does."""
        if self._client is not None and self.way.state == "ready":
            self._stands(self.way._replace(state="loading"))
            self._stirred.set()

    def close(self) -> None:
        """Let go of the connection; the daemon lives on."""
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        self._client, self._told = None, False
        self._stands(Way("starting"))

    async def _keep(self, target: Target) -> None:
        try:
            endpoint, keys = target.resolve()
            process = DaemonProcess(endpoint, target.model, target.command)
            watched = Watched(endpoint, client=NAME, version=__version__, keys=keys)
            watched.stir = self._stirred.set
            async with watched as client:
                while True:
                    if await self._answers(client):
                        process.answered()
                        await self._serve(client)
                    else:
                        await self._revive(process if target.start else None)
        except CompletiondError as exc:
            log.warning("No way to a daemon: %s", exc)
            self._stands(Way("unreachable", why=str(exc)))
            self._say(str(exc))
            await asyncio.sleep(IDLE_POLL_S)  # `want` would come back at once

    async def _answers(self, client: Client) -> bool:
        try:
            await client.hello(HELLO_S)
        except NoDaemon:
            return False
        return True

    async def _serve(self, client: Client) -> None:
        """Offer the client to requests until the daemon is gone."""
        assert client.welcome is not None, "it answered"
        self._client = client
        self._wanted.clear()
        self._told = False
        way = Way("loading", client.welcome.model)
        self._stands(way._replace(state="ready") if client.welcome.state == "ready" else way)
        while self._client is client and client.connected:
            self._stirred.clear()
            if self.way.state == "ready":
                await self._stirred.wait()
            else:
                await self._load(client)
        self.lost(client)
        self._say(GONE)

    async def _load(self, client: Client) -> None:
        """Ask how far it is."""
        with contextlib.suppress(CompletiondError):
            status = await client.status(STATUS_S)
            if self._client is client and status.state == "ready":
                self._stands(Way("ready", status.model))
                return
        await self._stirring(POLL_S)

    async def _revive(self, process: DaemonProcess | None) -> None:
        """Wait for a daemon to try again; start one if we may and somebody wants it."""
        wanted = process is not None and self._wanted.is_set()
        problem = process.ensure() if process is not None and wanted else ""
        if problem:
            self._stands(Way("unreachable", why=problem))
            self._say(problem)
        if process is not None and process.under_way:
            self._stands(Way("starting"))
            await self._stirring(POLL_S)
            return
        if self.way.state != "unreachable":
            self._stands(Way("unreachable"))
        self._settled.set()
        self._wanted.clear()
        self._stirred.clear()
        await self._stirred.wait()

    async def _stirring(self, seconds: float) -> None:
        """Wait for the connection to come or go, but not longer than that."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), seconds)
        self._stirred.clear()

    def _stands(self, way: Way) -> None:
        """What requests wait for is over when it is ready, and when it is hopeless."""
        if way != self.way:
            self.way = way
            self._changed(way)
        if way.state in ("ready", "unreachable"):
            self._settled.set()
        else:
            self._settled.clear()

    def _say(self, sentence: str) -> None:
        if not self._told:
            self._told = True
            self._tell(sentence)
