"""What the web servers of this machine share: their socket, and who may ask there.

Pages of the internet run in browsers of this machine: they can reach a loopback port, but cannot
forge `Host` and `Origin`. Other users of the machine can: what they must not see needs a token.
"""

import hmac
import socket
from collections.abc import Iterable

from completiond.errors import RequestError

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost", "[::1]")

Headers = Iterable[tuple[bytes, bytes]]


def listener(port: int) -> socket.socket:
    """A loopback socket; 0 is any free port. Raises RequestError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((ADDRESS, port))
    except OSError as exc:
        made.close()
        raise RequestError(
            f"Port {port} cannot be used ({exc.strerror}); name another one, or none."
        ) from exc
    made.listen()
    return made


def refusal(headers: Headers) -> str:
    """Why a request is not answered, by where it comes from; empty if it comes from here."""
    headers = list(headers)
    hosts = values(headers, b"host")
    if len(hosts) != 1 or _name(hosts[0]) not in NAMES:
        return "This is served to this machine only, by its own name."
    if any(origin != f"http://{hosts[0]}" for origin in values(headers, b"origin")):
        return "Another page may not ask here."
    return ""


def bears(headers: Headers, token: str) -> bool:
    """Whether they carry this token; an empty one nobody has."""
    given = values(headers, b"authorization")
    scheme, _, found = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    same = hmac.compare_digest(found.encode(), token.encode())
    return scheme.lower() == "bearer" and same and bool(token)


def values(headers: Headers, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


def _name(host: str) -> str:
    """Of a Host header, without the port."""
    name, _, port = host.rpartition(":")
    return name if port.isdigit() and port.isascii() else host
