"""`completiond why`: what became of a request, in plain words with the numbers."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer

from completiond.commands import options
from completiond.commands.daemon_client import connected
from completiond.config import Config
from completiond.errors import RequestError
from completiond.protocol import messages as m
from completiond.reasons import sentences

ANSWER_S = 5.0


def why(
    request: Annotated[str, typer.Argument(metavar="ID|last", help="A request's id, or `last`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Say why a recent request showed something, or nothing. Exit code 1 if it is not known."""
    settings = options.settings(
        config, serve__endpoint=endpoint, serve__insecure_loopback=insecure_loopback
    )
    found = asyncio.run(_ask(settings, _number(request)))
    if not found.facts:
        raise RequestError(_unknown(request))
    typer.echo(json.dumps(asdict(found)) if as_json else "\n".join(sentences(found)))


def _unknown(request: str) -> str:
    if request == "last":
        return "The daemon has not answered anything yet; ask for a completion first."
    return f"The daemon does not remember request {request}; it keeps the latest few only."


def _number(request: str) -> int:
    if request == "last":
        return 0
    if not request.isdecimal() or not int(request):
        raise RequestError(f"{request!r} is no request; give its number, or `last`.")
    return int(request)


async def _ask(config: Config, request: int) -> m.Why:
    async with connected(config) as client:
        return await client.why(request, timeout=ANSWER_S)
