"""bench.py context: what gathering context costs, on a made workspace of many files.

Times are of the thread that gathers, beside nothing else; no request waits for any of them. As in
an editor each buffer is asked about when it opens, and what it imports is read then; each later
question comes after an edit in any of them, so that what an edit makes stale is read again.
"""

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench_process import anonymous_mib

from completiond_lsp.retrieval.ask import Ask, Open
from completiond_lsp.retrieval.library import Library
from completiond_lsp.retrieval.recent import Past, Place

FOLDERS = 400
VERBS = "load save parse render merge split check build fetch store".split()
NOUNS = "user order item index table record query page token frame".split()


class Took(NamedTuple):
    """Seconds by the clock and of the processor; on a busy machine the second is the same."""

    wall: float
    cpu: float


def add_context(commands: Any) -> None:
    parser = commands.add_parser("context", help="milliseconds and bytes of gathering context")
    parser.add_argument("--files", type=int, default=20_000, help="files of the workspace")
    parser.add_argument("--open", type=int, default=200, help="buffers that are open")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--lines", type=int, default=300, help="of a file")
    parser.set_defaults(run=context, name="context")


def context(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = make_workspace(root, arguments.files, arguments.lines)
        before = anonymous_mib(os.getpid())
        library = Library([root.as_uri()], print)
        scans = [timed(library.refresh) for _ in range(2)]
        found = library.workspace.files
        person = Person(library, root, paths, arguments.open)
        opening = [person.opens(path) for path in list(person.names)]
        editing = [person.edits() for _ in range(arguments.questions)]
        after = anonymous_mib(os.getpid())
    walls, cpus = (sorted(times) for times in zip(*editing, strict=True))
    return {
        "files": found,
        "open": arguments.open,
        "scan_ms": round(scans[0] * 1e3, 1),
        "rescan_ms": round(scans[1] * 1e3, 1),
        **quantiles("opening_", sorted(took.wall for took in opening)),
        **quantiles("", walls),
        **quantiles("cpu_", cpus),
        "pieces": round(statistics.fmean(person.pieces[-arguments.questions :]), 1),
        "memory_mib": round(after - before, 1),
    }


class Person:
    """Has `count` buffers open and asks about one of them at a time; the latest used come first."""

    def __init__(self, library: Library, root: Path, paths: Sequence[str], count: int) -> None:
        self._library, self._root = library, root
        self._chance = random.Random(2)
        self.names = self._chance.sample(paths, count)
        self._texts = {path: (root / path).read_text() for path in self.names}
        self._versions = dict.fromkeys(self.names, 1)
        self._open: list[str] = []
        self.pieces: list[int] = []

    def opens(self, path: str) -> Took:
        return self._asks(path, 0, self._texts[path])

    def edits(self) -> Took:
        """A line is begun anywhere; by the next question it is whole."""
        path = self._chance.choice(self.names)
        lines = self._texts[path].split("\n")
        line = self._chance.randrange(4, len(lines) - 1)
        lines.insert(
            line, f"    value = {self._chance.choice(VERBS)}_{self._chance.choice(NOUNS)}("
        )
        self._versions[path] += 1
        took = self._asks(path, line, "\n".join(lines))
        lines[line] += "limit)"
        self._texts[path] = "\n".join(lines)
        self._versions[path] += 1
        return took

    def _asks(self, path: str, line: int, text: str) -> Took:
        if path in self._open:
            self._open.remove(path)
        others = [self._buffer(other, self._texts[other]) for other in self._open]
        past = Past(
            tuple(Place(name, 5) for name in self._open[:8]),
            tuple(Place(name, 40) for name in self._open[8:16]),
        )
        self._open.insert(0, path)
        asked = Ask(self._buffer(path, text), line, others, past)
        started, spent = time.perf_counter(), time.thread_time()
        found = self._library.answer(asked)
        took = Took(time.perf_counter() - started, time.thread_time() - spent)
        self.pieces.append(len(found))
        return took

    def _buffer(self, path: str, text: str) -> Open:
        return Open((self._root / path).as_uri(), "python", self._versions[path], text)


def quantiles(name: str, ordered: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}median_ms": round(statistics.median(ordered) * 1e3, 2),
        f"{name}p95_ms": round(ordered[len(ordered) * 95 // 100] * 1e3, 2),
        f"{name}max_ms": round(ordered[-1] * 1e3, 2),
    }


def timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def make_workspace(root: Path, count: int, lines: int) -> list[str]:
    """Python files that import one another, in folders, with rules that leave some out."""
    chance = random.Random(1)
    (root / ".gitignore").write_text("build/\n*.log\n!keep.log\n/dist\n**/generated/\n*.min.js\n")
    paths = []
    for number in range(count):
        folder = f"pkg{number % FOLDERS // 20}/mod{number % FOLDERS % 20}"
        paths.append(f"{folder}/part_{number}.py")
        if number < FOLDERS:
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / paths[-1]).write_text(make_file(chance, number, count, lines))
    return paths


def make_file(chance: random.Random, number: int, count: int, lines: int) -> str:
    made = []
    for _ in range(6):
        other = chance.randrange(count)
        folder = f"pkg{other % FOLDERS // 20}.mod{other % FOLDERS % 20}"
        made.append(f"from {folder}.part_{other} import Part{other}")
    made.append(f"\n\nclass Part{number}:")
    while len(made) < lines:
        verb, noun, other = chance.choice(VERBS), chance.choice(NOUNS), chance.choice(NOUNS)
        made += [
            f"    def {verb}_{noun}_{len(made)}(self, {other}: str, limit: int = {number % 90}):",
            f"        found = self.{chance.choice(VERBS)}_{other}({other}, limit)",
            f"        for {noun} in found.{other}s:",
            f"            if {noun}.{chance.choice(VERBS)}ed and limit > {len(made)}:",
            f"                return {chance.choice(VERBS)}_{noun}({noun}, {other})",
            f"        return {noun}_{other}_{chance.randrange(999)}\n",
        ]
    return "\n".join(made) + "\n"
