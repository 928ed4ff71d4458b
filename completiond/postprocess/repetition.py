"""Loops: what a completion says again and again is shown once. Pure functions on text."""

import re

from completiond.postprocess.place import Place

_EQUAL = 3
"""So many equal lines, or groups of lines, in a row are a loop."""
_LONGEST_GROUP = 6
_PARTS = 6
_PERIODS = range(3, 41)
_LEAST = 40
"""Characters of a line that end with the same part so many times, if the part has a letter."""
_MAPPINGS = {"yaml", "toml", "ini", "properties", "dotenv", "dockercompose"}
_KEY = re.compile(r"\s*[\w.\"'-]+\s*[:=]")


def without_loop(text: str, at: Place) -> str:
    """Cut behind the first of equal lines or groups of lines, or of equal parts of the last line.

    In a mapping two equal keys are one too many.
    """
    lines = text.split("\n")
    keyed = at.language in _MAPPINGS
    for end in range(2, len(lines) + 1):
        for size in range(1, min(_LONGEST_GROUP, end // 2) + 1):
            count = 2 if keyed and _is_key(lines[end - size : end]) else _EQUAL
            if size * count <= end and _loops(lines[end - size * count : end], size):
                return "\n".join(lines[: end - size * (count - 1)]).rstrip()
    *whole, last = lines
    return "\n".join([*whole, _without_parts(last)])


def _is_key(group: list[str]) -> bool:
    return len(group) == 1 and bool(_KEY.match(group[0]))


def _loops(lines: list[str], size: int) -> bool:
    """Whether groups of `size` lines repeat; lines of closers alone may."""
    said = any(re.search(r"\w", line) for line in lines[:size])
    return said and lines[size:] == lines[:-size]


def _without_parts(line: str) -> str:
    """A line that ends in equal parts has the first of them only."""
    for period in _PERIODS if len(line) >= _LEAST else ():
        start = len(line) - max(_LEAST, _PARTS * period)
        if start < 0 or line[start + period :] != line[start:-period]:
            continue
        while start and line[start - 1] == line[start - 1 + period]:
            start -= 1
        part = line[start : start + period]
        if any(map(str.isalpha, part)):
            return line[:start] + part
    return line
