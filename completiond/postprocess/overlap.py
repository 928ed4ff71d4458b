"""What a completion says that the buffer says already: on the cursor's line, below it, above it.

Pure functions on text. The rest of the cursor's line stays where it is: a completion is cut where
it begins to repeat it, and nothing is ever replaced.
"""

import re

from completiond.brackets import CLOSERS, PAIRS, balance, blanked, closable, first, strays
from completiond.postprocess.ahead import goes_on_behind
from completiond.postprocess.place import Place

_ENDS = frozenset(PAIRS.values())
_CLOSERS = re.compile(r"[)\]}]+[;,]?")
_NOISE = re.compile(r"\s+|(?<![;,])[;,]+\s*$")
_WORD = re.compile(r"\w")
_LEAST_ECHO = 4
"""Characters of the line before the cursor that are not repeated by chance."""
_LEAST_OVERLAP = 4
"""The same for a part of the text after the cursor; all of it counts at any length."""
_LEAST_SAID = 12
"""Characters of lines that are no coincidence if they stand there but for their white space."""


def without_echo(text: str, at: Place) -> str:
    """Without a second copy of what stands before the cursor (`print(` + `print(print()`)."""
    typed = at.line.lstrip()
    if len(typed.rstrip()) < _LEAST_ECHO or not text.startswith(typed):
        return text
    again = text[len(typed) :]
    return again if again.startswith(typed) or " " in typed.strip() else text


def without_rest(text: str, at: Place) -> str:
    """Cut where the text begins to repeat the rest of the cursor's line."""
    rest = at.rest.rstrip()
    start = rest.lstrip()
    if not start:
        return text
    if start[0] in _ENDS:
        own = _own_closers(at, start)
        closed = (n for i, n in enumerate(strays(text)) if i >= own and text[n] == start[0])
        return text[: next(closed, len(text))]
    if len(mark := first(start)) > 1:
        return text.partition(mark)[0]
    if mark in "\"'`":
        for part in (text.partition("\n")[0], text):
            quotes = [found.start() for found in re.finditer(rf"(?<!\\){start[0]}", part)]
            if len(quotes) % 2:  # the last one closes the string that is closed already
                return text[: quotes[-1]]
    for size in range(min(len(rest), len(text)), 0, -1):
        whole = size == len(rest)
        if (whole or size >= _LEAST_OVERLAP) and text.endswith(rest[:size]):
            kept = text[:-size]
            return kept if _unclosed(kept) <= _unclosed(text) else text
    return text[: -len(start)] if text.endswith(start) else text


def _own_closers(at: Place, rest: str) -> int:
    """How many of the brackets that are open before the text it has to close by itself."""
    owned = closable(at.before, at.after, at.language)
    if owned is not None:
        return len(owned)
    opened = balance(at.line).opens
    there = rest[: len(rest) - len(rest.lstrip(CLOSERS))]
    own = opened.removesuffix(there) if opened.endswith(there) else ""
    return sum(closer in _ENDS for closer in own)


def _unclosed(text: str) -> int:
    depth = 0
    for char in blanked(text):
        depth += (char in PAIRS) - (char in _ENDS and depth > 0)
    return depth


def without_below(text: str, at: Place) -> str:
    """Cut at the first line from which on the text is what the buffer already has below."""
    lines, whole = _whole(text, at)
    for n in range(len(lines)):
        tail = [line for line in whole[n:] if line.strip()]
        exact = n > 0 or not _WORD.search(tail[0] if tail else "")
        if tail and (_repeats(tail, at.below, exact=exact) or _runs_over(tail, at, n)):
            return _lines_before(lines, n)
    return text


def without_similar(text: str, at: Place) -> str:
    """The same for lines that differ by white space and by what ends them only.

    A digit or a name makes another line of it: `case 2` is not `case 3`.
    """
    lines, whole = _whole(text, at)
    below = [_core(line) for line in at.below[: len(lines)]]
    for n in range(len(lines)):
        tail = [core for line in whole[n:] if (core := _core(line))]
        if len(tail) > 1 and len("".join(tail)) >= _LEAST_SAID and tail == below[: len(tail)]:
            return _lines_before(lines, n)
    return text


def without_above(text: str, at: Place) -> str:
    """Nothing, where the text is the block over again that stands right above the cursor."""
    if at.line.strip() and not text.startswith("\n"):
        return text
    above = [*at.above, at.line] if at.line.strip() else at.above
    said = [line.strip() for line in text.split("\n") if line.strip()]
    block = [line.strip() for line in above[-len(said) :]]
    if len(said) < 2 or len("".join(said)) < _LEAST_SAID or said != block:
        return text
    return ""


def _whole(text: str, at: Place) -> tuple[list[str], list[str]]:
    """The text's lines, and the same as they will stand in the buffer."""
    lines = text.split("\n")
    whole = [at.line + lines[0], *lines[1:]]
    if _core(at.rest) == "":
        whole[-1] += at.rest.rstrip()
    return lines, whole


def _runs_over(tail: list[str], at: Place, n: int) -> bool:
    """Whether the buffer goes on with `tail`, but for what its last line says behind the buffer's.

    A line that somebody types, and that is there below already, is another one.
    """
    *whole, last = tail
    following = at.below[: len(tail)]
    if len(following) < len(tail) or (not whole and not n and at.line.strip()):
        return False
    same = [line.rstrip() for line in whole] == [line.rstrip() for line in following[:-1]]
    return same and goes_on_behind(last, following[-1].rstrip())


def _lines_before(lines: list[str], n: int) -> str:
    return "\n".join(lines[:n]).rstrip() if n else ""


def _core(line: str) -> str:
    return _NOISE.sub("", line.replace("'", '"'))


def _repeats(tail: list[str], following: list[str], *, exact: bool) -> bool:
    """Whether the buffer goes on with `tail`; a last line of closers may be a line's beginning."""
    if len(tail) > len(following):
        return False
    pairs = list(zip(tail, following, strict=False))
    same = [ours.rstrip() == theirs.rstrip() for ours, theirs in pairs]
    if not exact:
        same = [ours.strip() == theirs.strip() for ours, theirs in pairs]
    ours, theirs = pairs[-1]
    snips = bool(_CLOSERS.fullmatch(ours.strip())) and theirs.startswith(ours.rstrip())
    return all(same[:-1]) and (same[-1] or snips)
