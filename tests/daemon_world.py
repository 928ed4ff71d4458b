"""A daemon with a scripted engine behind a real socket, and raw clients of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import zmq.asyncio

from completiond import config
from completiond.daemon import Daemon
from completiond.engine.desk import Engine, Start
from completiond.engine.door import ProcessEngine
from completiond.engine.thread_engine import ThreadEngine
from completiond.engine_process import load_scripted
from completiond.prompts import prompts_of
from completiond.protocol import codec
from completiond.protocol import messages as m
from completiond.remembered import Sink
from completiond.transport import Listener

SLOW = {"answers": ["a" * 4000], "pass_ms": 2.0}
FINAL = (m.Completion, m.Failure)
PATIENCE_S = 10.0


class Wire:
    """A client that sends what it is told and keeps everything that comes, in order."""

    def __init__(self, context: zmq.asyncio.Context, endpoint: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.connect(endpoint)
        self.seen: list[Any] = []

    async def raw(self, *frames: bytes) -> None:
        await self._socket.send_multipart(list(frames))

    async def send(self, *messages: Any) -> None:
        for message in messages:
            await self.raw(codec.encode(message))

    async def next(self, kind: type | tuple[type, ...] = object, ident: int | None = None) -> Any:
        """The next message of this kind and id; what comes before it is kept in `seen`."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = codec.decode_from_daemon(await self._socket.recv())
                self.seen.append(message)
                if isinstance(message, kind) and ident in (None, getattr(message, "id", None)):
                    return message

    async def ask(self, request: m.Complete) -> Any:
        await self.send(request)
        return await self.next(FINAL, request.id)

    def close(self) -> None:
        self._socket.close()


class World:
    """A daemon, its engine, and clients of it."""

    def __init__(self, daemon: Daemon, engine: Any, listener: Listener) -> None:
        self.daemon, self.engine, self.listener = daemon, engine, listener
        self.endpoint = listener.endpoint
        self._context = zmq.asyncio.Context()
        self._clients: list[Wire] = []

    def client(self) -> Wire:
        self._clients.append(Wire(self._context, self.endpoint))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._context.term()


def start_of(script: dict[str, Any]) -> Start:
    return Start("scripted", script=script)


def in_thread(script: dict[str, Any]) -> Engine:
    return ThreadEngine(lambda: load_scripted(script))


def in_process(script: dict[str, Any]) -> Engine:
    return ProcessEngine(start_of(script))


@asynccontextmanager
async def world(
    tmp_path: Path,
    make: Callable[[dict[str, Any]], Engine] = in_thread,
    settings: config.Config | None = None,
    at: str = "",
    sink: Sink | None = None,
    **script: Any,
) -> AsyncIterator[World]:
    tmp_path.chmod(0o700)
    # The gate has tests of its own; elsewhere documents are as small as they can be.
    settings = settings or config.Config(completion=config.Completion(gate=False))
    at = at or f"ipc://{tmp_path}/d.sock"
    async with Listener(at, insecure_loopback=True) as listener:
        engine = make(script)
        daemon = Daemon(settings, engine, listener, sink)
        reader = asyncio.create_task(daemon.serve())
        await daemon.open(partial(prompts_of, settings, start_of(script)))
        here = World(daemon, engine, listener)
        try:
            yield here
        finally:
            reader.cancel()
            await daemon.close()
            here.close()
            await asyncio.wait([reader])


def ask(ident: int = 1, before: str = "def f():\n    ", **more: Any) -> m.Complete:
    return m.Complete(ident, more.pop("document", "a.py"), 7, before, more.pop("after", ""), **more)
