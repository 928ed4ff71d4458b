"""How a text that a completion runs into is known before it is written out. Pure functions of text.

A line of the buffer is told by its beginning, if that is long enough and no other line near begins
so; else by all of it. What begins like one of several similar lines may be one more of them.
"""

import re
from collections.abc import Iterable
from itertools import islice
from os.path import commonprefix

from completiond.brackets import REACH_AFTER, REACH_BEFORE, balance

WORDS, SHARE = 3, 0.3
"""The least words and share of a line that tell it. Of 958 holes of infill sets none was filled by
a line that begins like the next one so far; of one word and a fifth, four were."""
_WORD = re.compile(r"\w")
_WORDS = re.compile(r"\w+\W?")
_LEAST, _LONGEST = 3, 400
"""Characters of a line that is told at all, and of one that is told by its beginning."""


def mark(line: str, before: str, after: str) -> str:
    """By what a text is known to say `line`, which stands between or behind the two; or nothing."""
    core = line.strip()
    others = _near(before, after) - {core}
    indent = line[: len(line) - len(line.lstrip())]
    told = _beginning(core, others)
    return indent + told if told else ""


def says(text: str, marked: str) -> bool:
    """Whether `text`, which may still grow, says the line of that mark and no longer word."""
    if not marked or not text.startswith(marked):
        return False
    behind = text[len(marked) :]
    return not _WORD.match(marked[-1]) or bool(behind and not _WORD.match(behind))


def goes_on_behind(text: str, line: str) -> bool:
    """Whether `text` says all of `line` and then more, that is no other word and closes nothing
    that the line leaves open."""
    return text.rstrip() != line and says(text, _whole(line))


def _whole(line: str) -> str:
    core = line.strip()
    told = len(core) >= _LEAST and _WORD.search(core) and not balance(core).opens
    return line if told else ""


def _beginning(core: str, others: Iterable[str]) -> str:
    words = [found.end() for found in islice(_WORDS.finditer(core), WORDS)]
    if len(words) < WORDS or len(core) > _LONGEST:
        return _whole(core)
    near = (other for other in others if other.startswith(core[: words[-1]]))
    alike = max((len(commonprefix([core, other])) for other in near), default=0)
    size = max(words[-1], round(SHARE * len(core)), alike + 1)
    while size < len(core) and _WORD.match(core[size - 1]):
        size += 1
    return core[:size] if size < len(core) else _whole(core)


def _near(before: str, after: str) -> set[str]:
    lines = [*before[-REACH_BEFORE:].split("\n")[:-1], *after[:REACH_AFTER].split("\n")]
    return {line.strip() for line in lines}
