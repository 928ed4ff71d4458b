"""Who may ask the dashboard: this page, in this user's browser, with this start's token.

Knows the headers of a request; knows no route but that `/api/` needs the token, and `/metrics` one
of its own. What lies outside is the page itself, which has nothing of the record in it.
"""

import hmac
import secrets
from collections.abc import Iterable, Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METRICS = "/metrics"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
NO_TOKEN = "Open the link that `completiond dashboard` has printed: it carries the token."


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Guard:
    """Refuses what is not ours, and says to browsers what the page may do."""

    def __init__(self, app: ASGIApp, token: str, metrics_token: str = "") -> None:
        self._app = app
        self._tokens = {"/api/": token.encode(), METRICS: metrics_token.encode()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        hosts = _values(scope["headers"], b"host")
        if len(hosts) != 1 or _name(hosts[0]) not in LOOPBACK:
            return _refused(403, "This page is served to this machine only, by its own name.")
        origins = _values(scope["headers"], b"origin")
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return _refused(403, "Another page may not ask here.")
        if scope["method"] not in ("GET", "HEAD"):
            return _refused(405, "There is nothing to change here.")
        for place, token in self._tokens.items():
            if scope["path"].startswith(place) and not self._knows(scope["headers"], token):
                return _refused(401, NO_TOKEN)
        return None

    def _knows(self, headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> bool:
        """Whether they carry this token; an empty one nobody has."""
        given = _values(headers, b"authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        same = hmac.compare_digest(token.encode(), wanted)
        return scheme == "Bearer" and same and bool(wanted)


def _values(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _name(host: str) -> str:
    """Of a Host header, without the port."""
    name, _, port = host.rpartition(":")
    return name if port.isdigit() and port.isascii() else host


def _refused(code: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, code)
