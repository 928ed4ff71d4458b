"""The socket that the dashboard is served on: loopback, until a signal, which ends it cleanly.

Knows uvicorn and connections; knows no route. A connection must ask something soon: who has no
token cannot keep the page's owner out by opening many and saying nothing.
"""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from completiond.errors import RequestError
from completiond.footprint import allow_many_files

LOOPBACK = "127.0.0.1"
REQUEST_S = 10.0
"""How long a request may take to come."""
LAST_S = 2
"""How long answers may take that are on their way when a signal comes."""


class Impatient(H11Protocol):
    """Hangs up on who is not in the middle of a request that has come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_later()

    def _look_later(self) -> None:
        self._looks = self.loop.call_later(REQUEST_S, self._look)

    def _look(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._looks.cancel()
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """Ends the streams of open pages first: they would keep it alive. A signal is no failure."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.config.loaded_app.app.state.pages.over.set()
        self.force_exit = self.should_exit
        self.should_exit = True


def listener(port: int) -> socket.socket:
    """A loopback socket; 0 is any free port. Raises RequestError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
    except OSError as exc:
        made.close()
        raise RequestError(
            f"Port {port} cannot be used ({exc.strerror}); name another --port, or none."
        ) from exc
    made.listen()
    return made


async def serve(app: Starlette, on: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM; a second one ends it at once."""
    allow_many_files()
    config = uvicorn.Config(
        app,
        http=Impatient,
        ws="none",
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=LAST_S,
        lifespan="on",
    )
    await _Server(config).serve([on])
