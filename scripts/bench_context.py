"""bench.py context: what gathering context costs, on a made workspace of many files.

Times are of the thread that gathers, beside nothing else; no request waits for any of them. Each
question is asked after an edit, so that what an edit makes stale is cut and read again.
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
        first, times, pieces = ask_all(library, root, paths, arguments)
        after = anonymous_mib(os.getpid())
    walls, cpus = (sorted(times) for times in zip(*times, strict=True))
    return {
        "files": found,
        "open": arguments.open,
        "scan_ms": round(scans[0] * 1e3, 1),
        "rescan_ms": round(scans[1] * 1e3, 1),
        "first_ms": round(first.wall * 1e3, 1),
        **quantiles("", walls),
        **quantiles("cpu_", cpus),
        "pieces": round(statistics.fmean(pieces), 1),
        "memory_mib": round(after - before, 1),
    }


def ask_all(
    library: Library, root: Path, paths: list[str], arguments: argparse.Namespace
) -> tuple[Took, list[Took], list[int]]:
    """The first question, the others, and how many pieces each found."""
    chance = random.Random(2)
    texts = {path: (root / path).read_text() for path in chance.sample(paths, arguments.open)}
    names, versions = list(texts), dict.fromkeys(texts, 1)
    times, counts = [], []
    for _ in range(arguments.questions + 1):
        path = chance.choice(names)
        lines = texts[path].split("\n")
        line = chance.randrange(4, len(lines) - 1)
        lines.insert(line, f"    value = {chance.choice(VERBS)}_{chance.choice(NOUNS)}(")
        texts[path], versions[path] = "\n".join(lines), versions[path] + 1
        names.remove(path)
        buffers = [Open((root / n).as_uri(), "python", versions[n], texts[n]) for n in names]
        here = Open((root / path).as_uri(), "python", versions[path], texts[path])
        names.insert(0, path)
        past = Past(
            tuple(Place(n, 5) for n in names[1:9]), tuple(Place(n, 40) for n in names[9:17])
        )
        asked = Ask(here, line, buffers, past)
        started, spent = time.perf_counter(), time.thread_time()
        found = library.answer(asked)
        times.append(Took(time.perf_counter() - started, time.thread_time() - spent))
        counts.append(len(found))
    return times[0], times[1:], counts


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
