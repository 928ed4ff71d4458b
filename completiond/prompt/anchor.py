"""Where the text before the cursor is split: what stays, what was typed since, what is taken back.

Pure functions of text; knows no tokens. What is before the anchor, and the suffix behind it, stays
in the KV cache while the anchor stays; the typed part costs one or two new tokens a key.
"""

from typing import NamedTuple

TYPED_CHARS = 384
"""A longer line is split inside, so that what is encoded at each key stays short."""
HEALED_CHARS = 32
"""A very long word is taken back from a multiple of this on, so that its cut stays too."""

EDGE = 256
"""Characters by which the beginning of one window is found in another."""


class Split(NamedTuple):
    """The text before the cursor: prefix + typed + healed."""

    prefix: str
    typed: str
    healed: str


def split_at(before: str, anchor: int) -> Split:
    """The split with `before[:anchor]` as the prefix; what is taken back lies on the last line."""
    healed = taken_back(before[max(anchor, before.rfind("\n") + 1) :])
    end = len(before) - len(healed)
    return Split(before[:anchor], before[anchor:end], healed)


def end_of(kept: str, before: str) -> int | None:
    """Where `kept`, which an earlier window began with, ends in `before`; None if it is not there.

    The windows may begin at different places: then one begins somewhere inside the other.
    """
    if before.startswith(kept):
        return len(kept)
    inside = kept.find(before[:EDGE])
    if inside > 0 and len(before) >= EDGE and before.startswith(kept[inside:]):
        return len(kept) - inside
    inside = before.find(kept[:EDGE])
    if inside > 0 and len(kept) >= EDGE and before.startswith(kept, inside):
        return inside + len(kept)
    return None


def lines_up(before: str, lines: int) -> int | None:
    """The line start `lines` above the cursor's line, if as many lines are left above that."""
    at = before.rfind("\n")
    for _ in range(lines):
        if at < 0:
            return None
        at = before.rfind("\n", 0, at)
    return at + 1 if before.count("\n", 0, at + 1) >= lines else None


def line_anchor(before: str) -> int:
    """The start of the cursor's line, or a word start inside a very long one."""
    start = before.rfind("\n") + 1
    steps = (len(before) - start) // TYPED_CHARS
    if not steps:
        return start
    at = start + steps * TYPED_CHARS
    earliest = at - HEALED_CHARS
    while at > earliest and _in_word(before[at - 1]):
        at -= 1
    return at if at > earliest else start + steps * TYPED_CHARS


def taken_back(typed: str) -> str:
    """The unfinished word at the end, the run of signs before it, and the blanks before that; of an
    indentation only the last.

    A vocabulary writes `    if` as three blanks and ` if`, `.split` and `->` as one: behind four
    blanks the model would go on with a fifth, and behind `loop-` not with `>`.
    """
    at = len(typed)
    while at and _in_word(typed[at - 1]):
        at -= 1
    while at and not _in_word(typed[at - 1]) and not typed[at - 1].isspace():
        at -= 1
    stem = typed[:at].rstrip(" \t")
    healed = typed[len(stem) :] if stem else typed[max(0, at - 1) :]
    if len(healed) >= 2 * HEALED_CHARS:
        healed = healed[(len(healed) // HEALED_CHARS - 1) * HEALED_CHARS :]
    return healed


def _in_word(char: str) -> bool:
    return char == "$" or ("a" + char).isidentifier()
