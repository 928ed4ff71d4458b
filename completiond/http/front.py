"""The optional web server of the daemon: `POST /v1/completions` on the loopback address.

Knows connections, headers and who may ask; knows no tokens and no engine. A connection that closes
ends its run.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from completiond import loopback, web_server
from completiond.errors import CompletiondError, RequestError, TooLarge
from completiond.http import answers
from completiond.http.asked import asked
from completiond.http.runs import Answer, Runs

PATH = "/v1/completions"
MAX_BODY = 1 << 20
BODY_S = 10.0
"""How long a body may take to arrive."""
MOST_CONNECTIONS = 128
NOBODY_READS = 499
"""Status of what is answered to a connection that has closed."""


class Front:
    """`async with Front(port, key, runs)` serves; an empty key lets everybody on this machine ask.

    Raises RequestError if the port cannot be had.
    """

    def __init__(self, port: int, key: str, runs: Runs) -> None:
        self._port = port
        self._key = key
        self.runs = runs
        self.url = f"http://{loopback.ADDRESS}:{port}{PATH}"

    async def __aenter__(self) -> "Front":
        app = application(self.runs, self._key, crowded=self._crowded)
        config = web_server.settings(app, _Connection, log_config=None, lifespan="off")
        self._server = _Server(config)
        socket = loopback.listener(self._port)
        self._serving = asyncio.create_task(self._server.serve([socket]), name="the HTTP front")
        return self

    def _crowded(self) -> bool:
        return len(self._server.server_state.connections) > MOST_CONNECTIONS

    async def drain(self) -> None:
        """Take no more connections, and wait for what is being answered."""
        self._server.should_exit = True
        await asyncio.shield(self._serving)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        await asyncio.wait([self._serving])


class _Server(uvicorn.Server):
    """Signals are the daemon's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(web_server.Impatient):
    """What is no HTTP is told so as every other error is."""

    def send_400_response(self, msg: str) -> None:
        body = json.dumps(answers.failure(msg, 400, "bad_request")).encode()
        kind = [("content-type", "application/json"), ("content-length", str(len(body)))]
        head = h11.Response(status_code=400, headers=[*kind, ("connection", "close")])
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def application(runs: Runs, key: str, *, crowded: Callable[[], bool]) -> Starlette:
    """`crowded`: whether more are connected than are answered."""

    async def complete(request: Request) -> Response:
        if crowded():
            return _failure("Too many are connected; ask again in a moment.", 503, "overloaded")
        if refused := _refused(request, key):
            return refused
        wanted = asked(await _body(request))
        answer = await runs.start(wanted)
        head = answers.Completion(runs.model)
        if wanted.stream:
            return _Stream(answer, head)
        return await _whole(request, answer, head)

    return Starlette(
        routes=[Route(PATH, complete, methods=["POST"])],
        exception_handlers={
            CompletiondError: _told,
            HTTPException: _elsewhere,
            ClientDisconnect: _left,
            Exception: _defect,
        },
    )


def _refused(request: Request, key: str) -> Response | None:
    headers = request.scope["headers"]
    if foreign := loopback.refusal(headers):
        return _failure(foreign, 403, "forbidden")
    if key and not loopback.bears(headers, key):
        return _failure("Send the key of `http.key` as bearer token.", 401, "invalid_api_key")
    # A form of a web page cannot have this type without asking first, which is never allowed.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return _failure("Send the body as application/json.", 415, "unsupported_media_type")
    return None


async def _body(request: Request) -> bytes:
    """Raises TooLarge, and RequestError for one that does not arrive."""
    found = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                found += piece
                if len(found) > MAX_BODY:
                    raise TooLarge(f"The body is over {MAX_BODY:,} bytes; send less text.")
    except TimeoutError as exc:
        raise RequestError(f"The body did not arrive within {BODY_S:.0f} s.") from exc
    return bytes(found)


async def _whole(request: Request, answer: Answer, head: answers.Completion) -> Response:
    """The answer at once, as long as somebody waits for it."""
    said = asyncio.create_task(answer.whole())
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([said, gone], return_when=asyncio.FIRST_COMPLETED)
        if not said.done():
            return Response(status_code=NOBODY_READS)
        outcome = answer.outcome
        whole = head.whole(
            said.result(),
            outcome.reason,
            prompt=outcome.prompt_tokens,
            generated=len(outcome.ids),
        )
        return JSONResponse(whole)
    finally:
        for task in (said, gone):
            task.cancel()
        answer.give_up()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _Stream(StreamingResponse):
    """Server-sent events; starlette ends it when the connection closes."""

    def __init__(self, answer: Answer, head: answers.Completion) -> None:
        super().__init__(_events(answer, head), media_type="text/event-stream")
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._answer.give_up()


async def _events(answer: Answer, head: answers.Completion) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.pieces():
            yield answers.event(head.part(piece))
        yield answers.event(head.part("", answer.outcome.reason))
    except CompletiondError as exc:
        status = answers.status_of(exc)
        yield answers.event(answers.failure(str(exc), status, exc.code))
    yield answers.DONE


def _failure(sentence: str, status: int, code: str) -> JSONResponse:
    return JSONResponse(answers.failure(sentence, status, code), status)


async def _told(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, CompletiondError), "only these are handled here"
    return _failure(str(exc), answers.status_of(exc), exc.code)


async def _elsewhere(_: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException), "only these are handled here"
    return _failure(f"Here is nothing but `POST {PATH}`.", exc.status_code, "not_found")


async def _left(_: Request, __: Exception) -> Response:
    return Response(status_code=NOBODY_READS)  # who hangs up within a body is no failure of ours


async def _defect(_: Request, exc: Any) -> Response:
    return _failure("The daemon failed at this request; its log says why.", 500, "internal")
