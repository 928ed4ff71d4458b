"""The files of the workspace: which there are, and the text of one. Knows the file system.

Follows no symbolic link, leaves the ignored out, reads no file over the size cap. `refresh` is for
a thread in the background; the others see what the last one found.
"""

import os
import stat
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from completiond.redaction import is_secret_file
from completiond_lsp.retrieval.ignored import FILE, Chain, ignored, read_rules
from completiond_lsp.retrieval.languages import language_of
from completiond_lsp.retrieval.notebooks import code_of
from completiond_lsp.retrieval.sources import MAX_SOURCE, Source, source

MAX_FILES = 50_000
MAX_DIRECTORIES = 10_000
MAX_DEPTH = 32
MAX_BYTES = 2 * MAX_SOURCE
"""Of a file on disk; UTF-8 may take more bytes than characters."""
MAX_NOTEBOOK = 8 * MAX_BYTES
"""A notebook holds its pictures."""
MAX_HELD = 16_000_000
"""Characters of files that are kept in memory."""
BREATH = 64
"""Directories between two pauses of a scan, in which other threads run."""


class Directory(NamedTuple):
    """What was found in one, as long as neither it nor its .gitignore has changed."""

    stamp: tuple[int, int]
    files: tuple[str, ...]
    inner: tuple[str, ...]
    chain: Chain


class Workspace:
    """`roots` are directories; paths are relative to the one that they are in."""

    def __init__(
        self, roots: Sequence[str] = (), warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self._warn_about: set[str] = set()
        self._tell = warn
        self.roots = [real for root in roots if (real := self._folder(root)) is not None]
        self._known: dict[Path, dict[str, Directory]] = {root: {} for root in self.roots}
        self._stems: dict[str, tuple[str, ...]] = {}
        self._root_of: dict[str, Path] = {}
        self._texts: OrderedDict[str, tuple[tuple[int, int], Source | None]] = OrderedDict()
        self._held = 0
        self.files = 0

    def _folder(self, root: str) -> Path | None:
        real = _real(root)
        if real is None:
            self._warn(
                f"The workspace folder {root!r} is left out, for no folder can have this name. "
                "Check the workspace folders that the editor names."
            )
        return real

    # -- what there is ----------------------------------------------------------------------------

    def refresh(self, pause: float = 0.001) -> int:
        """Look for files anew; directories that have not changed are not read. Returns how many."""
        stems: dict[str, list[str]] = defaultdict(list)
        root_of: dict[str, Path] = {}
        for root in self.roots:
            self._known[root] = self._scan(root, pause, MAX_FILES - len(root_of))
            for path, directory in self._known[root].items():
                prefix = path + "/" if path else ""
                for name in directory.files:
                    if prefix + name not in root_of:
                        root_of[prefix + name] = root
                        stems[name.split(".")[0]].append(prefix + name)
        self._stems = {stem: tuple(paths) for stem, paths in stems.items()}
        self._root_of, self.files = root_of, len(root_of)
        return self.files

    def named(self, stem: str) -> Sequence[str]:
        """Paths of the files that are named so, whatever their ending."""
        return self._stems.get(stem, ())

    def _scan(self, root: Path, pause: float, room: int) -> dict[str, Directory]:
        old, new = self._known[root], dict[str, Directory]()
        waiting: list[tuple[str, Chain, bool]] = [("", (), True)]
        while waiting and len(new) < MAX_DIRECTORIES and room > 0:
            path, chain, same = waiting.pop()
            known = old.get(path) if same else None
            found = self._directory(root, path, chain, known)
            if found is None:
                continue
            same = known is not None and found.chain is known.chain
            new[path] = found._replace(files=found.files[:room])
            room -= len(found.files)
            if path.count("/") < MAX_DEPTH:
                inner = (f"{path}/{name}" if path else name for name in found.inner)
                waiting += [(below, found.chain, same) for below in inner]
            if len(new) % BREATH == 0:
                time.sleep(pause)
        return new

    def _directory(
        self, root: Path, path: str, chain: Chain, known: Directory | None
    ) -> Directory | None:
        try:
            stamp = _stamp(root / path)
            if known is not None and known.stamp == stamp:
                return known
            if known is not None and known.stamp[1] == stamp[1]:
                chain = known.chain  # the same rules as before: what is below need not be read
            elif rules := read_rules(root, path, self._warn):
                chain = (*chain, rules)
            files, inner = _entries(root, path, chain)
        except OSError:
            return None  # gone, or not ours to read
        return Directory(stamp, files, inner, chain)

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warn_about:
            self._warn_about.add(sentence)
            self._tell(sentence)

    # -- one file ---------------------------------------------------------------------------------

    def inside(self, path: str) -> str | None:
        """An absolute path as one of this workspace; None if it is, in truth, somewhere else."""
        real = _real(path)
        if real is None:
            return None
        inside = [real.relative_to(root) for root in self.roots if real.is_relative_to(root)]
        return min(inside, key=lambda p: len(p.parts)).as_posix() if inside else None

    def ignores(self, path: str) -> bool:
        """Whether the rules on the way to an absolute path leave it out."""
        real = _real(path)
        for root in self.roots:
            if real is not None and real.is_relative_to(root):
                return self._ignores(root, real.relative_to(root).as_posix())
        return False

    def _ignores(self, root: Path, path: str) -> bool:
        chain: Chain = ()
        steps = path.split("/")
        for depth in range(len(steps)):
            rules = read_rules(root, "/".join(steps[:depth]), self._warn)
            chain = (*chain, rules) if rules else chain
            inner = depth < len(steps) - 1
            if ignored(chain, "/".join(steps[: depth + 1]), is_directory=inner):
                return True
        return False

    def source(self, path: str) -> Source | None:
        """The text of a file that `named` has told; None if it may not be quoted, or is gone."""
        root = self._root_of.get(path)
        if root is None:
            return None
        try:
            status = os.stat(root / path, follow_symlinks=False)
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        held = self._texts.pop(path, None)
        if held is None or held[0] != stamp:
            self._held -= _length(held)
            held = stamp, _read(root, path, status.st_size)
            self._held += _length(held)
        self._texts[path] = held
        while self._held > MAX_HELD and len(self._texts) > 1:
            self._held -= _length(self._texts.popitem(last=False)[1])
        return held[1]


def _real(path: str) -> Path | None:
    """Where a path leads; None if no file can be named so."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # a NUL in it, or what the file system's encoding cannot say
        return None


def _length(held: tuple[tuple[int, int], Source | None] | None) -> int:
    return len(held[1].text) if held is not None and held[1] is not None else 0


def _stamp(path: Path) -> tuple[int, int]:
    """When the directory and its .gitignore were changed."""
    try:
        rules = os.stat(path / FILE, follow_symlinks=False).st_mtime_ns
    except OSError:
        rules = 0
    return os.stat(path, follow_symlinks=False).st_mtime_ns, rules


def _entries(root: Path, path: str, chain: Chain) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the files that can be read and of the directories to look into."""
    files, inner = [], []
    with os.scandir(root / path) as entries:
        for entry in entries:
            below = f"{path}/{entry.name}" if path else entry.name
            if entry.is_symlink() or _SURROGATES.intersection(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if not ignored(chain, below, is_directory=True):
                    inner.append(entry.name)
            elif language_of(entry.name) and not is_secret_file(below):
                if entry.is_file(follow_symlinks=False) and not ignored(chain, below):
                    files.append(entry.name)
    return tuple(sorted(files)), tuple(sorted(inner, reverse=True))


_SURROGATES = frozenset(map(chr, range(0xDC80, 0xDD00)))
"""In a name that is no UTF-8."""


def _read(root: Path, path: str, size: int) -> Source | None:
    notebook = path.endswith(".ipynb")
    if size > (MAX_NOTEBOOK if notebook else MAX_BYTES):
        return None
    real = os.path.realpath(root / path)  # a directory may have become a link since the scan
    if not Path(real).is_relative_to(root):
        return None
    try:
        text = _bytes(real, size).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    code = code_of(text) if notebook else text
    return source(path, language_of(path), code) if code is not None else None


def _bytes(path: str, size: int) -> bytes:
    """What a file of that size holds; a pipe or a device in its place is not waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return b""
        data = file.read(size + 1)
    return data if len(data) <= size else b""  # one that grows may be cut inside a secret
