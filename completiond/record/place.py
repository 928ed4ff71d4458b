"""Where the record lies: files of mode 0600 in the user's state directory. Knows no SQL.

Each is `record-N.db`, and the one of the highest N is in use. What cannot be used any more is left
where it is and the next one begun: a database that another process may have open must not be moved.
"""

import os
import re
import stat
from itertools import count
from pathlib import Path

from completiond.config import state_dir

_NAME = re.compile(r"record-(\d+)\.db")
KEPT = 2
"""Stores that are left: the one in use, and the one that was set aside last."""
BESIDE = ("", "-wal", "-shm")


def directory() -> Path:
    return state_dir()


def stores(place: Path) -> list[Path]:
    """All of them, the one in use last."""
    if not place.is_dir():
        return []
    matches = ((_match(path), path) for path in place.iterdir())
    found = [(int(match[1]), path) for match, path in matches if match and is_file(path)]
    return [path for _, path in sorted(found)]


def is_file(path: Path) -> bool:
    """Whether it can be a store: of a pipe one would wait, and a link may lead anywhere."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def newest(place: Path) -> Path | None:
    """The store in use, if there is one."""
    return next(reversed(stores(place)), None)


def following(store: Path | None, place: Path) -> Path:
    """The one that comes behind that one, past names that something else has."""
    match = _match(store) if store is not None else None
    numbers = count(int(match[1]) + 1 if match else 1)
    paths = (place / f"record-{number}.db" for number in numbers)
    return next(path for path in paths if not os.path.lexists(path))


def create(store: Path) -> None:
    """The file, readable by its user only; SQLite gives the ones beside it the same mode."""
    store.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(store, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600))
    if store.stat().st_mode & 0o077:
        store.chmod(0o600)


def forget_old(place: Path) -> None:
    """Remove stores that were set aside before the last one."""
    for store in stores(place)[:-KEPT]:
        for suffix in BESIDE:
            store.with_name(store.name + suffix).unlink(missing_ok=True)


def bytes_of(store: Path) -> int:
    """What it takes of the disk, with the files beside it."""
    files = (store.with_name(store.name + suffix) for suffix in BESIDE)
    return sum(file.stat().st_size for file in files if file.exists())


def _match(path: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(path.name)
