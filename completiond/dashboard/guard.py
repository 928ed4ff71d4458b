"""Who may ask the dashboard: this page, in this user's browser, with this start's token.

Knows the headers of a request; knows no route but that `/api/` needs the token, and `/metrics` one
of its own. What lies outside is the page itself, which has nothing of the record in it.
"""

import secrets

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from completiond import loopback

METRICS = "/metrics"
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
        self._tokens = {"/api/": token, METRICS: metrics_token}

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
        if foreign := loopback.refusal(scope["headers"]):
            return _refused(403, foreign)
        if scope["method"] not in ("GET", "HEAD"):
            return _refused(405, "There is nothing to change here.")
        for place, token in self._tokens.items():
            if scope["path"].startswith(place) and not loopback.bears(scope["headers"], token):
                return _refused(401, NO_TOKEN)
        return None


def _refused(code: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, code)
