"""A client of the running daemon, for commands: found quickly, or one sentence that there is none.

Knows the configuration's endpoint and keys; knows nothing of what is asked.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from completiond.client import Client
from completiond.config import Config
from completiond.endpoint import default_endpoint, parse
from completiond.errors import NoDaemon
from completiond.keys import client_keys
from completiond.record.wall import now_ms
from completiond.version import __version__

HELLO_S = 2.0
"""How long a daemon may take to say hello; it does so also while the model is being loaded."""


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Client]:
    """The client, welcomed. Raises NoDaemon, and ConfigError where keys are missing."""
    endpoint = config.serve.endpoint or default_endpoint()
    path = parse(endpoint).path
    if path is not None and not path.exists():
        raise NoDaemon(f"No daemon answers at {endpoint}; start one with `completiond serve`.")
    async with client_of(config) as client:
        await client.hello(timeout=HELLO_S)
        yield client


def client_of(config: Config) -> Client:
    """The client itself, for whoever waits for a daemon. Raises ConfigError."""
    endpoint = config.serve.endpoint or default_endpoint()
    plain = parse(endpoint).path is not None or config.serve.insecure_loopback
    keys = None if plain else client_keys(endpoint)
    return Client(
        endpoint,
        client="completiond",
        version=__version__,
        keys=keys,
        first_id=now_ms(),  # each command is a new client, and `why` finds requests by their id
    )
