"""Closers that are not a completion's to write. Pure functions on text.

One stands below already, or nobody has opened what it closes. `} else {` takes nothing away: it
opens again what it closes.
"""

import re

from completiond.brackets import balance, closable, strays
from completiond.postprocess.place import Place

_END = re.compile(r"([ \t]*)(?:end|fi)[;,)]*")
_GOES_ON = re.compile(r"([ \t]*)(?:else|elif|elsif|elseif|rescue|ensure|catch|when)\b")
"""What a block goes on with that a word ends."""


def without_snipped(text: str, at: Place) -> str:
    """Cut where a line of the text closes the block that the line below closes, as deep in."""
    below = at.below[0] if at.below else ""
    for n in strays(text):
        start = text.rfind("\n", 0, n) + 1
        indent = text[start:n]
        if start and not indent.strip() and below.startswith(text[start : n + 1]):
            return text if _opens_again(text, n) else text[:start].rstrip()
    return _without_end(text, at.line, below)


def _without_end(text: str, line: str, below: str) -> str:
    """Without a last line that ends by a word the block around the cursor, with which the line
    below goes on."""
    above, _, last = text.rstrip().rpartition("\n")
    end, goes_on = _END.fullmatch(last), _GOES_ON.match(below)
    if not (end and goes_on and end[1] == goes_on[1]):
        return text
    said = [one for one in (line + above).split("\n") if one.strip()]
    inside = said and all(one.startswith(end[1]) and one[len(end[1])].isspace() for one in said)
    return above.rstrip() if inside else text


def without_unowned(text: str, at: Place) -> str:
    """Cut where the text closes more than is open before the cursor and not closed behind it."""
    allowed = closable(at.before, at.after, at.language)
    if allowed is None:
        return text
    for count, n in enumerate(strays(text)):
        owned = count < len(allowed) and text[n] == allowed[count]
        if owned or _opens_again(text, n):
            continue
        start = text.rfind("\n", 0, n) + 1
        return text[:start].rstrip() if start and not text[start:n].strip() else text[:n]
    return text


def _opens_again(text: str, n: int) -> bool:
    return bool(balance(text[n + 1 :].partition("\n")[0]).opens)
