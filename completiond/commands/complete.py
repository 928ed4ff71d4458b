"""`completiond complete FILE:LINE:COL`: one completion, by the daemon or by an own engine."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Protocol

import typer
from rich.live import Live

from completiond.client import Client, complete_message
from completiond.commands import options, place, view
from completiond.commands.daemon_client import connected
from completiond.commands.place import Place
from completiond.commands.terminal import Bar, out, say, waiting
from completiond.config import Config
from completiond.errors import EngineLoading, NoDaemon
from completiond.protocol import messages as m

MAX_MS = 60_000
"""A person who asks in a terminal would rather wait than get half an answer."""
LOADING_S = 120.0
"""How long to wait for a daemon that is loading its model."""
POLL_S = 0.2
STATUS_S = 10.0
"""How long its answer to how far it is may take."""


class Asked(Protocol):
    """A daemon, or an engine of our own."""

    def next_id(self) -> int: ...
    async def complete(
        self, message: m.Complete, on_partial: Callable[[m.Partial], None] | None = None
    ) -> m.Completion: ...


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person asked for, beside the place."""

    stream: bool
    as_json: bool
    model: str = ""
    max_tokens: int | None = None


def complete(
    where: Annotated[
        str,
        typer.Argument(
            metavar="FILE:LINE:COL",
            help="Line and column count from 1; the column counts characters and may be one past "
            "the end of the line.",
            show_default=False,
        ),
    ],
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Show the text as it comes (with --json: a line per step)."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the reply as JSON.")] = False,
    no_daemon: Annotated[
        bool, typer.Option("--no-daemon", help="Compute here, even if a daemon runs.")
    ] = False,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=m.MAX_TOKENS, help="Longest answer.")
    ] = None,
    encoding: Annotated[
        str, typer.Option(metavar="NAME", help="The file's encoding, as latin-1.")
    ] = "utf-8",
    model: options.Model = None,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
    scripted: options.Scripted = None,
) -> None:
    """Complete a file at a cursor, and show the text in place and what it cost.

    Asks the running daemon; without one the model is loaded here for this one answer.
    """
    settings = options.settings(
        config,
        model__name=model,
        serve__endpoint=endpoint,
        serve__insecure_loopback=insecure_loopback,
    )
    at = place.read(*place.parse(where), encoding=encoding)
    wish = Wish(stream, as_json, model or "", max_tokens)
    asyncio.run(_run(at, wish, settings, local=no_daemon, scripted=scripted))


async def _run(at: Place, wish: Wish, config: Config, *, local: bool, scripted: str | None) -> None:
    async with AsyncExitStack() as stack:
        asked, source = await _find(stack, config, local, scripted)
        await _show(at, wish, asked, source)


async def _find(
    stack: AsyncExitStack, config: Config, local: bool, scripted: str | None
) -> tuple[Asked, str]:
    """Who is asked, and the sentence that says so."""
    if not local:
        try:
            client = await stack.enter_async_context(connected(config))
            return Patient(client), f"from the daemon at {client.endpoint}"
        except NoDaemon:
            say("No daemon runs here, so the model is loaded for this one answer.")
    options.need_extra("Completing without a daemon")
    started = time.monotonic()
    engine = await stack.enter_async_context(_own_engine(config, scripted))
    took = time.monotonic() - started
    return engine, f"from an engine in this process (no daemon), loaded in {took:.1f} s"


@asynccontextmanager
async def _own_engine(config: Config, scripted: str | None) -> AsyncIterator[Asked]:
    from completiond.commands.local_engine import LocalEngine
    from completiond.commands.start import start_of

    with Bar() as progress:
        start = start_of(config, scripted, progress)
    engine = LocalEngine(config, start)
    with waiting(f"Loading {config.model.name if scripted is None else 'the scripted engine'}"):
        await engine.__aenter__()
    async with AsyncExitStack() as stack:
        stack.push_async_exit(engine.__aexit__)
        yield engine


class Patient:
    """The daemon's client, which waits for a model that is being loaded."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.next_id = client.next_id

    async def complete(
        self, message: m.Complete, on_partial: Callable[[m.Partial], None] | None = None
    ) -> m.Completion:
        give_up = time.monotonic() + LOADING_S
        while True:
            await self._loaded(give_up)
            try:
                return await self._client.complete(message, on_partial, MAX_MS / 1e3 + 30)
            except EngineLoading:  # its engine has just been started again
                if time.monotonic() >= give_up:
                    raise
            await asyncio.sleep(POLL_S)
            message = replace(message, id=self.next_id())

    async def _loaded(self, give_up: float) -> None:
        """Asks how far it is and nothing else: a request would count as a key."""
        told = False
        while await self._waits() and time.monotonic() < give_up:
            if not told:
                say("The daemon is loading its model; waiting for it.")
                told = True
            await asyncio.sleep(POLL_S)

    async def _waits(self) -> bool:
        return (await self._client.status(STATUS_S)).state in ("loading", "restarting")


async def _show(at: Place, wish: Wish, asked: Asked, source: str) -> None:
    message = complete_message(
        at.snapshot(),
        asked.next_id(),
        trigger="invoked",
        model=wish.model,
        max_tokens=wish.max_tokens,
        max_ms=MAX_MS,
        stream=wish.stream,
    )
    if wish.as_json:
        answer = await asked.complete(message, _print_partial if wish.stream else None)
        typer.echo(json.dumps(asdict(answer) | {"source": source}))
        return
    colour = out.color_system is not None
    with Live(console=out, auto_refresh=False, transient=True) as live:

        def redraw(partial: m.Partial) -> None:
            live.update(view.in_place(at, partial.text, colour=colour), refresh=True)

        answer = await asked.complete(message, redraw if wish.stream and out.is_terminal else None)
    text = answer.candidates[0].text if answer.candidates else ""
    out.print(view.in_place(at, text, colour=colour))
    out.print(view.account(answer, source), style="dim")


def _print_partial(partial: m.Partial) -> None:
    line: dict[str, Any] = {"partial": partial.text, "candidate": partial.candidate}
    typer.echo(json.dumps(line))
