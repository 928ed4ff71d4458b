"""Python's functions without what stands in them, for a tree of what a text defines.

What a function defines is nobody else's, and most of a text stands in functions: building a tree of
the rest is several times faster. Knows lines and indentation, and keeps the number of every line;
where it is not plain that a body ends where its lines do, the body stays.
"""

import re

_FUNCTION = re.compile(  # a head of one line, and up to the last line that stands deeper
    r"^(?P<head>(?P<indent> *)(?:async +)?def [^\n]*:[ \t]*\n)"
    r"(?P<body>(?:(?:[ \t]*+(?:#[^\n]*+)?\n)*(?P=indent) [ \t]*[^\s][^\n]*+(?:\n|\Z))+)",
    re.MULTILINE | re.ASCII,
)
_LEAST = 3
"""Lines of a body that is worth it."""
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_QUOTES = ('"""', "'''")


def emptied(text: str) -> str:
    """`text` with a `pass` on the last lines of functions, and nothing on the lines before it."""
    return text if "\n\t" in text or "\f" in text else _FUNCTION.sub(_empty, text)


def _empty(found: re.Match[str]) -> str:
    body = found["body"].rstrip()
    lines = body.count("\n")
    if lines + 1 < _LEAST or not _is_plain(body):
        return found.group()
    return found["head"] + "\n" * lines + found["indent"] + " pass\n"


def _is_plain(body: str) -> bool:
    """Whether no text, no bracket and no statement goes on behind the body's last line."""
    if body[body.rfind("\n") + 1 :].lstrip().startswith("#") or body.endswith("\\"):
        return False
    closed = all(body.count(opens) == body.count(closes) for opens, closes in _PAIRS)
    return closed and not any(body.count(mark) % 2 for mark in _QUOTES)
