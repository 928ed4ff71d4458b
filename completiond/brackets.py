"""Which brackets and quotes a piece of text opens and closes. Pure functions of text.

Knows little of languages: a quote opens a string until the same quote, or the line's end, closes
it. What editors close by themselves is guessed from this, and compared with what is there.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

PAIRS = {"(": ")", "[": "]", "{": "}"}
CLOSERS = ")]}\"'`"
"""What an editor may put right of the cursor when its partner is typed."""
REACH_BEFORE, REACH_AFTER = 8_192, 4_096
"""Characters in which open brackets are looked for."""
NO_BRACKETS = {
    "bat",
    "fish",
    "git-commit",
    "latex",
    "markdown",
    "plaintext",
    "restructuredtext",
    "sh",
    "shellscript",
    "tex",
    "text",
    "zsh",
}
"""Languages in which a bracket may be closed that nobody opened: `case` of a shell, prose."""
_EDGE = re.compile(r"^(?![#*/]|\w+:\s*$)[^\s)\]}]", re.MULTILINE)
"""A line at the left edge that begins something: no closer, no label, comment or directive."""
_NEXT_EDGE = re.compile(r"\n([^\s#*/])")
_ONE_LINE = "\"'"
_QUOTES = "\"'`"
_BRACKETS = frozenset(PAIRS.values())
_MARK = re.compile(r"\\.|\"\"\"|'''|[\"'`()\[\]{}\n]", re.DOTALL)
_APOSTROPHE = r"(?:(?<![\w&<])|(?<=\b[bBfFrRuULNEX])|(?<=\b[bBfFrRu][bBfFrR8]))'"
"""One that begins a string: no end of a name (`x'`), lifetime (`&'a`) or part of a number."""
_STRING = re.compile(
    rf"\\.|\"(?:[^\"\\\n]|\\.)*\"|{_APOSTROPHE}(?:[^'\\\n]|\\.)*'|`(?:[^`\\\n]|\\.)*`"
)

_BEGINS_LONG = re.compile(r"(?:[=(,:?+\[{}>]\s*|\breturn |\w)`")
"""A string of several lines in JavaScript and Go; elsewhere it may quote a word of a comment."""
_HEREDOC = re.compile(r"(?<![\w)\]])<<[<~-]?([\"']?)([A-Z_]{3,})\1(?=[\s),.;|>]|\Z)")
"""Begins a text of a shell, PHP, Perl or Ruby that goes on up to a line of that word."""
_BEGUN = re.compile(_STRING.pattern + rf"|(?:[\"`]|{_APOSTROPHE})(?:[^\\\n]|\\.)*\Z")
"""The same where the text still grows: the last one may have no end yet."""


class Balance(NamedTuple):
    """`closes`: closers of what was open before the text. `opens`: closers that it lacks, the
    innermost first."""

    closes: str
    opens: str


def balance(text: str, before: str = "") -> Balance:
    """What `text` closes and leaves open behind `before`, the beginning of its line."""
    stack: list[str] = []
    _read(before, stack)
    floor = len(stack)
    closes, floor = _read(text, stack, floor)
    return Balance(closes, "".join(reversed(stack[floor:])))


def _read(text: str, stack: list[str], floor: int = 0) -> tuple[str, int]:
    """Push and pop closers; what is popped below `floor` is returned, with the new floor."""
    closes = ""
    string = next((at for at, closer in enumerate(stack) if closer[0] in _QUOTES), -1)
    for found in _MARK.finditer(text):
        mark, keep = found[0], len(stack)
        if mark in PAIRS:
            stack.append(PAIRS[mark])
        elif mark == "\n":
            # A string in one line has ended, or was none: an apostrophe in a comment.
            keep = string if string >= 0 and stack[string] in _ONE_LINE else keep
        elif mark in _BRACKETS:
            keep -= bool(stack and stack[-1] == mark)
        elif mark[0] in _QUOTES and string < 0:
            string, keep = keep, keep + 1
            stack.append(mark)
        elif mark[0] in _QUOTES and stack[string] == mark:
            keep = string  # brackets in the string end with it
        if mark != "\n" and (keep < floor or (mark in _BRACKETS and not stack)):
            closes += mark
        if mark not in PAIRS:
            del stack[keep:]
            string = string if string < keep else -1
            floor = min(floor, keep)
    return closes, floor


def in_long_string(text: str) -> bool:
    """Whether a string of several lines is open at the end of a text."""
    opens = balance(text).opens
    return (
        '"""' in opens
        or "'''" in opens
        or ("`" in opens and bool(_BEGINS_LONG.search(text)))
        or in_heredoc(text)
    )


def in_heredoc(text: str) -> bool:
    """Whether a text that goes on up to a line of its own word has not come to it."""
    *_, last = [None, *_HEREDOC.finditer(text)]
    return last is not None and not re.search(rf"\n[ \t]*{last[2]}\b", text[last.end() :])


def strays(text: str, *, grows: bool = False) -> Iterator[int]:
    """Where brackets are closed that the text did not open; those in its strings do not count.

    `\\)` closes nothing but `\\(`: both are a pattern's. `\\(a, b)` is a function of Haskell.
    """
    opened: list[str] = []
    escaped = False
    for at, char in enumerate(blanked(text, grows=grows)):
        escape = "\\" if escaped else ""
        escaped = char == "\\" and not escaped
        if char in PAIRS:
            opened.append(escape + PAIRS[char])
        elif char in ")]}" and not (escape and opened[-1:] != [escape + char]):
            if not (opened and opened.pop()[-1] == char):
                opened.clear()
                yield at


def opened_at(code: str) -> int:
    """Where the bracket was opened that a text without strings ends with closing; else -1."""
    closer = code[-1:]
    opener = {")": "(", "]": "["}.get(closer)
    depth = 0
    for at in range(len(code) - 1, -1, -1) if opener else ():
        depth += (code[at] == closer) - (code[at] == opener)
        if not depth:
            return at
    return -1


def closed_at(text: str, closer: str) -> int | None:
    """Where a text that grows writes the closer of what is open around its beginning, if it has."""
    if closer in ")]}":
        return next((at for at in strays(text, grows=True) if text[at] == closer), None)
    found = re.search(rf"(?<!\\){closer}", text)
    return found.start() if found else None


def within(some: str, closers: str) -> bool:
    """Whether `some` are among `closers`, in their order: an editor does not write every one."""
    rest = iter(closers)
    return all(char in rest for char in some)


def first(closers: str) -> str:
    """The first of some closers; three quotes are one."""
    return closers[:3] if closers.startswith(('"""', "'''")) else closers[:1]


def blanked(text: str, *, grows: bool = False) -> str:
    """`text` with its string literals made of blanks: a bracket in them is no bracket."""
    strings = _BEGUN if grows else _STRING
    return strings.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    string = found[0]
    return string if string[0] == "\\" else " " * len(string)  # an escaped quote begins none


def closable(before: str, after: str, language: str = "") -> str | None:
    """The brackets that a text between the two may close, the innermost first.

    Those that are open before the cursor and not closed behind it, as far as the construct at the
    file's left edge reaches that the cursor is in. None where that cannot be told.
    """
    head = None if language in NO_BRACKETS else _construct(before)
    if head is None:
        return None
    opened = balance(head).opens
    if any(closer[0] in "\"'`" for closer in opened):
        return None  # in a string a bracket is none
    closed = "".join(c for c in balance(_rest_of_construct(after)).closes if c in ")]}")
    own = max(0, len(opened) - len(closed))
    fits = opened[own:] == closed[: len(opened) - own]
    return opened[:own] if fits else None


def _construct(before: str) -> str | None:
    """The text from the last line at the left edge that anything is inside of."""
    head = before[-REACH_BEFORE:]
    if len(before) > REACH_BEFORE:
        head = head.partition("\n")[2]  # a line that the window begins in is at no edge
    edges = [found.start() for found in _EDGE.finditer(head)]
    if edges:
        inside = head[edges[-1] :]
        body = inside.partition("\n")[2]
        if body.strip() or balance(inside).opens:
            return inside
    return head if len(before) <= REACH_BEFORE else None


def _rest_of_construct(after: str) -> str:
    """The text up to the first line at the left edge, with that one if it closes something."""
    tail = after[:REACH_AFTER]
    found = _NEXT_EDGE.search(tail)
    if found is None:
        return tail
    closes = found[1] in ")]}"
    end = tail.find("\n", found.end()) if closes else found.start()
    return tail if end < 0 else tail[:end]
