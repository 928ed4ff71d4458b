"""`completiond dashboard`: the record in a browser of this machine, live."""

import asyncio
import socket
from typing import Annotated

import typer

from completiond.client import Client
from completiond.commands import options
from completiond.commands.daemon_client import client_of
from completiond.commands.terminal import out
from completiond.config import Config
from completiond.loopback import listener
from completiond.protocol.messages import Status
from completiond.record import place

STATUS_S = 3.0
CONNECT_S = 0.5
"""How long a daemon is waited for that is not there, or is being started again."""


def dashboard(
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, max=65535, help="Serve on this port; 0: a free one."),
    ] = None,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Show the record in a browser, key by key, while one types. Ctrl-C ends it.

    The first line that it prints is a link that carries a token; only this machine can open it.
    It reads the record here and asks the daemon for its state if one runs. Nothing is fetched from
    elsewhere. Ctrl-C and SIGTERM end it with 0.
    """
    settings = options.settings(
        config,
        serve__endpoint=endpoint,
        serve__insecure_loopback=insecure_loopback,
        dashboard__port=port,
    )
    options.need_packages("`completiond dashboard`", "dashboard", *options.WEB)
    if settings.dashboard.metrics_token:
        options.need_packages("`/metrics`", "metrics", "prometheus_client")
    with listener(settings.dashboard.port) as on:
        asyncio.run(_serve(settings, on))


async def _serve(settings: Config, on: socket.socket) -> None:
    from completiond.dashboard.guard import new_token
    from completiond.dashboard.server import Tokens, application
    from completiond.dashboard.socket import serve

    tokens = Tokens(new_token(), settings.dashboard.metrics_token)

    async def tell() -> None:
        out.print(f"http://127.0.0.1:{on.getsockname()[1]}/#{tokens.page}")
        out.print("Open this link in a browser of this machine. Ctrl-C ends it.", style="dim")

    async with client_of(settings) as client:
        app = application(place.directory(), lambda: _status(client), tokens, tell)
        await serve(app, on)


async def _status(client: Client) -> Status:
    return await client.status(timeout=STATUS_S if client.connected else CONNECT_S)
