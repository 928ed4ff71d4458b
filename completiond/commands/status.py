"""`completiond status`: what the running daemon says of itself."""

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from completiond.commands import options
from completiond.commands.daemon_client import connected
from completiond.commands.serve import device_line
from completiond.commands.terminal import facts, out
from completiond.config import Config
from completiond.errors import EngineLoading, NoDaemon
from completiond.protocol import messages as m

ANSWER_S = 5.0
POLL_S = 0.1
WEB = "daemon http requests"


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0.0, help="Wait so long for a daemon that is ready."),
    ] = 0.0,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Show the running daemon: its model, its device, what it has done. Exit code 1 if none."""
    settings = options.settings(
        config, serve__endpoint=endpoint, serve__insecure_loopback=insecure_loopback
    )
    found = asyncio.run(_ask(settings, wait))
    if as_json:
        typer.echo(json.dumps(asdict(found)))
    else:
        _show(found)


async def _ask(config: Config, wait_s: float) -> m.Status:
    """The status; within `wait_s` it is asked again until the daemon is ready."""
    give_up = time.monotonic() + wait_s
    while True:
        try:
            async with connected(config) as client:
                found = await client.status(timeout=ANSWER_S)
            if found.state == "ready" or not wait_s:
                return found
            if time.monotonic() >= give_up:
                raise EngineLoading(f"The daemon is {found.state} after {wait_s:g} s; wait longer.")
        except NoDaemon:
            if time.monotonic() >= give_up:
                raise
        await asyncio.sleep(POLL_S)


def _show(found: m.Status) -> None:
    engine = found.engine
    out.print(f"[bold]{found.model} is {found.state}[/]")
    facts(
        [
            ("device", device_line(engine | {"device": found.device})),
            ("draft", str(engine.get("draft", ""))),
            ("speculation", ", ".join(engine.get("drafters", ()))),
            ("process", str(engine.get("pid", ""))),
            ("up", _duration(found.uptime_s)),
            ("clients", str(found.clients)),
            ("requests", _requests(found)),
            ("of the web server", _web(engine)),
            ("runs", _runs(engine)),
            ("passes", _passes(engine)),
            ("drafts", _drafts(engine)),
            ("KV cache", _kv(engine)),
            ("memory", " ".join(engine.get("notes", ()))),
        ]
    )


def _requests(found: m.Status) -> str:
    asked = found.engine.get("daemon requests", 0)
    return f"{asked} so far; {found.running} running, {found.waiting} without a reply yet"


def _web(engine: dict[str, int]) -> str:
    """Nothing where there is none."""
    return f"{engine[WEB]} so far" if WEB in engine else ""


def _runs(engine: dict[str, int]) -> str:
    """What became of runs that a new key left, and of those that nobody had asked for yet."""
    left, joined = engine.get("daemon superseded runs", 0), engine.get("daemon joined", 0)
    used = joined + engine.get("daemon superseded hits", 0)
    ahead, hits = engine.get("daemon prefetch runs", 0), engine.get("daemon prefetch hits", 0)
    return (
        f"{left} left by a newer key, {used} of them used for it; "
        f"{ahead} begun before anybody asked, {hits} of them used"
    )


def _passes(engine: dict[str, object]) -> str:
    tokens = engine.get("tokens", engine.get("generated", 0))
    longest = f", the longest {engine['longest_pass_ms']} ms" if "longest_pass_ms" in engine else ""
    return f"{engine.get('passes', 0)} for {tokens} tokens{longest}"


def _drafts(engine: dict[str, dict[str, int]]) -> str:
    """What became of each source's proposals."""
    kept = engine.get("accepted", {})
    drafted = engine.get("drafted", {})
    return ", ".join(f"{name} {kept.get(name, 0)} of {n} kept" for name, n in drafted.items())


def _kv(engine: dict[str, int]) -> str:
    if "kv_bytes" not in engine:
        return ""
    used, budget = engine["kv_bytes"] / 2**20, engine["kv_budget"] / 2**20
    return f"{used:.0f} of {budget:.0f} MiB, {engine['kv_slots']} buffers"


def _duration(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes} min"
        if hours
        else f"{minutes} min {left} s"
        if minutes
        else (f"{left} s")
    )
