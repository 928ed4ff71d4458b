"""The nouns of retrieval: a text that may be quoted, a piece of it, a place that asks.

Knows which texts are never quoted, by their size, their characters and their names; reads nothing.
Texts have LF as their only line end and no secrets. Lines count from 0.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from completiond.redaction import is_secret_file, redact

MAX_SOURCE = 262_144
"""Characters of a text that is looked at; a larger one is data or was generated."""
MAX_LINE = 400
"""Characters; a text with a much longer average line is minified."""

LEAST_LINES = 4
"""What is left of a piece that another one has a part of must be this long."""

Kind = Literal["definition", "changed", "yanked", "similar", "visited"]

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Source:
    """A file or buffer. `path` is relative to the workspace: it becomes a part of the prompt."""

    path: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        return _lines(self.text)


@lru_cache(maxsize=32)
def _lines(text: str) -> list[str]:
    """Kept for the latest texts only: a list of lines is larger than its text."""
    return text.split("\n")


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines [first, last) of a source, or what is left of them; `kind` says why."""

    kind: Kind
    path: str
    language: str
    first: int
    last: int
    text: str

    def overlaps(self, other: "Piece") -> bool:
        same = self.path == other.path
        return same and self.first < other.last and other.first < self.last

    def without(self, other: "Piece") -> "Piece | None":
        """The longer part of the lines that `other` does not have; None if little is left.

        Only for a piece that holds all its lines as they are.
        """
        above, below = other.first - self.first, self.last - other.last
        lines = self.text.split("\n")
        if max(above, below) < LEAST_LINES or len(lines) != self.last - self.first:
            return None
        if above >= below:
            return replace(self, last=other.first, text="\n".join(lines[:above]))
        return replace(self, first=other.last, text="\n".join(lines[-below:]))


@dataclass(frozen=True, slots=True)
class Question:
    """A cursor in a text: what is it that other texts may help with?"""

    path: str
    language: str
    text: str
    line: int

    @property
    def source(self) -> Source:
        """The text that the cursor is in."""
        return Source(self.path, self.language, self.text)


def source(path: str, language: str, text: str) -> Source | None:
    """The text as it may be quoted; None if nothing of it may be."""
    if not text.strip() or len(text) > MAX_SOURCE or "\0" in text or is_secret_file(path):
        return None
    if len(text) > MAX_LINE * (text.count("\n") + text.count("\r") + 1):
        return None
    return Source(path, language, clean(text))


def clean(text: str) -> str:
    """LF as the only line end, no byte order mark, no lone surrogates, no secrets."""
    plain = text.removeprefix("\ufeff")
    if "\r" in plain:
        plain = plain.replace("\r\n", "\n").replace("\r", "\n")
    return redact(_SURROGATE.sub("\ufffd", plain))
