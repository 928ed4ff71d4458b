"""Reads a completion's text as it grows, and says where it ends. Each line is looked at once.

Knows the data of one stop rule (stopping.py) and text; knows no ids. A line is cut only where what
is behind the cut stands in the buffer already, or closes what the buffer closes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from completiond import brackets
from completiond.postprocess.ahead import says
from completiond.postprocess.leaks import find_leak
from completiond.prompt.extent import goes_on, opens_block, waits

STOPS = ("statement", "paragraph", "dedent", "suffix", "bracket", "repetition", "sentinel")
"""What ends a text, but the end of a line where one line is asked for."""
EQUAL_LINES = 4
"""So many equal lines in a row are a loop; so are as many equal groups of lines."""
LONGEST_GROUP = 6
LOOP = 160
"""Characters of one line that are the same few again and again: no code, and no ruler of dashes."""
LONGEST_PERIOD = 20
LEAK = 64
"""Characters in which a control token's name that has just been spelled is looked for."""

_TAB = 4
_CLOSING_WORDS = ("end", "fi", "done", "esac")


class Stop(NamedTuple):
    """Why a text ends, and how many of its characters are shown."""

    reason: str
    keep: int


class Reader:
    """One completion. `feed` takes what was written next; once it has said stop, it is over."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._on = frozenset(STOPS).difference(data.get("off", ()))
        self._inside = not (data["statement"] and "statement" in self._on)  # of a block
        self._base: int | None = None  # indentation of the block being filled, columns
        self._floor = 0  # least indentation of what stands in a block that the text has opened
        self._text = ""
        self._start = 0  # of the line that is not complete yet
        self._seen = 0  # complete lines
        self._shown_end = 0  # end of the last line with something on it
        self._started = False  # something other than blanks was generated
        self._last = ""  # line with something on it, as it will stand in the buffer
        self._lines: list[str] = []
        self._ends: list[int] = []
        self._wholes: list[str] = []  # the lines as they will stand in the buffer

    def feed(self, text: str) -> Stop | None:
        self._text += text
        stop: Stop | None = None
        for cut in (self._leaked(len(text)), self._closed(), self._reached_bracket(), self._rest()):
            stop = cut or stop  # each looks at what the one before it has left
        return self._in_lines() or stop or self._loops()

    # -- inside a line --------------------------------------------------------------------------

    def _leaked(self, fresh: int) -> Stop | None:
        """Whether the name of a control token was spelled; the text ends in front of it."""
        if "sentinel" not in self._on or self._data["spells"]:
            return None
        at = find_leak(self._text, max(0, len(self._text) - fresh - LEAK))
        if at is None:
            return None
        self._text = self._text[:at]
        return Stop("sentinel", len(self._text.rstrip(" ")))

    def _closed(self) -> Stop | None:
        """Whether the text has closed what was open around it; what is behind that is dropped."""
        closer = self._data["closer"]
        at = brackets.closed_at(self._text, closer) if closer else None
        if at is None:
            return None
        self._text = self._text[: at + len(closer)]
        return Stop("suffix", len(self._text) if self._data["writes_closer"] else at)

    def _reached_bracket(self) -> Stop | None:
        """Whether the bracket right of the cursor is closed; it stands there already."""
        rest = self._data["rest"]
        for at in self._strays():
            if rest.startswith(self._text[at]):
                self._text = self._text[:at]
                return Stop("suffix", at)
            if not self._opens_again(at):
                return None
        return None

    def _rest(self) -> Stop | None:
        """Whether one line has come to what stands right of the cursor."""
        mark = self._data["mark"] if self._data["single"] and "suffix" in self._on else ""
        at = self._text.find(mark) if mark else -1
        if at < 0 or not says(self._text[at:], mark):
            return None
        self._text = self._text[:at]
        return Stop("suffix", at)

    def _strays(self) -> Iterator[int]:
        """Where brackets are closed that are closed behind the cursor, or that nobody opened."""
        allowed = self._data["closable"]
        if allowed is None or "bracket" not in self._on or self._data["closer"]:
            return
        for n, at in enumerate(brackets.strays(self._text, grows=True)):
            if n >= len(allowed) or self._text[at] != allowed[n]:
                yield at

    def _opens_again(self, at: int) -> bool:
        """`} else {` takes nothing from the block around it. Known when its line is complete."""
        end = self._text.find("\n", at)
        return end >= 0 and bool(brackets.balance(self._text[at + 1 : end]).opens)

    def _stray_in(self, start: int, end: int) -> Stop | None:
        """Whether the complete line [start, end) closes a bracket that is not its to close."""
        for at in self._strays():
            if at >= end:
                break
            if at >= start and not self._opens_again(at):
                blank = not self._text[start:at].strip()
                return Stop("bracket", self._shown_end if blank else at)
        return None

    def _loops(self) -> Stop | None:
        """A line that says the same few characters again and again ends behind the first."""
        line = self._text[self._start :]
        if len(line) < LOOP or "repetition" not in self._on:
            return None
        tail = line[-LOOP:]
        for period in range(1, LONGEST_PERIOD + 1):
            if tail[period:] == tail[:-period] and tail[:period].strip("-=*#_~./ \t"):
                return Stop("repetition", len(self._text) - LOOP + period)
        return None

    # -- line by line ---------------------------------------------------------------------------

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
            return self._blank()
        stop = self._complete(line, start)
        self._started = True
        self._shown_end = start + len(line)
        return stop

    def _blank(self) -> Stop | None:
        """A blank line. If it is the first, the cursor's line was complete as it stood."""
        if not self._seen and opens_block(self._data["line"]):
            self._enter(self._data["line"])
        if not self._started or self._data["single"] or "paragraph" not in self._on:
            return None
        if _opens(self._last):
            return None  # nothing of the block is there yet
        # Who asks for a block wants all of it: there a blank line ends nothing but the outermost.
        inside = self._data["patient"] and self._base
        return None if inside else Stop("paragraph", self._shown_end)

    def _complete(self, line: str, start: int) -> Stop | None:
        end = start + len(line)
        if self._data["single"]:
            return self._stray_in(start, end) or Stop("line", end)
        whole = line if self._seen else self._data["line"] + line
        dedents = self._dedents(whole)
        if dedents and not _may_close(line.strip()):
            return Stop("dedent", self._shown_end)
        stop = self._reached_suffix(whole, line, start) or self._repeats(line, start)
        stop = stop or self._stray_in(start, end)
        if stop:
            return stop
        self._last = whole
        if self._own_line():
            self._wholes.append(whole)
        if dedents:
            return Stop("dedent", end if _closes(line.strip()) else self._shown_end)
        if self._base is None:
            self._base = _width(whole)
        return None if self._inside else self._statement(whole, end)

    def _statement(self, whole: str, end: int) -> Stop | None:
        """Whether the one statement that is asked for is complete with this line."""
        if self._has_body(whole):
            return Stop("statement", end)
        if goes_on(self._data["line"] + self._text[:end]):
            return None
        if opens_block(whole):
            self._enter(whole)
            return None
        return Stop("statement", end)

    def _has_body(self, whole: str) -> bool:
        """Whether the cursor's line opens what the buffer has below it already."""
        if self._seen or self._data["rest"] or self._data["closer"]:
            return False
        opens = _opens(whole) or waits(whole)
        below = [*self._data["lead"], self._data["next"]][0]
        return opens and _width(below) > _width(whole)

    def _enter(self, opening: str) -> None:
        """The rest is the block behind the line `opening`."""
        self._inside, self._base, self._floor = True, None, _width(opening) + 1

    def _reached_suffix(self, whole: str, line: str, start: int) -> Stop | None:
        if "suffix" not in self._on:
            return None
        rest = self._data["rest"] if not self._data["above"] else ""
        if rest and self._seen and line.strip() == rest and not self._told_by_bracket(rest):
            return Stop("suffix", start + len(line) - len(line.lstrip()))
        # A line that stands there as it is, its indentation too.
        is_next = self._own_line() and self._data["next"] and whole == self._data["next"]
        return self._at_next() if is_next else self._meets(whole)

    def _meets(self, whole: str) -> Stop | None:
        """Whether a line, complete or not, is known to be the one that stands below already."""
        if "suffix" not in self._on or not self._own_line():
            return None
        return self._at_next() if says(whole, self._data["mark"]) else None

    def _own_line(self) -> bool:
        """Whether all of the line that is read, but its indentation, was generated."""
        return bool(self._seen or not self._data["line"].strip())

    def _at_next(self) -> Stop:
        """The end in front of what stands below, and of the lines that belong to it."""
        lead, own = self._data["lead"], self._wholes
        same = 0
        while same < min(len(lead), len(own)) and own[-1 - same] == lead[-1 - same]:
            same += 1
        kept = self._ends[: len(self._ends) - same]
        above = self._data["above"] and self._seen > same
        return Stop("suffix", (kept[-1] if kept else 0) + bool(above))

    def _told_by_bracket(self, rest: str) -> bool:
        """Whether its closing is seen; a line of the same bracket may close another one."""
        return rest[0] in ")]}" and self._data["closable"] is not None

    def _repeats(self, line: str, start: int) -> Stop | None:
        """Whether the last lines say the same again and again; the first time is shown."""
        self._lines.append(line)
        self._ends.append(start + len(line))
        if "repetition" not in self._on:
            return None
        for size in range(1, LONGEST_GROUP + 1):
            length = size * EQUAL_LINES
            last = self._lines[-length:]
            if len(last) == length and last[size:] == last[:-size]:
                return Stop("repetition", self._ends[-length + size - 1])
        return None

    def _dedents(self, whole: str) -> bool:
        if "dedent" not in self._on or not self._seen:
            return False
        if self._base is None and whole.lstrip().startswith("{"):
            return False  # the block's own bracket, on a line of its own
        return _width(whole) < max(self._base or 0, self._floor) and not self._in_string()

    def _in_string(self) -> bool:
        """Whether the line that is read begins inside of a string of several lines."""
        return brackets.in_long_string(self._data["line"] + self._text[: self._start])

    def _unfinished(self) -> Stop | None:
        """A line that has begun left of the block ends it, unless it may be the closing one; so
        does one that is known by its beginning."""
        line = self._text[self._start :]
        begun = line.strip()
        if self._data["single"] or not begun:
            return None
        if self._dedents(line):
            return None if _may_close(begun) else Stop("dedent", self._shown_end)
        return self._meets(line if self._seen else self._data["line"] + line)


def _may_close(begun: str) -> bool:
    """Whether a line that begins like this may be one that only closes."""
    return begun[0] in ")]}<" or any(word.startswith(begun) for word in _CLOSING_WORDS)


def _opens(line: str) -> bool:
    """Whether what is below a line stands inside of it."""
    return opens_block(line) or line[-1:] in ("(", "[", "{")


def _closes(line: str) -> bool:
    """Whether a line only closes what is open around it."""
    core = line.rstrip(";,")
    tag = core.startswith("</") and " " not in core
    brackets_only = core and not core.strip(")]}")
    return bool(brackets_only or tag or line.rstrip(";") in _CLOSING_WORDS)


def _width(line: str) -> int:
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return len(blanks.expandtabs(_TAB))
