"""The dashboard's routes, and how they are served: to this user, read only.

Knows requests and answers; the record is read in threads, each with a connection of its own that
gives up after a while.
"""

import asyncio
import socket
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from completiond.dashboard import answers, exports
from completiond.dashboard.asked import MOST, MOST_EXPORTED, Asked, asked
from completiond.dashboard.guard import METRICS, Guard
from completiond.dashboard.live import Ask, Daemon, events
from completiond.errors import RecordError, RequestError
from completiond.record import metrics as counters
from completiond.record import place
from completiond.record.queries import reading
from completiond.record.wall import now_ms
from completiond.version import __version__

LONGEST_S = 5.0
"""A question to the record that takes longer is given up."""
STEPS = 100_000
"""Of SQLite's machine, between two looks at the clock."""
EXPORT_S = 60.0
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NOTHING = {"error": "", "empty": True}

Question = Callable[[sqlite3.Connection], Any]


class Pages:
    """The handlers. `ask` asks the daemon for its status."""

    def __init__(self, directory: Path, ask: Ask) -> None:
        self._place = directory
        self._daemon = Daemon(ask)
        self._began_ms = now_ms()
        self.over = asyncio.Event()

    async def index(self, _: Request) -> Response:
        return _asset("index.html")

    async def asset(self, request: Request) -> Response:
        return _asset(request.path_params["name"])

    async def about(self, _: Request) -> Response:
        found = await self._answer(answers.about)
        return JSONResponse({"version": __version__} | found)

    async def keys(self, request: Request) -> Response:
        return JSONResponse(await self._of_many(request, answers.latest))

    async def charts(self, request: Request) -> Response:
        return JSONResponse(await self._of_many(request, answers.charts))

    async def key(self, request: Request) -> Response:
        found = await self._answer(partial(answers.one, number=request.path_params["number"]))
        return JSONResponse(found or {"error": "The record has no such key any more."})

    async def export(self, request: Request) -> Response:
        made = asked(dict(request.query_params), now_ms(), MOST_EXPORTED)
        found = await self._answer(lambda db: exports.export(db, made), EXPORT_S)
        if not isinstance(found, exports.File):
            raise RecordError("Nothing has been recorded yet.")
        named = {"Content-Disposition": f'attachment; filename="{found.name}"'}
        return Response(found.text, media_type=found.kind, headers=named)

    async def live(self, _: Request) -> Response:
        stream = events(self._place, self._daemon, self.over)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def metrics(self, _: Request) -> Response:
        from completiond.dashboard.metrics import KIND, exposition  # another extra

        numbers = await self._answer(partial(counters.numbers, began_ms=self._began_ms))
        status = (await self._daemon.once())["status"]
        found = numbers if isinstance(numbers, counters.Numbers) else None
        return Response(exposition(found, status), headers={"Content-Type": KIND})

    async def _of_many(
        self, request: Request, answer: Callable[[sqlite3.Connection, Asked], Any]
    ) -> Any:
        made = asked(dict(request.query_params), now_ms(), MOST)
        return await self._answer(lambda db: answer(db, made))

    async def _answer(self, question: Question, longest_s: float = LONGEST_S) -> Any:
        """Of the store in use; NOTHING if there is none yet."""
        store = place.newest(self._place)
        if store is None:
            return NOTHING
        return await run_in_threadpool(_read, store, question, longest_s)


def _read(store: Path, question: Question, longest_s: float) -> Any:
    give_up = time.monotonic() + longest_s
    with reading(store) as db:
        db.set_progress_handler(lambda: time.monotonic() > give_up, STEPS)
        return question(db)


def _asset(name: str) -> Response:
    """A file of the page; there are no folders in it."""
    page = files("completiond.dashboard") / "page"
    found = {file.name: file for file in page.iterdir()}.get(name)
    kind = KINDS.get(name.rpartition(".")[2])
    if found is None or kind is None:
        return JSONResponse({"error": "There is no such file."}, 404)
    return Response(found.read_bytes(), media_type=kind)


async def _wrong(_: Request, exc: Exception) -> Response:
    code = 400 if isinstance(exc, RequestError) else 503
    return JSONResponse({"error": str(exc)}, code)


class Tokens(NamedTuple):
    """Of the page, and of Prometheus, which may not ask if it is empty."""

    page: str
    metrics: str = ""


def application(
    directory: Path, ask: Ask, tokens: Tokens, opened: Callable[[], Awaitable[None]] | None = None
) -> Starlette:
    """The whole of it. `opened` is awaited once it serves."""
    pages = Pages(directory, ask)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.pages = pages
        if opened is not None:
            await opened()
        yield

    return Starlette(
        routes=[
            Route("/", pages.index),
            Route("/page/{name}", pages.asset),
            Route("/api/about", pages.about),
            Route("/api/keys", pages.keys),
            Route("/api/charts", pages.charts),
            Route("/api/key/{number:int}", pages.key),
            Route("/api/export", pages.export),
            Route("/api/live", pages.live),
            Route(METRICS, pages.metrics),
        ],
        middleware=[Middleware(Guard, token=tokens.page, metrics_token=tokens.metrics)],
        exception_handlers={RequestError: _wrong, RecordError: _wrong},
        lifespan=lifespan,
    )


class _Server(uvicorn.Server):
    """Ends the streams of open pages first: they would keep it alive."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.config.loaded_app.app.state.pages.over.set()
        super().handle_exit(sig, frame)


async def serve(app: Starlette, on: socket.socket) -> None:
    """Until Ctrl-C or SIGTERM."""
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=2, lifespan="on"
    )
    await _Server(config).serve([on])
