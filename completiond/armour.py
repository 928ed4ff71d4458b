"""The text of private keys. Knows their first and last lines and what may stand between; masks
nothing itself.

One of the two lines may be out of sight, and both may be mere words of a program that reads keys:
so a line in between is a key's only if it looks like one. Every look takes time in proportion to
the text: no pattern here can begin a stretch anew that it has read.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

Span = tuple[int, int]

SIGN = "PRIVATE KEY"
"""In the first and the last line of nearly every key."""
_SIGNS = (SIGN, "Private-")
_MARK = re.compile(
    r"-----? ?(?:(BEGIN)|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-----?"
    r"|(Private-Lines): ?[0-9]{1,4}|Private-(?:MAC|Hash): ?"
)
_BREAK = re.compile(r"\r\n?|\n|\\{1,4}[nr]|<br ?/?>")
"""What ends a line, in whatever a key is quoted."""
_RUN = re.compile(r"[A-Za-z0-9+/=_-]+")
_WORDLIKE = re.compile(r"[A-Za-z0-9]")
_HEADER = re.compile(
    r"(?:Version|Comment|Hash|Charset|MessageID|Proc-Type|DEK-Info|Key-Info|Content-Domain"
    r"|Key-Derivation|Argon2-\w{1,20}|X-[\w-]{1,20}): ?\S"
)
_CODE = re.compile(r"[(){}\[\]:=]")
_JOINED = re.compile(r"(?:[\"'`]\s{0,8}|^\s*)[+.,&|]{1,2} ?$")
"""In front of a name that a program puts between two strings."""
_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_FIRST = re.compile(r"MI[IGC]|MHcC|MC4C|b3BlbnNz")
"""How the text of a key begins, in every common form of one."""

WORD = 3.0
"""Letters of a word of a name, on average; what is random changes its kind more often."""
LEAST, SHORT, LONG, LONGER = 8, 16, 32, 40
"""Characters of a key that begins as keys do, of one by itself that mixes letters and digits, of
one among other words, and of one that is known by its length."""


class _Line(NamedTuple):
    """What of a line is masked if it is a key's, and how sure that is."""

    spans: list[Span]
    is_key: bool = False
    is_other: bool = False
    is_word: bool = False


def key_blocks(text: str) -> Iterator[Span]:
    """What stands between the two lines of a private key; one of them may be out of sight."""
    if not any(sign in text for sign in _SIGNS):
        return
    begun, at = False, 0
    for mark in _MARK.finditer(text):
        begins = bool(mark[1] or mark[2])
        yield from _between(text, (at, mark.start()), begun=begun, ends=not begins)
        begun, at = begins, mark.end()
    yield from _between(text, (at, len(text)), begun=begun, ends=False)


def _between(text: str, part: Span, *, begun: bool, ends: bool) -> Iterator[Span]:
    """The key's lines of a part between two marks, of which each may be the wrong one."""
    if begun:
        yield from _body(text, _pieces(text, part), closed=ends)
    if ends:
        yield from _body(text, reversed(list(_pieces(text, part))), closed=False)


def _pieces(text: str, part: Span) -> Iterator[Span]:
    at, end = part
    for found in _BREAK.finditer(text, at, end):
        yield at, found.start()
        at = found.end()
    yield at, end


def _body(text: str, pieces: Iterable[Span], *, closed: bool) -> list[Span]:
    """What a key says in these lines, the one at its mark first, up to one that is no key's.

    Lines too short to tell are a key's if a line that can be told is, or if there is nothing else
    between both marks (`closed`).
    """
    spans: list[Span] = []
    is_key = False
    for number, piece in enumerate(pieces):
        line = _line(text, piece)
        if line.is_other and number:
            return spans if is_key else []
        closed = closed and not (line.is_other or line.is_word)
        is_key = is_key or line.is_key
        spans += line.spans
    return spans if is_key or closed else []


def _line(text: str, piece: Span) -> _Line:
    start, end = piece
    if not _WORDLIKE.search(text, start, end):
        return _Line([])
    if header := _HEADER.search(text, start, end):
        return _Line([(header.start(), end)])
    runs = [run for run in _RUN.finditer(text, start, end) if _WORDLIKE.search(run[0])]
    alone = len(runs) == 1
    sure = [run.span() for run in runs if _is_key(run[0], alone)]
    if sure:
        whole = all(text[a.end() : b.start()] == " " for a, b in zip(runs, runs[1:], strict=False))
        return _Line([(runs[0].start(), runs[-1].end())] if whole else sure, is_key=True)
    first = runs[0]
    lead, tail = text[start : first.start()], text[first.end() : end]
    if not alone or _CODE.search(lead + tail) or _JOINED.search(lead):
        return _Line([], is_other=True)
    return _Line([first.span()], is_word=_is_name(first[0]))


def _is_key(run: str, alone: bool) -> bool:
    if len(run) >= LEAST and _FIRST.match(run) and re.search("[a-z]", run):
        return True
    if len(run) < (SHORT if alone else LONG):
        return False
    if all(re.search(kind, run) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return not _is_name(run)
    letters = len(re.findall(r"[A-Za-z0-9]", run))
    return alone and len(run) >= LONGER and 2 * letters > len(run) and not re.search("[_-]", run)


def _is_name(run: str) -> bool:
    """Whether it may be a name or a word of a program, like `continue`."""
    if len(run) > LONGER:
        return False
    chunks = _CHUNK.findall(run)
    return sum(map(len, chunks)) >= WORD * len(chunks) and not re.search("[+/=]", run)
