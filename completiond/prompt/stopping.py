"""When a completion is complete: rules on its text, as data that travels and an object that steps.

Knows the text around the cursor and what was generated; knows nothing of templates or models. The
first line is never cut: what stops a run is the line structure, never a string in legal code.
"""

import codecs
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from completiond import brackets

EQUAL_LINES = 4
"""So many equal lines in a row are a loop."""

_CUT_OFF = ("length", "timeout")
_TAB = 4
_CLOSERS = re.compile(r"[\s)\]}>\"'`;:,]*")
_CLOSING_WORDS = ("end", "fi", "done", "esac")
_CLOSING_LINE = re.compile(r"[)\]}]+[;,]?|end;?|fi|done|esac|</\S+>")


def rule(
    before: str, after: str, *, healed: str, stop_ids: Collection[int], closers: str = ""
) -> dict[str, Any]:
    """The data of the stop rule at a cursor between `before` and `after`, for msgpack.

    `closers` stand between the two, but belong to what was typed: the completion writes them
    itself, and ends behind the first; on another line, in front of it.
    """
    line, _, _ = after.partition("\n")
    rest = line.strip()
    return {
        "stop_ids": sorted(stop_ids),
        "healed": healed,
        "single": not _CLOSERS.fullmatch(rest),
        "line": before[before.rfind("\n") + 1 :].rstrip("\r"),
        "rest": rest,
        "next": _first_line(after[len(line) :]),
        "closer": brackets.first(closers.strip()),
        "writes_closer": "\n" not in closers,
    }


def _first_line(text: str) -> str:
    """The first line with something on it, with its indentation."""
    return next((line.rstrip() for line in text.split("\n") if line.strip()), "")


class Stop(NamedTuple):
    """Why a text ends, and how many of its characters are shown."""

    reason: str
    keep: int


class _Lines:
    """Reads a completion's text as it grows; each line is looked at once."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._base: int | None = None  # indentation of the block being filled, columns
        self._text = ""
        self._start = 0  # of the line that is not complete yet
        self._seen = 0  # complete lines
        self._shown_end = 0  # end of the last line with something on it
        self._started = False  # something other than blanks was generated
        self._last, self._first_equal, self._equal = "", 0, 0

    def feed(self, text: str) -> Stop | None:
        self._text += text
        closed = self._closed()
        return self._in_lines() or closed

    def _closed(self) -> Stop | None:
        """Whether the text has closed what was open around it; what is behind that is dropped."""
        closer = self._data.get("closer", "")
        at = brackets.closed_at(self._text, closer) if closer else None
        if at is None:
            return None
        self._text = self._text[: at + len(closer)]
        return Stop("suffix", len(self._text) if self._data["writes_closer"] else at)

    def _in_lines(self) -> Stop | None:
        while (end := self._text.find("\n", self._start)) >= 0:
            stop = self._line(self._start, end)
            if stop:
                return stop
            self._start, self._seen = end + 1, self._seen + 1
        return self._unfinished()

    def _line(self, start: int, end: int) -> Stop | None:
        """Look at the complete line [start, end) of the text."""
        line = self._text[start:end].rstrip()
        if not line.strip():
            paragraph = self._started and self._seen > 0 and not self._data["single"]
            return Stop("paragraph", self._shown_end) if paragraph else None
        stop = self._complete(line, start)
        self._started = True
        self._shown_end = start + len(line)
        return stop

    def _complete(self, line: str, start: int) -> Stop | None:
        if self._data["single"]:
            return Stop("line", start + len(line))
        whole = line if self._seen else self._data["line"] + line
        stop = self._reached_suffix(whole, line, start) or self._repeats(line, start)
        if stop:
            return stop
        if self._dedents(whole):
            closes = _CLOSING_LINE.fullmatch(line.strip())
            return Stop("dedent", start + len(line) if closes else self._shown_end)
        if self._base is None:
            self._base = _width(whole)
        return None

    def _reached_suffix(self, whole: str, line: str, start: int) -> Stop | None:
        if not (self._seen or not self._data["line"].strip()):
            return None
        if self._data["next"] and whole.rstrip() == self._data["next"]:
            return Stop("suffix", self._shown_end)
        if self._data["rest"] and self._seen and line.strip() == self._data["rest"]:
            return Stop("suffix", start + len(line) - len(line.lstrip()))
        return None

    def _repeats(self, line: str, start: int) -> Stop | None:
        self._equal = self._equal + 1 if line == self._last else 1
        self._last = line
        if self._equal == 1:
            self._first_equal = start + len(line)
        return Stop("repetition", self._first_equal) if self._equal >= EQUAL_LINES else None

    def _dedents(self, whole: str) -> bool:
        return self._seen > 0 and self._base is not None and _width(whole) < self._base

    def _unfinished(self) -> Stop | None:
        """A line that has begun left of the block ends it, unless it may be the closing one."""
        line = self._text[self._start :]
        begun = line.strip()
        if self._data["single"] or not begun or not self._dedents(line):
            return None
        may_close = begun[0] in ")]}<" or any(word.startswith(begun) for word in _CLOSING_WORDS)
        return None if may_close else Stop("dedent", self._shown_end)


def _width(line: str) -> int:
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blanks.expandtabs(_TAB))


class TextStop:
    """core.StopRule on the bytes of the committed ids; the healed text in front is skipped."""

    def __init__(self, data: Mapping[str, Any], token_bytes: Callable[[int], bytes]) -> None:
        self._stop_ids = frozenset(data["stop_ids"])
        self._token_bytes = token_bytes
        self._skip = len(data["healed"].encode("utf-8", "replace"))
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines = _Lines(data)

    def step(self, ids: Sequence[int]) -> str | None:
        """Take the next committed ids; the reason to stop after them, or None."""
        for token in ids:
            if token in self._stop_ids:
                return "eos"
            spelled = self._token_bytes(token)
            fresh, self._skip = spelled[self._skip :], max(0, self._skip - len(spelled))
            stop = self._lines.feed(self._utf8.decode(fresh)) if fresh else None
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
    stop = _Lines(data).feed(shown)
    if stop:
        return shown[: stop.keep]
    if reason == "eos":
        return shown
    complete, _, _ = shown.rpartition("\n")
    return complete if reason in _CUT_OFF and complete.strip() else shown.rstrip("\ufffd")
