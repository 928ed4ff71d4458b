"""From what a model wrote to what may be drawn at the cursor: pure functions on text.

Knows the buffer around the cursor; knows no model. The rest of the cursor's line stays where it is:
the completion is cut where it begins to repeat it, and nothing is ever replaced.
"""

import re

from completiond.brackets import PAIRS, balance, blanked, first, strays
from completiond.core import Snapshot

_SENTINEL = re.compile(
    r"<\|(?:endoftext|fim_[a-z]+|file_sep(?:arator)?|repo_name|im_start|im_end|EOT)\|>"
    r"|<｜[^<>｜]+｜>|</?fim[_-][a-z]+>|<(?:file_sep|repo_name|gh_stars)>|(?<!<)<EOT>|\[PAD\d+\]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]"
)
"""Control tokens' names (not `<filename>`, which every usage message has), control characters but
tab and line feed, and what stands for bytes that are no text: nobody wants them typed."""
_ENDS = frozenset(PAIRS.values())
_CLOSERS = re.compile(r"[)\]}]+[;,]?")
_LEAST_ECHO = 4
"""Characters of the line before the cursor that are not repeated by chance."""
_LEAST_OVERLAP = 4
"""The same for a part of the text after the cursor; all of it counts at any length."""


def clean(text: str, snapshot: Snapshot) -> tuple[str, str]:
    """What to insert at the cursor of a snapshot, and a reason if that is nothing."""
    return fit(text, snapshot.before, snapshot.after)


def fit(text: str, before: str, after: str) -> tuple[str, str]:
    """What to insert between two texts, and a reason if that is nothing.

    Reasons: `blank`, `sentinel`, `repeats_suffix`, `repeats_next_lines`.
    """
    if not text.strip():
        return "", "blank"
    line = before.replace("\r", "\n").rpartition("\n")[2]
    rest, *below = after.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    following = [other for other in below if other.strip()]
    shown = _before_sentinel(text.replace("\r\n", "\n").replace("\r", "\n"))
    if not shown.strip():
        return "", "sentinel"
    shown = _without_rest(_without_echo(shown, line), line, rest.rstrip())
    if not shown.strip():
        return "", "repeats_suffix"
    shown = _without_following(shown, line, following)
    if not shown.strip():
        return "", "repeats_next_lines"
    return (shown if rest.strip() else shown.rstrip()), ""


def _before_sentinel(text: str) -> str:
    """A control token's name or a control character ends the completion and is never shown."""
    found = _SENTINEL.search(text)
    return text[: found.start()].rstrip(" ") if found else text


def _without_echo(text: str, line: str) -> str:
    """Without a second copy of what stands before the cursor (`print(` + `print(print()`)."""
    typed = line.lstrip()
    if len(typed.rstrip()) < _LEAST_ECHO or not text.startswith(typed):
        return text
    again = text[len(typed) :]
    return again if again.startswith(typed) or " " in typed.strip() else text


def _without_rest(text: str, line: str, rest: str) -> str:
    """Cut where the text begins to repeat the rest of the cursor's line."""
    start = rest.lstrip()
    if not start:
        return text
    if start[0] in _ENDS:
        own = _own_closers(line, start)
        closed = (at for n, at in enumerate(strays(text)) if n >= own and text[at] == start[0])
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


def _own_closers(line: str, rest: str) -> int:
    """How many of the brackets that `line` leaves open the text has to close by itself."""
    opened = "".join(closer for closer in balance(line).opens if closer in _ENDS)
    there = rest[: len(rest) - len(rest.lstrip(")]}"))]
    return len(opened) - len(there) if opened.endswith(there) else 0


def _unclosed(text: str) -> int:
    depth = 0
    for char in blanked(text):
        depth += (char in PAIRS) - (char in _ENDS and depth > 0)
    return depth


def _without_following(text: str, line: str, following: list[str]) -> str:
    """Cut at the first line from which on the text is what the buffer already has below."""
    text = _without_last_closer(text, following[0] if following else "")
    lines = text.split("\n")
    whole = [line + lines[0], *lines[1:]]
    for at in range(len(lines)):
        tail = [other for other in whole[at:] if other.strip()]
        if tail and _repeats(tail, following, exact=at > 0):
            return "\n".join(lines[:at]).rstrip() if at else ""
    return text


def _without_last_closer(text: str, below: str) -> str:
    """Cut where a line of the text closes the block that the line below closes, as deep in."""
    for at in strays(text):
        start = text.rfind("\n", 0, at) + 1
        indent = text[start:at]
        if start and not indent.strip() and below.startswith(text[start : at + 1]):
            return text[:start].rstrip()
    return text


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
