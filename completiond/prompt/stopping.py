"""When a completion is complete: rules on its text, as data that travels and an object that steps.

Knows the text around the cursor and what was generated; knows nothing of templates or models. The
first line is never cut: what stops a run is the line structure, never a string in legal code.
"""

import codecs
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from completiond import brackets
from completiond.postprocess.ahead import mark
from completiond.postprocess.leaks import spells_any
from completiond.prompt.extent import ONLY_CLOSERS, extent, told_by
from completiond.prompt.reading import Reader

LINES_BELOW = 6
"""So many are looked at for one by which they are known."""
_CUT_OFF = ("length", "timeout")


class Cursor(NamedTuple):
    """The text around a cursor, as the model is asked to continue it.

    `closers` stand between the two, but belong to what was typed: the completion writes them
    itself, and ends behind the first; on another line, in front of it.
    """

    before: str
    after: str
    language: str = ""
    closers: str = ""


def rule(
    at: Cursor,
    *,
    healed: str,
    stop_ids: Collection[int],
    invoked: bool = False,
    off: Collection[str] = (),
) -> dict[str, Any]:
    """The data of the stop rule at a cursor, for msgpack; rules that `off` names do nothing."""
    rest, _, _ = at.after.partition("\n")
    much = extent(at.before, at.after, invoked=invoked)
    indented = bool(rest.strip()) and rest[0] in " \t"
    above = much == "block" and (indented or not ONLY_CLOSERS.fullmatch(rest))
    line = at.before[at.before.rfind("\n") + 1 :].rstrip("\r")
    lead, told = told_by([line + rest.rstrip()] * above + _lines(at.after.partition("\n")[2]))
    ahead = rest.rstrip() if much == "line" else told
    return {
        "stop_ids": sorted(stop_ids),
        "healed": healed,
        "single": much == "line",
        "statement": much == "statement",
        "above": above,
        "patient": invoked,
        "line": line,
        "rest": rest.rstrip() if above else rest.strip(),
        "lead": lead,
        "next": told,
        "mark": mark(ahead, at.before, at.after),
        "closable": brackets.closable(at.before, at.after, at.language),
        "closer": brackets.first(at.closers.strip()),
        "writes_closer": "\n" not in at.closers,
        "spells": spells_any(at.before, at.after),
        "off": sorted(off),
    }


def _lines(text: str) -> list[str]:
    """The first lines with something on them, with their indentation."""
    said = (line.rstrip() for line in text.split("\n") if line.strip())
    return list(islice(said, LINES_BELOW))


class TextStop:
    """core.StopRule on the bytes of the committed ids; the healed text in front is skipped."""

    def __init__(self, data: Mapping[str, Any], token_bytes: Callable[[int], bytes]) -> None:
        self._stop_ids = frozenset(data["stop_ids"])
        self._token_bytes = token_bytes
        self._skip = len(data["healed"].encode("utf-8", "replace"))
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._reader = Reader(data)

    def step(self, ids: Sequence[int]) -> str | None:
        """Take the next committed ids; the reason to stop after them, or None."""
        for token in ids:
            if token in self._stop_ids:
                return "eos"
            spelled = self._token_bytes(token)
            fresh, self._skip = spelled[self._skip :], max(0, self._skip - len(spelled))
            stop = self._reader.feed(self._utf8.decode(fresh)) if fresh else None
            if stop:
                return stop.reason
        return None


def trim(text: str, data: Mapping[str, Any], reason: str) -> str:
    """What to insert at the cursor, of a run whose ids decode to `text` and that ended by `reason`.

    Takes the healed part away and cuts at the rule's own point; of a run that was cut off, a line
    that is not complete is left out if there is one that is. A run that has not spelled the healed
    part, or left it, has nothing to show. The reason "" is a run that goes on.
    """
    healed = data["healed"]
    if not text.startswith(healed):
        return ""
    shown = text[len(healed) :]
    stop = Reader(data).feed(shown)
    if stop:
        # In front of a line that stands there already, a line is only one with its end.
        end = data["above"] and shown[: stop.keep].strip() and shown[stop.keep :][:1] == "\n"
        return shown[: stop.keep + bool(end)]
    if reason == "eos":
        return shown
    complete, _, _ = shown.rpartition("\n")
    return complete if reason in _CUT_OFF and complete.strip() else shown.rstrip("\ufffd")
