"""A completion's blanks, as the editor or the file has them. Pure functions on text.

Knows no language. What is not clear is left alone: odd blanks align something.
"""

import re
from collections import Counter

from completiond.brackets import balance
from completiond.postprocess.place import Place

_TAB = 4
_SAMPLE = 400
"""Lines that tell how a file is indented."""
_OPENER = re.compile(r"(?:[:{(\[,]|=>|->|=|\b(?:then|do|else|begin))\s*\Z")
_COMMENT = re.compile(r"\s+(?:#|//|--|/\*)")


def unit_of(at: Place) -> str:
    """One level of indentation: the editor's, else the file's; empty if neither says it."""
    if at.indent:
        return at.indent
    lines = [*at.above[-_SAMPLE:], *at.below[:_SAMPLE]]
    leads = [lead for line in lines if (lead := _lead(line))] or [_lead(at.line)]
    tabs = sum(lead[:1] == "\t" for lead in leads)
    if tabs:
        return "\t" if tabs == len(leads) else ""
    steps = Counter(
        step
        for one, other in zip(lines, lines[1:], strict=False)
        if (step := len(_lead(other)) - len(_lead(one))) > 1
    )
    return " " * steps.most_common(1)[0][0] if steps else ""


def as_in_file(text: str, at: Place) -> str:
    """`text` with the leading blanks of its lines made of the file's own kind; what is less than a
    level stays."""
    head, *tail = text.split("\n")
    lines = tail if at.line.strip() else [head, *tail]
    leads = [lead for line in lines if (lead := _lead(line)) and line.strip()]
    unit = unit_of(at) if leads else ""
    if not unit or all(_fits(lead, unit) for lead in leads):
        return text
    widths = {len(lead) for lead in leads if lead[0] == " "}
    step = 2 if any(width + 2 in widths for width in widths) else _TAB
    changed = [_changed(line, unit, step) if line.strip() else line for line in lines]
    return "\n".join(changed if len(changed) > len(tail) else [head, *changed])


def without_double(text: str, at: Place) -> str:
    """Without blanks at its beginning that stand before the cursor already.

    A blank behind a blank inside a line; in front of it the indentation over again, or one odd
    blank more than the line above calls for.
    """
    lead = _lead(text)
    if not lead or not at.line[-1:].isspace() or len(lead) == len(text):
        return text
    if at.line.strip():
        return text if _COMMENT.match(text) or "\t" in lead else text[len(lead) :]
    above = at.above[-1] if at.above else ""
    again = lead == at.line or (lead == " " and not balance(above).opens)
    return text[len(lead) :] if again and _width(at.line + text) > _deepest(at, above) else text


def _deepest(at: Place, above: str) -> int:
    """Columns of the deepest indentation that the line above calls for."""
    if not _OPENER.search(above):
        return _width(above)
    unit = unit_of(at)
    if not unit and _width(at.line) > _width(above):
        return _width(at.line)
    return _width(above) + len((unit or " " * _TAB).expandtabs(_TAB))


def before_rest(text: str, at: Place) -> str:
    """A line above one that stands there ends with what stood in front of it; a blank that stands
    there is said once."""
    if at.rest[0] in " \t" and at.line.strip():
        return text.rstrip(" \t") or text
    above = text.endswith("\n") and at.rest.strip() and not at.line.strip()
    return text + at.line if above else text


def _fits(lead: str, unit: str) -> bool:
    return lead[0] == unit[0] or (unit == "\t" and len(lead) == 1)


def _changed(line: str, unit: str, step: int) -> str:
    lead = _lead(line)
    if _fits(lead or unit, unit):
        return line
    if unit == "\t":
        levels, odd = divmod(len(lead.expandtabs(step)), step)
        return "\t" * levels + " " * odd + line[len(lead) :]
    return lead.replace("\t", unit) + line[len(lead) :]


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _width(line: str) -> int:
    return len(_lead(line).expandtabs(_TAB))
