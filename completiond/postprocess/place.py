"""The text around a cursor as the rules of post-processing look at it. Knows text only."""

from typing import NamedTuple


class Place(NamedTuple):
    """`line` and `rest` are the cursor's line before and after it; `above` and `below` the lines
    with something on them, in the buffer's order. `indent` is one level, if the editor said it."""

    before: str
    after: str
    line: str
    rest: str
    above: list[str]
    below: list[str]
    language: str = ""
    indent: str = ""


NEAR = 8_192
"""Characters before the cursor in which lines are looked at."""


def place(before: str, after: str, language: str = "", indent: str = "") -> Place:
    before, after = lf(before), lf(after)
    *above, line = before[-NEAR:].split("\n")
    rest, *below = after.split("\n")
    return Place(before, after, line, rest, _said(above), _said(below), language, indent)


def lf(text: str) -> str:
    """`text` with LF as its only line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _said(lines: list[str]) -> list[str]:
    return [line for line in lines if line.strip()]
