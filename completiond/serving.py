"""The composition root of the front: a socket, an engine process and a daemon, until a signal.

Knows signals, keys and the event loop; knows no messages.
"""

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from completiond.config import Config
from completiond.daemon import Daemon
from completiond.endpoint import default_endpoint, parse
from completiond.engine.door import ProcessEngine
from completiond.keys import server_keys
from completiond.prompts import prompts_of
from completiond.record.rows import Served
from completiond.record.store import Full
from completiond.record.wall import now_ms
from completiond.record.writer import Writer
from completiond.remembered import Sink
from completiond.transport import Listener
from completiond.version import __version__

if TYPE_CHECKING:
    from completiond.http.front import Front

log = logging.getLogger(__name__)


class Ready(NamedTuple):
    """What `serve` tells when clients can be answered; `http` is where its web server is."""

    endpoint: str
    model: str
    info: Mapping[str, Any]
    http: str = ""


async def serve(
    config: Config, *, engine: ProcessEngine, on_ready: Callable[[Ready], None]
) -> None:
    """Serve until SIGTERM or SIGINT, which drains; a second one stops at once.

    `engine` may have been launched before. Raises why it cannot: EndpointInUse and its like, and
    what the model fails by.
    """
    endpoint = config.serve.endpoint or default_endpoint()
    open_loopback = config.serve.insecure_loopback
    keys = None if parse(endpoint).path or open_loopback else server_keys()
    listening = Listener(endpoint, insecure_loopback=open_loopback, keys=keys)
    prompts = cache(partial(prompts_of, config, engine.spec))
    counts: Counter[str] = Counter()
    async with (
        listening as listener,
        _recording(config) as writer,
        _exporting(config) as exporter,
        _http(config, engine, counts) as front,
    ):
        daemon = Daemon(config, engine, listener, _both(writer, exporter), counts)
        first, second = asyncio.Event(), asyncio.Event()
        with _on_signals(lambda: (second if first.is_set() else first).set()):
            reader = asyncio.create_task(daemon.serve())
            try:
                await _race(daemon.open(prompts), reader, first)
                if not first.is_set():
                    if front is not None:
                        front.runs.open(prompts())
                    url = front.url if front is not None else ""
                    if writer is not None:
                        writer.describe(_served(config, daemon.model, engine.info))
                    on_ready(Ready(listener.endpoint, daemon.model, engine.info, url))
                    await _race(first.wait(), reader, first)
                log.info("draining; %d requests wait", daemon.waiting)
                await _race(_drained(daemon, front), reader, second)
            finally:
                reader.cancel()
                await daemon.close()


def run(config: Config, *, engine: ProcessEngine, on_ready: Callable[[Ready], None]) -> None:
    """`serve` on the fastest event loop that is there."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # not on Windows, and not without the extra `serve`
        from uvloop import new_event_loop as factory
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(config, engine=engine, on_ready=on_ready))


def _served(config: Config, model: str = "", info: Mapping[str, Any] | None = None) -> Served:
    """This start of the daemon, as the record names it."""
    engine = config.engine
    facts = {"policy": engine.policy, "draft_tokens": engine.draft_tokens, **(info or {})}
    return Served(0, now_ms(), os.getpid(), __version__, model, facts)


@asynccontextmanager
async def _recording(config: Config) -> AsyncIterator[Writer | None]:
    """Who writes keys down, until the last one is; None if nobody shall."""
    if not config.record.enabled:
        yield None
        return
    writer = Writer(_served(config), config.record)
    writer.start()
    try:
        yield writer
    finally:
        await asyncio.to_thread(writer.stop)


@asynccontextmanager
async def _exporting(config: Config) -> AsyncIterator[Sink | None]:
    """Who tells a collector of each key; None if none was named."""
    if not config.record.otlp:
        yield None
        return
    from completiond.record.otel import Exporter  # the extra `otel`

    exporter = Exporter(config.record.otlp, _served(config))
    exporter.start()
    try:
        yield exporter
    finally:
        await asyncio.to_thread(exporter.stop)


class _Both(NamedTuple):
    """Two that are told of each key."""

    first: Sink
    second: Sink

    def put(self, number: int, state: Full) -> None:
        self.first.put(number, state)
        self.second.put(number, state)


def _both(first: Sink | None, second: Sink | None) -> Sink | None:
    return _Both(first, second) if first is not None and second is not None else first or second


@asynccontextmanager
async def _http(
    config: Config, engine: ProcessEngine, counts: Counter[str]
) -> AsyncIterator["Front | None"]:
    """The web server, if one is wanted."""
    if not config.http.port:
        yield None
        return
    from completiond.http.front import Front  # a web server's packages, which are an extra
    from completiond.http.runs import Runs

    runs = Runs(config, engine, counts)
    async with Front(config.http.port, config.http.key, runs) as front:
        yield front


async def _drained(daemon: Daemon, front: "Front | None") -> None:
    if front is not None:
        await front.drain()
    await daemon.drain()


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _race(
    work: Coroutine[Any, Any, Any], reader: asyncio.Task[None], stop: asyncio.Event
) -> None:
    """Until the work is done or a signal stops it. Raises what it fails by, or the reader does."""
    tasks = [asyncio.create_task(work), asyncio.create_task(stop.wait())]
    done, _ = await asyncio.wait([*tasks, reader], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in done:
        task.result()
