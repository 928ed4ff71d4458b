"""CURVE keys in files of mode 0600: who this machine is, and which clients a daemon lets in.

Knows files and z85 text; knows no sockets. Used by `completiond keys` and by the transport.
`daemon.key` and `client.key` hold a pair each, `authorised` one client key a line, `daemons` the
public keys of daemons elsewhere, one endpoint and key a line.
"""

import os
import re
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import zmq

from completiond.config import config_file
from completiond.errors import ConfigError

DAEMON, CLIENT, AUTHORISED, DAEMONS = "daemon.key", "client.key", "authorised", "daemons"
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Two z85 texts of 40 characters; the secret one stays out of repr and logs."""

    public: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """What a daemon needs: its pair, and the file of clients, which is read at each handshake."""

    pair: KeyPair
    authorised_file: Path

    def allows(self, public: str) -> bool:
        """Whether the client may connect; a file that cannot be read allows nobody."""
        try:
            return public in _read_authorised(self.authorised_file)
        except ConfigError:
            return False


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client needs: its pair, and the daemon's public key."""

    pair: KeyPair
    server: str


def keys_dir() -> Path:
    """Beside the user's config.toml."""
    return config_file().parent / "keys"


def new_keys(directory: Path | None = None, *, replace: bool = False) -> tuple[KeyPair, KeyPair]:
    """Make the daemon's and this user's client pair, and authorise the latter.

    Raises ConfigError if there are keys already, unless `replace`.
    """
    where = directory or keys_dir()
    if (where / DAEMON).exists() and not replace:
        raise ConfigError(
            f"There are keys in {where} already; `completiond keys new --replace` makes new ones, "
            "and every client must then be told the new public key."
        )
    daemon, client = _make_pair(), _make_pair()
    for name, pair in ((DAEMON, daemon), (CLIENT, client)):
        _write(where / name, f"public {pair.public}\nsecret {pair.secret}\n")
    authorise(client.public, "this-machine", where)
    return daemon, client


def authorise(public: str, name: str, directory: Path | None = None) -> None:
    """Let the client with this public key in; a client that has the name already is replaced.

    A running daemon sees it at the next handshake.
    """
    _check_key(public, "The client's public key")
    if not name or name.split() != [name]:
        raise ConfigError(f"The client's name {name!r} must be one word.")
    path = (directory or keys_dir()) / AUTHORISED
    others = {key: who for key, who in authorised(directory).items() if who != name}
    others[public] = name
    _write(path, "".join(f"{key} {who}\n" for key, who in others.items()))


def authorised(directory: Path | None = None) -> dict[str, str]:
    """Public key → name of every client that may connect."""
    path = (directory or keys_dir()) / AUTHORISED
    return _read_authorised(path) if path.exists() else {}


def trust(endpoint: str, public: str, directory: Path | None = None) -> None:
    """Remember the public key of a daemon at `endpoint`, for clients on this machine."""
    _check_key(public, "The daemon's public key")
    path = (directory or keys_dir()) / DAEMONS
    known = _read_daemons(path) | {endpoint: public}
    _write(path, "".join(f"{where} {key}\n" for where, key in known.items()))


def server_keys(directory: Path | None = None) -> ServerKeys:
    """The daemon's keys. Raises ConfigError if there are none or others can read them."""
    where = directory or keys_dir()
    return ServerKeys(_read_pair(where / DAEMON), where / AUTHORISED)


def client_keys(endpoint: str, directory: Path | None = None) -> ClientKeys:
    """This user's keys for the daemon at `endpoint`: one that is trusted, else this machine's."""
    where = directory or keys_dir()
    pair = _read_pair(where / CLIENT)
    known = _read_daemons(where / DAEMONS).get(endpoint)
    return ClientKeys(pair, known or _read_pair(where / DAEMON).public)


def _make_pair() -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode("ascii"), secret.decode("ascii"))


def _check_key(text: str, what: str) -> str:
    if not _KEY.fullmatch(text):
        raise ConfigError(f"{what} must be 40 characters of z85, as `completiond keys show` says.")
    return text


def _read(path: Path) -> list[list[str]]:
    """The words of each line. Raises ConfigError if it is missing or not private."""
    try:
        with path.open(encoding="ascii") as file:
            info = os.fstat(file.fileno())
            lines = [line.split() for line in file if line.strip()]
    except FileNotFoundError as exc:
        raise ConfigError(f"There is no {path}; run `completiond keys new`.") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} cannot be read ({exc}); mend or remove it.") from exc
    if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
        raise ConfigError(f"Others can read or own {path}; run `chmod 600 {path}` as its owner.")
    return lines


def _read_pair(path: Path) -> KeyPair:
    found = {words[0]: words[1] for words in _read(path) if len(words) == 2}
    what = f"In {path}, the key"
    public, secret = (_check_key(found.get(name, ""), what) for name in ("public", "secret"))
    try:
        matches = zmq.curve_public(secret.encode("ascii")).decode("ascii") == public
    except (ValueError, zmq.ZMQError):
        matches = False
    if not matches:
        raise ConfigError(f"The two keys in {path} do not belong together; make new ones.")
    return KeyPair(public, secret)


def _read_authorised(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for words in _read(path):
        found[_check_key(words[0], f"Each line of {path}")] = " ".join(words[1:])
    return found


def _read_daemons(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    return {w[0]: _check_key(w[1], f"In {path}, the key") for w in _read(path) if len(w) == 2}


def _write(path: Path, text: str) -> None:
    """Replace the file in one step; it is never readable by others, not for a moment."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(fd, "w", encoding="ascii") as file:
            file.write(text)
        os.replace(temporary, path)
    except (OSError, UnicodeEncodeError) as exc:
        raise ConfigError(f"{path} cannot be written ({exc}).") from exc
