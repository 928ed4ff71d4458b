"""`completiond why`: what became of a request, in plain words with the numbers."""

import asyncio
import json
from dataclasses import asdict, replace
from typing import Annotated

import typer

from completiond.commands import options
from completiond.commands.daemon_client import connected
from completiond.config import Config
from completiond.errors import NoDaemon, RequestError
from completiond.protocol import messages as m
from completiond.reasons import sentences
from completiond.record.facts import in_words
from completiond.record.recall import recalled

ANSWER_S = 5.0
MOST_DIGITS = 19


def why(
    request: Annotated[
        str, typer.Argument(metavar="ID|last", help="A request's id, or `last`: the newest.")
    ] = "last",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Say why a recent request showed something, or nothing. Exit code 1 if it is not known."""
    settings = options.settings(
        config, serve__endpoint=endpoint, serve__insecure_loopback=insecure_loopback
    )
    found = _find(settings, _number(request))
    if not found.facts:
        raise RequestError(_unknown(request))
    text = [*sentences(found), *in_words(found.facts)]
    typer.echo(json.dumps(asdict(found)) if as_json else "\n".join(text))


def _unknown(request: str) -> str:
    if request == "last":
        return "Nothing has been asked yet; ask for a completion first."
    return f"Nobody remembers request {request}, and it is not in the record."


def _number(request: str) -> int:
    if request == "last":
        return 0
    if not request.isdecimal() or len(request) > MOST_DIGITS or not 0 < int(request) < 1 << 63:
        raise RequestError(f"{request[:40]!r} is no request; give its number, or `last`.")
    return int(request)


def _find(config: Config, request: int) -> m.Why:
    """From the daemon's memory, else from the record. Raises NoDaemon if neither has it."""
    found, trouble = m.Why(0), None
    try:
        found = asyncio.run(_ask(config, request))
    except NoDaemon as exc:
        trouble = exc
    if not found.facts:
        found = replace(found, facts=recalled(request))
    if trouble is not None and not found.facts:
        raise trouble
    return found


async def _ask(config: Config, request: int) -> m.Why:
    async with connected(config) as client:
        return await client.why(request, timeout=ANSWER_S)
