"""When a request that nobody made by hand is not worth a run. Pure functions on text.

Knows the text around the cursor; knows no model and no clock. A person who asks is always answered,
and so is who follows a suggestion; what is known already is shown whatever this says.
"""

import re

from completiond.brackets import balance
from completiond.core import Snapshot

LEAST_TEXT = 10
"""Characters of a document that say anything."""
SHORT_REST = 8
"""So few characters right of the cursor are no obstacle."""

_CLOSED = re.compile(r"\s*[)>}\]\"'`]*\s*[:{;,]?\s*")
_WORD = re.compile(r"\w")
_FULL_STOP = re.compile(r";|[)\]}]*[)\]]}|}[)\]]+")
"""How a line ends behind which only another line can follow: `;`, or a closed block's `})`."""


def refusal(snapshot: Snapshot) -> str:
    """Why not to run for an automatic request here: `short_document`, `mid_word`, `mid_line` or
    `statement_end`; empty where a run is worth it."""
    before, after = snapshot.before, snapshot.after
    if not snapshot.offset and (len(before) + len(after) < LEAST_TEXT or _blank(before, after)):
        return "short_document"
    line = re.split(r"[\r\n]", before[-4096:])[-1]
    rest = re.split(r"[\r\n]", after[:4096], maxsplit=1)[0]
    if _WORD.match(rest) and _WORD.match(line[-1:]):
        return "mid_word"
    if len(rest.strip()) > SHORT_REST and _WORD.search(rest) and not _CLOSED.fullmatch(rest):
        return "mid_line"
    return "" if rest.strip() or not _ends_statement(line) else "statement_end"


def _blank(before: str, after: str) -> bool:
    return not (before.strip() or after.strip())


def _ends_statement(line: str) -> bool:
    """Whether nothing may follow on the line; `for (i = 0;` goes on, and so does a string."""
    said = line.strip()
    ends = said.endswith(";") or bool(_FULL_STOP.fullmatch(said))
    return ends and not balance(line).opens
