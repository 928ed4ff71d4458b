"""How much to ask for at a cursor, by the structure of the text around it, never by request order.

Knows text only. `line`: text stands right of the cursor, so nothing below is touched. `statement`:
the line has begun, and ends with its statement, or with the block that this opens. `block`: the
line is still blank, or a person asks.
"""

import re
from typing import Literal

from completiond.brackets import balance

Extent = Literal["line", "statement", "block"]

ONLY_CLOSERS = re.compile(r"[\s)\]}>\"'`;:,]*")
"""What may stand right of the cursor without being text: an editor puts most of it there."""
_BEGINS = re.compile(r"[\w@#$\"'`/*<{]")
"""How a line begins: what goes on with `;` or an operator is the end of what is to be written."""
_OPENS = re.compile(r"(?::|\b(?:then|do|else|begin|of|where|try|finally)|\bdo \|.*\|)\Z")
_DEF = re.compile(r"\s*def\b[^:{;=]*\Z")
_GOES_ON = re.compile(
    r"(?:[,\\.=+\-*/%&|^<?]|=>|->|\b(?:and|or|not|in|is|return|await|yield|new))\Z"
)
_COMPLETE = re.compile(r"(?:\+\+|--|\*/|^\s*(?:return|yield)|^\s*(?://|#|--|\*).*)\Z")
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
    if balance(statement).opens:
        return True
    last = statement.rpartition("\n")[2].rstrip()
    if _COMPLETE.search(last):
        return False
    return bool(_GOES_ON.search(_COMMENT.sub("", last).rstrip()))
