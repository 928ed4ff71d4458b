"""A daemon's web server as its clients see it: one that behaves, and one that writes bytes."""

import http.client
import json
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

KEY = "a-key-of-sixteen-letters-or-more"
PATH = "/v1/completions"
PATIENCE_S = 60.0


class Reply(NamedTuple):
    status: int
    kind: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = self.json["error"]
        return found

    @property
    def events(self) -> list[Any]:
        """What a stream said, without its end."""
        *parts, last, nothing = self.body.decode().split("\n\n")
        assert (last, nothing) == ("data: [DONE]", "")
        return [json.loads(part.removeprefix("data: ")) for part in parts]


@dataclass(frozen=True)
class Web:
    """Where it is served, and the daemon's endpoint."""

    port: int
    endpoint: str

    def post(self, body: Any, headers: dict[str, str] | None = None, path: str = PATH) -> Reply:
        """As a client does; a header that is "" is left out."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, data, headers)

    def send(self, method: str, path: str, data: bytes, headers: dict[str, str] | None) -> Reply:
        own = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        sent = {name: value for name, value in (own | (headers or {})).items() if value}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with closing(link):
            link.request(method, path, data, sent)
            got = link.getresponse()
            return Reply(got.status, got.getheader("content-type", ""), got.read())

    def begin(self, body: dict[str, Any]) -> socket.socket:
        """Send it and leave the answer to the caller."""
        data = json.dumps(body).encode()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        link = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        link.sendall(head.encode() + data)
        return link


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def text(events: list[Any]) -> str:
    return "".join(event["choices"][0]["text"] for event in events)
