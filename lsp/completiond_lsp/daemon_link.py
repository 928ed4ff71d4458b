"""The way to the daemon: connects when it is needed, has a daemon started, comes back.

Knows the client; knows no editor. A request does not wait for a daemon to start: it is told
NoDaemon, and a later one gets through.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
FIRST_WAIT_S = 0.3
"""How long a request waits for a connection that is being made."""
WATCH_S = 0.1
POLL_S = 0.1
IDLE_POLL_S = 1.0
"""How long to leave a daemon alone that did not answer, though somebody asks."""


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


class DaemonLink:
    """One connection, kept by one task. `tell` shows a sentence to the person, at most once."""

    def __init__(self, target: Target, tell: Callable[[str], None]) -> None:
        self.target = target
        self._tell = tell
        self._told = False
        self._client: Client | None = None
        self._up, self._gone, self._wanted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @property
    def client(self) -> Client | None:
        """The client, if the daemon answered last time."""
        return self._client

    def aim(self, target: Target) -> None:
        """Use another daemon from now on; the same one is left alone."""
        if target != self.target:
            self.close()
            self.target = target

    async def connected(self) -> Client:
        """The client of a daemon that answers. Raises NoDaemon if that takes too long."""
        if self._client is not None and not self._client.connected:
            self.lost(self._client)
        self.want()
        if self._client is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._up.wait(), FIRST_WAIT_S)
        if self._client is None:
            raise NoDaemon("No daemon answers yet.")
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
        self._wanted.set()
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(self._keep(self.target), name="daemon link")

    def lost(self, client: Client) -> None:
        """Take note that the daemon of this client does not answer any more."""
        if client is self._client:
            self._client = None
            self._up.clear()
            self._gone.set()

    def close(self) -> None:
        """Let go of the connection; the daemon lives on."""
        if self._client is not None:
            self.lost(self._client)
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None

    async def _keep(self, target: Target) -> None:
        try:
            endpoint, keys = target.resolve()
            process = DaemonProcess(endpoint, target.model, target.command)
            async with Client(endpoint, client=NAME, version=__version__, keys=keys) as client:
                while True:
                    if await self._answers(client):
                        process.answered()
                        await self._serve(client)
                    else:
                        await self._revive(process if target.start else None)
        except CompletiondError as exc:
            log.warning("No way to a daemon: %s", exc)
            self._say(str(exc))
            await asyncio.sleep(IDLE_POLL_S)  # `want` would come back at once

    async def _answers(self, client: Client) -> bool:
        try:
            await client.hello(HELLO_S)
        except NoDaemon:
            return False
        return True

    async def _serve(self, client: Client) -> None:
        """Offer the client to requests until one finds the daemon gone."""
        self._client = client
        self._gone.clear()
        self._up.set()
        await self._gone.wait()

    async def _revive(self, process: DaemonProcess | None) -> None:
        """Wait for a daemon to try again; start one if we may."""
        problem = process.ensure() if process is not None else ""
        if problem:
            self._say(problem)
        if process is not None and process.under_way:
            await asyncio.sleep(POLL_S)
        else:
            self._wanted.clear()
            await self._wanted.wait()
            await asyncio.sleep(IDLE_POLL_S)

    def _say(self, sentence: str) -> None:
        if not self._told:
            self._told = True
            self._tell(sentence)
