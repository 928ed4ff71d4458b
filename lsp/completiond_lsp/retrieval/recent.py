"""Where a person has been: edited and visited lines, accepted text, yanks. Knows buffers by path.

Keeps places, not texts: what stands there is read when it is quoted. Only a yank is kept as text.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from completiond.redaction import KEY
from completiond_lsp.retrieval.sources import Kind, Piece, Source, clean

PLACES = 32
"""Places of each kind that are remembered, the newest first."""
SAME = 12
"""Lines; a place nearer than this to another is the same place."""
JUMP = 32
"""Lines; a cursor that moves further has left for another place."""
BEFORE, AFTER = 6, 10
"""Lines of a place that are quoted."""
YANKS = 4
MAX_YANK = 2_000
MIN_YANK = 16
"""Characters; less says nothing."""


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    line: int


class Past(NamedTuple):
    """What is remembered at one moment, the newest first."""

    changed: tuple[Place, ...] = ()
    visited: tuple[Place, ...] = ()
    yanked: tuple[Source, ...] = ()


class Recent:
    def __init__(self) -> None:
        self._changed: list[Place] = []
        self._visited: list[Place] = []
        self._yanked: list[Source] = []

    @property
    def past(self) -> Past:
        return Past(tuple(self._changed), tuple(self._visited), tuple(self._yanked))

    def edited(self, path: str, line: int, grown: int) -> None:
        """Lines were changed at `line`, and `grown` were added; places below move along."""
        if grown:
            self._changed = [_moved(place, path, line, grown) for place in self._changed]
            self._visited = [_moved(place, path, line, grown) for place in self._visited]
        self._changed = _with(self._changed, Place(path, line))

    def visited(self, path: str, line: int) -> bool:
        """The cursor is here; True if it has jumped."""
        last = self._visited[0] if self._visited else None
        here = Place(path, line)
        if last is not None and last.path == path and abs(last.line - line) <= JUMP:
            return False
        self._visited = _with(self._visited, here)
        return True

    def yanked(self, path: str, language: str, text: str) -> None:
        """The person has copied this."""
        text = clean(text[: MAX_YANK + KEY])[:MAX_YANK].strip("\n")  # whole secrets, then the cut
        if len(text.strip()) >= MIN_YANK and "\0" not in text:
            others = [yank for yank in self._yanked if yank.text != text]
            self._yanked = [Source(path, language, text), *others][:YANKS]

    def closed(self, path: str) -> None:
        self._changed = [place for place in self._changed if place.path != path]
        self._visited = [place for place in self._visited if place.path != path]


def _moved(place: Place, path: str, line: int, grown: int) -> Place:
    if place.path != path or place.line <= line:
        return place
    return replace(place, line=max(line, place.line + grown))


def _with(places: list[Place], new: Place) -> list[Place]:
    others = [p for p in places if p.path != new.path or abs(p.line - new.line) > SAME]
    return [new, *others][:PLACES]


def around(place: Place, find: Callable[[str], Source | None], kind: Kind) -> Piece | None:
    """The lines around a place as they are now; None if the text is not there any more."""
    source = find(place.path)
    if source is None:
        return None
    lines = source.lines
    first, last = max(0, place.line - BEFORE), min(len(lines), place.line + AFTER)
    text = "\n".join(lines[first:last])
    if not text.strip():
        return None
    return Piece(kind, source.path, source.language, first, last, text)
