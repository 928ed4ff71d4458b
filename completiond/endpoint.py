"""Where a daemon can be reached. Knows endpoint text, the runtime directory and the lock file.

Knows no sockets of ZeroMQ and no keys. An ipc path can be bound twice (the second bind steals it),
so the lock file, not the bind, decides who holds an endpoint. POSIX only.
"""

import fcntl
import os
import socket
import stat
import time
import warnings
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType

import platformdirs

from completiond.config import APP
from completiond.errors import ConfigError, EndpointInUse, TransportError

MAX_PATH = 107
"""Bytes of a unix socket's path (sun_path is 108 with its terminator)."""
SOCKET_NAME = "daemon.sock"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed endpoint: `path` for ipc, `host` and `port` for tcp."""

    text: str
    path: Path | None = None
    host: str = ""
    port: int = 0

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name other than localhost is not trusted."""
        if self.path is not None or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def lock_file(self) -> Path | None:
        """The file whose lock holds the endpoint; None for a port that the system chooses."""
        if self.path is not None:
            return self.path.with_name(self.path.name + ".lock")
        if self.port == 0:
            return None
        host = self.host.replace(":", "_").replace("*", "any")
        return runtime_dir() / f"tcp-{host}-{self.port}.lock"


def parse(text: str) -> Endpoint:
    """`ipc:///ABSOLUTE/PATH` or `tcp://HOST:PORT`. Raises ConfigError that says what is wrong."""
    scheme, _, rest = text.partition("://")
    if scheme == "ipc" and rest.startswith("/") and "\0" not in rest:
        size = len(os.fsencode(rest))
        if size > MAX_PATH:
            raise ConfigError(
                f"The socket path {rest} has {size} bytes, but the system allows {MAX_PATH}; "
                "choose a shorter one, or set COMPLETIOND_RUNTIME_DIR to a shorter directory."
            )
        return Endpoint(text, path=Path(rest))
    host, _, port = rest.rpartition(":")
    if scheme == "tcp" and host and port.isascii() and port.isdigit() and int(port) < 65536:
        return Endpoint(text, host=host.strip("[]"), port=int(port))
    raise ConfigError(
        f"The endpoint {text!r} is not understood; write ipc:///ABSOLUTE/PATH or tcp://HOST:PORT."
    )


def runtime_dir() -> Path:
    """The user's private directory for sockets, made if it is missing.

    `COMPLETIOND_RUNTIME_DIR`, or the platform's. Raises TransportError if others can enter it.
    """
    given = os.environ.get("COMPLETIOND_RUNTIME_DIR")
    if given:
        path = Path(given).absolute()
    else:
        with warnings.catch_warnings():
            # Without XDG_RUNTIME_DIR there is a fall-back in /tmp; we check its owner ourselves.
            warnings.simplefilter("ignore")
            path = Path(platformdirs.user_runtime_dir(APP))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise TransportError(
            f"The runtime directory {path} cannot be made ({exc.strerror}); "
            "set COMPLETIOND_RUNTIME_DIR to a directory of yours."
        ) from exc
    check_private(path)
    return path


def default_endpoint() -> str:
    """The ipc endpoint in the runtime directory, which only its user can enter."""
    return parse(f"ipc://{runtime_dir() / SOCKET_NAME}").text


def check_private(path: Path) -> None:
    """Raise TransportError unless only this user can enter or replace the directory."""
    try:
        here, above = path.lstat(), path.parent.stat()
    except OSError as exc:
        raise TransportError(f"The directory {path} is not there; make it with mode 700.") from exc
    if not stat.S_ISDIR(here.st_mode):
        raise TransportError(f"{path} is not a directory (nor may it be a link); choose another.")
    if here.st_uid != os.geteuid():
        raise TransportError(f"The directory {path} belongs to another user; choose one of yours.")
    if stat.S_IMODE(here.st_mode) & 0o077:
        raise TransportError(f"Others can enter {path}; run `chmod 700 {path}` or choose another.")
    open_to_all = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    if open_to_all or above.st_uid not in (0, os.geteuid()):
        raise TransportError(f"Others can replace {path}, because {path.parent} is open to them.")


def refuse_open_tcp(at: Endpoint, insecure_loopback: bool) -> None:
    """Raise ConfigError for tcp without keys, unless it is loopback and that was asked for."""
    if not at.is_loopback:
        raise ConfigError(
            f"{at.text} can be reached by others; run `completiond keys new` first "
            "(tcp is served with CURVE keys only)."
        )
    if not insecure_loopback:
        raise ConfigError(
            f"{at.text} can be reached by every user of this machine; run `completiond keys new` "
            "first, or pass --insecure-loopback."
        )


class EndpointLock:
    """Holds an endpoint for as long as the process lives or until released.

    The file stays behind: removing it would let two daemons hold locks on two different files.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._fd = -1

    def __enter__(self) -> "EndpointLock":
        path = self._endpoint.lock_file
        if path is None:
            return self
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._close()
            raise _in_use(self._endpoint, holder(self._endpoint)) from None
        except OSError as exc:
            self._close()
            raise TransportError(f"The lock file {path} cannot be used ({exc.strerror}).") from exc
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n{started}\n".encode(), 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
        self._close()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(endpoint: Endpoint) -> str:
    """Who wrote the lock file, as words for a person; empty if nobody did."""
    path = endpoint.lock_file
    try:
        lines = path.read_text(encoding="utf-8").split("\n") if path is not None else []
    except (OSError, UnicodeDecodeError):
        return ""
    return f"process {lines[0]}, since {lines[1]}" if len(lines) > 1 and lines[0] else ""


def in_use_by_another_program(endpoint: Endpoint) -> EndpointInUse:
    """For a bind that failed, or a live socket, although the lock is ours."""
    return EndpointInUse(
        f"Another program (not a completiond of yours) already listens at {endpoint.text}; "
        "end it, or choose another --endpoint."
    )


def _in_use(endpoint: Endpoint, who: str) -> EndpointInUse:
    return EndpointInUse(
        f"A completiond already serves {endpoint.text} ({who or 'it has just started'}); "
        "use that one, end it, or choose another --endpoint."
    )


def remove_stale_socket(path: Path) -> bool:
    """Remove the socket file of a daemon that is gone; the caller holds the lock.

    Raises EndpointInUse if something answers there, TransportError if it is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(mode):
        raise TransportError(f"{path} is in the way and is not a socket; move it elsewhere.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return True
        except BlockingIOError:
            pass  # its backlog is full: somebody listens
    raise in_use_by_another_program(Endpoint(f"ipc://{path}", path=path))
