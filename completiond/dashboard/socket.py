"""How the dashboard is served: until a signal, which ends it cleanly. Knows no route."""

import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette

from completiond import web_server
from completiond.footprint import allow_many_files

LAST_S = 2
"""How long answers may take that are on their way when a signal comes."""


class _Server(uvicorn.Server):
    """Ends the streams of open pages first: they would keep it alive. A signal is no failure."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.config.loaded_app.app.state.pages.over.set()
        self.force_exit = self.should_exit
        self.should_exit = True


async def serve(app: Starlette, on: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM; a second one ends it at once."""
    allow_many_files()
    config = web_server.settings(app, timeout_graceful_shutdown=LAST_S, lifespan="on")
    await _Server(config).serve([on])
