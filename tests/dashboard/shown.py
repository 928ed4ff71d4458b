"""The dashboard's application over a store of this test, without a socket."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rows_made import DAEMON
from starlette.testclient import TestClient

from completiond.dashboard.server import Tokens, application
from completiond.errors import NoDaemon
from completiond.protocol.messages import Status
from completiond.record import place
from completiond.record.store import Full, Store

METRICS_TOKEN = "another-token-for-prometheus"
TOKEN = "a-token-of-some-forty-letters-as-they-are-made"
ROUTES = ("/api/about", "/api/keys", "/api/charts", "/api/key/1", "/api/export", "/api/live")


async def nobody() -> Status:
    raise NoDaemon("No daemon answers.")


def with_token(more: dict[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"} | more


@contextmanager
def client(directory: Path, *, metrics: bool = True) -> Iterator[TestClient]:
    """A browser without the token."""
    app = application(directory, nobody, Tokens(TOKEN, METRICS_TOKEN if metrics else ""))
    with TestClient(app, base_url="http://127.0.0.1:8000") as made:
        yield made


@contextmanager
def reader(directory: Path, *keys: Full) -> Iterator[TestClient]:
    """A browser with it, and a store of these keys."""
    store = place.following(None, directory)
    writer = Store(store, DAEMON)
    writer.write(dict(enumerate(keys, 1)))
    writer.close()
    with client(directory) as made:
        made.headers.update(with_token({}))
        yield made
