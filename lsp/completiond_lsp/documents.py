"""An open document, line by line. Knows LSP's line ends and encodings, nothing else of LSP.

Lines end at `\\n`, `\\r\\n` and `\\r` only; a form feed or U+2028 is a character like any other.
Offsets are code points. A position that does not exist is clamped: past a line to the line's end,
past the document to its end, inside a character to the character's start.
"""

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Literal, NamedTuple

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_AFTER_CR = re.compile(r"(?<=\r)(?!\n)")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Position(NamedTuple):
    """A line and a column counted in units of the negotiated encoding, both from 0."""

    line: int
    character: int


class Edit(NamedTuple):
    """`removed` code points at offset `start` gave way to `text`."""

    start: int
    removed: int
    text: str


class Document:
    """The text of one buffer; an edit costs what the edited lines cost, not what the file costs."""

    __slots__ = (
        "_lines",
        "_starts",
        "_surrogates",
        "_text",
        "encoding",
        "language",
        "uri",
        "version",
    )

    def __init__(
        self, uri: str, text: str, *, version: int = 0, language: str = "", encoding: Encoding
    ) -> None:
        self.uri = uri
        self.version = version
        self.language = language
        self.encoding = encoding
        self.replace(text)

    def replace(self, text: str) -> None:
        """Take `text` as the whole document."""
        self._surrogates = _SURROGATE.search(text) is not None
        self._lines = _split(_join_pairs(text) if self._surrogates else text)
        self._starts = [0]  # offsets of the first lines, as far as they have been needed
        self._text: str | None = None

    def change(self, start: Position, end: Position, text: str) -> Edit:
        """Replace what lies between the two positions, in either order, by `text`."""
        (first, left), (last, right) = sorted((self._place(start), self._place(end)))
        begin, finish = self._start(first) + left, self._start(last) + right
        head, tail = self._lines[first][:left], self._lines[last][right:]
        if left == 0 and first > 0 and self._lines[first - 1].endswith("\r"):
            first -= 1  # a line feed that comes to stand after this one belongs to it
            head = self._lines[first]
        self._surrogates = self._surrogates or _SURROGATE.search(text) is not None
        piece = head + text + tail
        lines = _split(_join_pairs(piece) if self._surrogates else piece)
        if last + 1 < len(self._lines):
            lines.pop()  # the piece ends with a line end: the next line follows it already
        self._lines[first : last + 1] = lines
        del self._starts[first + 1 :]
        self._text = None
        return Edit(begin, finish - begin, text)

    @property
    def text(self) -> str:
        """All of it as valid Unicode: a lone surrogate reads as U+FFFD, which keeps offsets."""
        if self._text is None:
            text = "".join(self._lines)
            self._text = _SURROGATE.sub("\ufffd", text) if self._surrogates else text
        return self._text

    @property
    def line_end(self) -> str:
        """The one of its first line; of a single line, a line feed."""
        first = self._lines[0]
        return first[len(first.rstrip("\r\n")) :] or "\n"

    def offset_at(self, position: Position) -> int:
        line, column = self._place(position)
        return self._start(line) + column

    def position_at(self, offset: int) -> Position:
        """Where code point `offset` lies; between a CR and its LF is the end of the line."""
        self._start(len(self._lines) - 1)
        line = bisect_right(self._starts, max(0, offset)) - 1
        content = self._lines[line].rstrip("\r\n")
        return Position(line, units(content[: max(0, offset - self._starts[line])], self.encoding))

    def line_around(self, offset: int) -> tuple[str, str]:
        """The line of `offset` before and after it, without the line's end."""
        line = self.position_at(offset).line
        content = self._lines[line].rstrip("\r\n")
        column = offset - self._starts[line]
        return content[:column], content[column:]

    def _place(self, position: Position) -> tuple[int, int]:
        """The line and the column in code points, clamped."""
        last = len(self._lines) - 1
        if position.line > last:
            return last, len(self._lines[last])
        content = self._lines[max(0, position.line)].rstrip("\r\n")
        return max(0, position.line), _column(content, max(0, position.character), self.encoding)

    def _start(self, line: int) -> int:
        """The offset of a line; what is known from before the last edit is not counted again."""
        known = self._starts
        if line >= len(known):
            lengths = map(len, self._lines[len(known) - 1 : line])
            known += accumulate(lengths, initial=known.pop())
        return known[line]


def _split(text: str) -> list[str]:
    """The lines with their ends; the last one has none and may be empty."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    if "\r" in text:
        lines = [part for line in lines for part in _AFTER_CR.split(line)]
    return lines


def _join_pairs(text: str) -> str:
    """A high surrogate followed by a low one is one character, however they came together."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def units(text: str, encoding: Encoding) -> int:
    """How many units of a position's column `text` takes."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _column(content: str, character: int, encoding: Encoding) -> int:
    """How many code points of a line lie in front of unit `character`."""
    head = content[:character]  # a code point has at least one unit
    if encoding == "utf-32" or head.isascii():
        return len(head)
    if encoding == "utf-8":
        data = head.encode("utf-8", "surrogatepass")
        while character < len(data) and data[character] & 0xC0 == 0x80:
            character -= 1
        return len(data[:character].decode("utf-8", "surrogatepass"))
    data = head.encode("utf-16-le", "surrogatepass")
    cut = 2 * character
    if _is(data, cut - 2, 0xD8) and _is(data, cut, 0xDC):
        cut -= 2
    return len(data[:cut].decode("utf-16-le", "surrogatepass"))


def _is(data: bytes, at: int, kind: int) -> bool:
    """Whether the UTF-16 unit at byte `at` is a high (0xD8) or a low (0xDC) surrogate."""
    return 0 <= at < len(data) and data[at + 1] & 0xFC == kind
