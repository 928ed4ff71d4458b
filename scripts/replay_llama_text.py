"""What llama.vim makes of a cursor, and what it remembers: text in, text out (2026-01-31, a1c8e6e).

256 lines before and 64 after the cursor, split at the start of the cursor's line; a blank line is
left out. 250 answers are remembered under a sha256 of prefix, line and suffix (and the same without
the first one to three lines), and looked up with up to 128 characters taken back.
"""

import re
from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

from replay_traces import Moment

LINES_BEFORE, LINES_AFTER = 256, 64
REMEMBERED = 250
TAKEN_BACK = 128
MARK = "\u00ce"
"""What llama.vim puts between the two sides in its keys."""


class Local(NamedTuple):
    """What llama.vim makes of a cursor: three texts, and the line on both sides of it."""

    prefix: str
    middle: str
    suffix: str
    indent: int
    head: str
    rest: str


def local(moment: Moment, shown: str | None = None) -> Local:
    """The prompt at the cursor; with `shown`, the one behind that text if it is taken."""
    lines = moment.text.split("\n")
    at = moment.text.count("\n", 0, moment.cursor)
    start = moment.text.rfind("\n", 0, moment.cursor) + 1
    column = moment.cursor - start
    head, rest = lines[at][:column], lines[at][column:]
    before, after = lines[max(0, at - LINES_BEFORE) : at], lines[at + 1 : at + 1 + LINES_AFTER]
    indent = len(lines[at]) - len(lines[at].lstrip(" \t"))
    middle, behind = head, rest
    if shown is not None:
        taken = (lines[at] + shown).split("\n")
        before, middle, behind = (before + taken[:-1])[-LINES_BEFORE:], taken[-1], ""
    elif not lines[at].strip():
        middle = behind = ""
        indent = 0
    suffix = f"{behind}\n" + "\n".join(after) + "\n"
    return Local("\n".join(before) + "\n", middle, suffix, indent, head, rest)


def keys_of(here: Local) -> list[str]:
    """The names under which an answer is remembered."""
    prefix, names = here.prefix, [_name(here.prefix + here.middle, here.suffix)]
    for _ in range(3):
        prefix = re.sub(r"\A[^\n]*\n", "", prefix)
        if not prefix:
            break
        names.append(_name(prefix + here.middle, here.suffix))
    return names


def _name(before: str, after: str) -> str:
    return sha256((before + MARK + after).encode("utf-8", "surrogatepass")).hexdigest()


class Memory:
    """Earlier answers; the least lately used is forgotten first."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._answers: OrderedDict[str, str] = OrderedDict()

    def put(self, names: list[str], text: str) -> None:
        for name in names:
            self._answers[name] = text
            self._answers.move_to_end(name)
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)

    def get(self, name: str) -> str | None:
        if name in self._answers:
            self._answers.move_to_end(name)
        return self._answers.get(name)

    def find(self, here: Local) -> str | None:
        """What an answer for this place, or one some characters back, still says; the longest."""
        before, best = here.prefix + here.middle, ""
        exact = self.get(_name(before, here.suffix))
        if exact is not None:
            return exact
        for back in range(1, min(TAKEN_BACK, len(before)) + 1):
            found = self.get(_name(before[:-back], here.suffix))
            if found and found[:back] == before[-back:] and len(found) - back > len(best):
                best = found[back:]
        return best or None


def drawn(text: str, here: Local, moment: Moment) -> str:
    """What llama.vim draws of an answer: not what repeats the text behind, not blanks alone."""
    lines = text.split("\n")
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return ""
    if not (here.head + here.rest).strip():
        lead = len(lines[0]) - len(lines[0].lstrip(" \t"))
        lines[0] = lines[0][min(lead, len(here.head + here.rest)) :]
    after = moment.text[moment.cursor :].split("\n")[1:]
    if _repeats(lines, here, after):
        return ""
    shown = "\n".join(lines)
    return shown if (shown + here.rest).strip() else ""


def _repeats(lines: list[str], here: Local, after: list[str]) -> bool:
    if len(lines) > 1 and not lines[0] and lines[1:] == after[: len(lines) - 1]:
        return True
    if lines == [here.rest]:
        return True
    at = next((i for i, line in enumerate(after) if line.strip()), len(after) - 1)
    if not after or here.head + lines[0] != after[at]:
        return False
    following = after[at + 1 : at + len(lines)]
    if len(lines) == 2:
        return bool(following) and following[0].startswith(lines[1])
    return lines[1:] == following
