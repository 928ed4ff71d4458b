"""How web servers run here: uvicorn without logs of its own, and connections that must ask soon.

Who has no token cannot keep others out by opening many connections and saying nothing. Knows
uvicorn, no route. Its packages are an extra.
"""

import asyncio
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S = 10.0
"""How long a request may take to come."""


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

    def shutdown(self) -> None:
        """Whoever is still sending a request has none that is worth waiting for."""
        if self.cycle is not None and self.cycle.more_body:
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._looks.cancel()
        super().connection_lost(exc)


def settings(
    app: Starlette, connection: type[Impatient] = Impatient, **more: Any
) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=connection, ws="none", log_level="warning", access_log=False, **more
    )
