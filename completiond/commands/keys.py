"""`completiond keys`: who may connect over tcp. The socket of the default endpoint needs none."""

import shlex
from typing import Annotated

import typer
from rich.text import Text

from completiond import keys
from completiond.commands.terminal import facts, out
from completiond.endpoint import parse
from completiond.errors import TransportError

app = typer.Typer(
    help="Keys for daemons that listen on tcp. The default endpoint needs none.",
    no_args_is_help=True,
)


@app.command()
def new(
    replace: Annotated[bool, typer.Option("--replace", help="Replace the keys there are.")] = False,
) -> None:
    """Make a pair of keys for the daemon and one for this user, who is let in."""
    keys.new_keys(replace=replace)
    out.print(f"New keys are in {keys.keys_dir()}; this user may connect.")
    show()


@app.command()
def show() -> None:
    """Show the public keys, and who may connect."""
    endpoint = ""  # no daemon elsewhere is meant, so the key is this machine's
    pair = keys.client_keys(endpoint)
    facts([("daemon", pair.server), ("client", pair.pair.public)])
    for key, name in keys.authorised().items():
        facts([("let in", f"{key} {name}")])
    out.print(
        "To connect two machines, as their shells take it (a key holds signs that they obey):"
    )
    public = shlex.quote(pair.pair.public)
    out.print(Text(f"  on the daemon's:  completiond keys authorise -- {public} NAME"))
    server = shlex.quote(pair.server)
    out.print(Text(f"  on the client's:  completiond keys trust -- tcp://HOST:PORT {server}"))


@app.command()
def authorise(
    key: Annotated[str, typer.Argument(help="The client's public key.", show_default=False)],
    name: Annotated[str, typer.Argument(help="A word to know it by.", show_default=False)],
) -> None:
    """Let a client in; the running daemon sees it at the next connection."""
    keys.authorise(key, name)
    out.print(f"{name} may connect.")


@app.command()
def trust(
    endpoint: Annotated[str, typer.Argument(help="As tcp://HOST:PORT.", show_default=False)],
    key: Annotated[str, typer.Argument(help="The daemon's public key.", show_default=False)],
) -> None:
    """Remember the public key of a daemon on another machine."""
    if parse(endpoint).path is not None:
        raise TransportError("Keys are for daemons on tcp://HOST:PORT; a socket file needs none.")
    keys.trust(endpoint, key)
    out.print(f"Clients here know the daemon at {endpoint}.")
