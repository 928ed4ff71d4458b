"""Places in a person's own code at which a completion could be asked for, as they type.

Knows files and text; knows no tokens and no model. The same files and the same number give the
same spots, so that two runs can be compared.
"""

import glob
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from completiond import files
from completiond.errors import RequestError

SMALLEST, LARGEST = 300, 1 << 20
"""Bytes of a file in a folder that is still looked at."""
LONGEST_LINE = 1000
"""A file with a longer line was not written by hand."""
MOST_FILES = 5000
"""Files of a folder or a pattern that are looked at; they are sorted, so that it is always the same
ones."""
LINES_BEFORE = 6
"""Lines that must stand before a cursor: without any context there is nothing to complete."""
HOLE = 3
"""Most lines, behind the cursor's own, that are taken out for the model to write."""
TYPED = 4
"""Characters that are typed between two requests."""
SKIPPED = frozenset("node_modules target build dist vendor venv __pycache__ site-packages".split())
DATA = frozenset("json yaml toml xml markdown html".split())
"""Languages that nobody writes with completions; in a folder they are passed over."""
OWN_TEXT = Path(__file__).parent.parent
"""Without any files: the source of this package."""


@dataclass(frozen=True, slots=True)
class Spot:
    """`before` the cursor at one request, `typed` until the next one, and the text `after` it."""

    path: str
    language: str
    before: str
    typed: str
    after: str


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text."""

    path: Path
    text: str


def spots_in(paths: Sequence[Path], count: int, seed: int = 0) -> list[Spot]:
    """`count` spots in the files and folders `paths`, in turns over the files.

    Raises RequestError if a path cannot be read or nothing in it is long enough.
    """
    if count < 1:
        raise RequestError(f"At least one spot must be measured, not {count}; give -n 1 or more.")
    sources = list(sources_in(paths or [OWN_TEXT]))
    chance = random.Random(seed)
    chance.shuffle(sources)
    turns = [places for source in sources if (places := _places(source, chance))]
    if not turns:
        raise RequestError(
            f"{_named(paths)} no text that is long enough ({LINES_BEFORE + 2} lines of code); "
            "name files or a folder of source code."
        )
    longest = max(map(len, turns))
    found = [places[n] for n in range(longest) for places in turns if n < len(places)]
    return found[:count]


def sources_in(paths: Sequence[Path]) -> Iterator[Source]:
    """Each once. Named files must be readable text; in folders, and of what a pattern matches, what
    is not is passed over."""
    once = {source.path.absolute(): source for path in paths for source in _of(path)}
    yield from once.values()


def _of(path: Path) -> Iterator[Source]:
    if path.is_dir():
        yield from _code_of(_walk(path), f"in {path}")
    elif set("*?[") & set(str(path)) and not path.exists():
        yield from _code_of(_matched(path), f"that {path} matches")
    else:
        yield Source(path, files.text_of(path))


def _matched(pattern: Path) -> Iterator[Path]:
    """Files, and those of the folders; one that is passed over elsewhere must be named."""
    skipped = SKIPPED - {*pattern.parts}
    for path in map(Path, sorted(glob.glob(str(pattern), recursive=True))):
        if not skipped & {*path.parts}:
            yield from _walk(path) if path.is_dir() else (path,)


def _code_of(paths: Iterable[Path], where: str) -> Iterator[Source]:
    looked, found = 0, False
    for path in paths:
        looked += 1
        if looked > MOST_FILES:
            break
        language = files.language_of(path)
        if not language or language in DATA or not _plain_size(path):
            continue
        try:
            text = files.text_of(path)
        except RequestError:
            continue
        if max(map(len, text.split("\n"))) <= LONGEST_LINE:
            found = True
            yield Source(path, text)
    if not found:
        raise RequestError(f"There is no source code {where}; name another folder or files.")


def _walk(folder: Path) -> Iterator[Path]:
    """Links are not followed, so that a loop of them ends."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in SKIPPED and not f.startswith("."))
        for name in sorted(names):
            yield Path(root, name)


def _plain_size(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and SMALLEST <= path.stat().st_size <= LARGEST


def _places(source: Source, chance: random.Random) -> list[Spot]:
    """Spots of one file in a random order, none in a line that is blank or short."""
    lines = source.text.split("\n")
    rows = [
        n
        for n in range(LINES_BEFORE, len(lines))
        if len(lines[n].strip()) > 2 * TYPED and len(lines[n]) <= LONGEST_LINE
    ]
    chance.shuffle(rows)
    return [_spot(source, lines, row, chance) for row in rows]


def _spot(source: Source, lines: list[str], row: int, chance: random.Random) -> Spot:
    """A hole from inside line `row` to the end of a line below it."""
    line = lines[row]
    start = len(line) - len(line.lstrip())
    cursor = chance.randint(start, len(line) - TYPED)
    below = row + 1 + chance.randint(0, HOLE)
    head = "".join(f"{text}\n" for text in lines[:row])
    rest = "\n".join(lines[below:])
    return Spot(
        path=source.path.name,
        language=files.language_of(source.path),
        before=head + line[:cursor],
        typed=line[cursor : cursor + TYPED],
        after=f"\n{rest}" if below < len(lines) else "",
    )


def _named(paths: Sequence[Path]) -> str:
    return f"{', '.join(map(str, paths))} has" if len(paths) == 1 else "These files have"
