"""`completiond top`: the record and the daemon in a terminal, live; over ssh too."""

import asyncio
import sqlite3
from dataclasses import replace
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.live import Live

from completiond.client import Client
from completiond.commands import options
from completiond.commands.daemon_client import client_of, connected
from completiond.commands.terminal import out
from completiond.commands.top_view import Seen, screen
from completiond.config import Config
from completiond.errors import CompletiondError, RecordError
from completiond.protocol.messages import Status
from completiond.record import figures, place, queries
from completiond.record.rows import Filter
from completiond.record.wall import now_ms

STAGES = ("total", "daemon", "text", "free")
LOOK_S = 0.25
STATUS_S = 2.0
AROUND = 14
"""Lines that are no keys."""


def top(
    minutes: Annotated[
        int, typer.Option(min=1, max=5_256_000, help="How long back the figures go.")
    ] = 60,
    once: Annotated[bool, typer.Option("--once", help="Print it once and end.")] = False,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Show the latest keys and what they cost in this terminal, live. Ctrl-C ends it.

    It reads the record on this machine, and asks the daemon for its state if one runs.
    """
    settings = options.settings(
        config, serve__endpoint=endpoint, serve__insecure_loopback=insecure_loopback
    )
    asyncio.run(_show(settings, minutes, once or not out.is_terminal))


async def _show(settings: Config, minutes: int, once: bool) -> None:
    seen = _read(await _first(settings), minutes, out.size.height)
    if once:
        out.print(_screen(seen, minutes))
        return
    async with client_of(settings) as client:
        with Live(_screen(seen, minutes), console=out, screen=True) as live:
            await _keep_showing(client, seen, minutes, live)


async def _keep_showing(client: Client, seen: Seen, minutes: int, live: Live) -> None:
    """Until Ctrl-C. The daemon is asked beside it: it may be slow, or gone."""
    asking = asyncio.create_task(_asked(client))
    while True:
        await asyncio.sleep(LOOK_S)
        if asking.done():
            status, trouble = asking.result()
            seen = replace(seen, status=status, trouble=trouble)
            asking = asyncio.create_task(_asked(client))
        seen = _read(seen, minutes, out.size.height)
        live.update(_screen(seen, minutes))


def _screen(seen: Seen, minutes: int) -> RenderableType:
    span = "an hour" if minutes == 60 else f"{minutes} minutes"
    return screen(seen, span, out.size.width)


async def _first(settings: Config) -> Seen:
    """What the daemon says of itself; at once where there is none."""
    try:
        async with connected(settings) as client:
            return Seen(status=await client.status(timeout=STATUS_S))
    except CompletiondError as exc:
        return Seen(trouble=str(exc))


async def _asked(client: Client) -> tuple[Status | None, str]:
    """What the daemon says of itself now, or why it does not."""
    try:
        return await client.status(timeout=STATUS_S), ""
    except CompletiondError as exc:
        return None, str(exc)


def _read(seen: Seen, minutes: int, lines: int) -> Seen:
    """With what the record says now; as before where it cannot be read."""
    store = place.newest(place.directory())
    if store is None:
        return seen
    try:
        with queries.reading(store) as db:
            return _of(db, seen, minutes, lines)
    except RecordError as exc:
        return replace(seen, trouble=str(exc))


def _of(db: sqlite3.Connection, seen: Seen, minutes: int, lines: int) -> Seen:
    only = Filter(since_ms=max(0, now_ms() - minutes * 60_000))
    counts = figures.counted(db, only)
    return replace(
        seen,
        keys=queries.latest(db, max(5, lines - AROUND)),
        totals=figures.totals(counts),
        spreads={one.stage: one for one in figures.by_stage(db, only, STAGES)},
        kinds=figures.named(counts, "kind"),
        reasons=figures.named(counts, "reason"),
        rates=figures.rates(counts),
    )
