"""How much to ask for at a cursor, by the structure of the text around it, never by request order.

Knows text only. `line`: text stands right of the cursor, so nothing below is touched. `statement`:
the line has begun, and ends with its statement, or with the block that this opens. `block`: the
line is still blank, or a person asks.
"""

import re
from collections.abc import Sequence
from typing import Literal

from completiond.brackets import balance, blanked, in_heredoc, opened_at

Extent = Literal["line", "statement", "block"]

ONLY_CLOSERS = re.compile(r"[\s)\]}>\"'`;:,]*")
"""What may stand right of the cursor without being text: an editor puts most of it there."""
_BEGINS = re.compile(r"[\w@#$\"'`/*<{]")
"""How a line begins: what goes on with `;` or an operator is the end of what is to be written."""
_OPENS = re.compile(r"(?::|\b(?:then|do|else|begin|of|where|try|finally)|\bdo \|[^|]*\|)\Z")
_DEF = re.compile(r"\s*def\b[^:{;=]*\Z|.*\bfunction\b[\s\w.:]{0,200}\([^()]*\)\Z")
_GOES_ON = re.compile(r"(?:[,\\.=+\-*/%&|^<?]|=>|->|\b(?:and|or|not|in|is|await|yield|new))\Z")
_COMPLETE = re.compile(r"(?:\+\+|--|\*/|^\s*yield|^\s*(?://|#|--|\*).*)(?<!\\)\Z")
_MARKS = re.compile(r"\s*(?:@[\w.]+|template\s*<.*>)")
"""A decorator, an annotation, in front of its brackets: of what stands below it."""
_ATTRIBUTE = re.compile(r"\s*#!?")
"""The same in front of square ones."""
_LEADS = re.compile(
    r"\s*(?:/\*+|///?|--|#+|\"{3}|'{3}|<!--|\[[A-Z][\w.]*(?:\(.*\))?\])\Z", re.DOTALL
)
"""What a comment begins with, and the marks of C#: the first line of many that are different."""
_HEAD = re.compile(
    r"\b(?:if|for|foreach|while|switch|catch|using|lock|synchronized)(?: constexpr| await)?\s*\Z"
)
"""What stands in front of the brackets of a statement that has its body behind them."""
_LONGEST_HEAD = 32
_BEFORE_HEAD = re.compile(r"(?:\A|[;{]|\belse)\Z")
_COMMENT = re.compile(r"\s(?://|#|--)(?=\s).*\Z")


def extent(before: str, after: str, *, invoked: bool = False) -> Extent:
    """How much may be written between two texts."""
    line = before[before.rfind("\n") + 1 :]
    blank = not line.strip()
    rest = after.partition("\n")[0]
    if not ONLY_CLOSERS.fullmatch(rest.strip()):
        return "block" if not line or (blank and _BEGINS.match(rest)) else "line"
    return "block" if blank or invoked else "statement"


def opens_block(line: str) -> bool:
    """Whether what follows a complete line stands inside of it, told by words and colons."""
    code = _COMMENT.sub("", line).rstrip()
    return bool(_OPENS.search(code) or _DEF.fullmatch(code))


def goes_on(statement: str) -> bool:
    """Whether a statement is not complete at the end of its text so far."""
    if balance(statement).opens or in_heredoc(statement) or waits(statement):
        return True
    last = statement.rpartition("\n")[2].rstrip()
    if _COMPLETE.search(last):
        return False
    return bool(_GOES_ON.search(_COMMENT.sub("", last).rstrip())) and not opens_block(last)


def waits(statement: str) -> bool:
    """Whether a text ends with what belongs to the line below: a mark, or `if (a)` without `{`."""
    above, newline, last = statement.rpartition("\n")
    code = blanked(above + newline + _COMMENT.sub("", last)).rstrip()
    return _is_mark(code) or (_is_head(code) and not _COMPLETE.search(last.rstrip()))


def _is_mark(code: str) -> bool:
    """Whether the last line is one, or the last lines are one with what is in its brackets."""
    while (at := opened_at(code)) >= 0:
        square, code = code[at] == "[", code[:at]
        if square and _ATTRIBUTE.fullmatch(_last_line(code)):
            return True
    return bool(_MARKS.fullmatch(_last_line(code)))


def _is_head(code: str) -> bool:
    """Whether a head ends there that begins its line, or stands behind another one."""
    while code.endswith(")") and (at := opened_at(code)) >= 0:
        head = _HEAD.search(code, max(0, at - _LONGEST_HEAD), at)
        if head is None:
            return False
        code = code[: head.start()].rstrip(" \t")
        if _BEFORE_HEAD.search(_last_line(code)[-5:]):
            return True
    return False


def _last_line(text: str) -> str:
    return text[text.rfind("\n") + 1 :]


def told_by(lines: Sequence[str]) -> tuple[list[str], str]:
    """The first line that says what it is, and the lines in front of it, which many have."""
    for n, line in enumerate(lines):
        if not (_LEADS.fullmatch(line) or _is_mark(blanked(line))):
            return list(lines[:n]), line
    return [], lines[0] if lines else ""
