"""How much of an accepted text is still in its document. Knows edits and text; no clock, no daemon.

The text is followed in pieces, as edits cut it. A formatter that replaces whole lines or the whole
document by a text that has a piece in it has kept that piece.
"""

from completiond_lsp.documents import Edit

SHORTEST = 4
"""Characters of a piece that is looked for in a replacement: shorter ones are anywhere."""


class Retained:
    """What is left of a text that was put in at `start`."""

    __slots__ = ("pieces",)

    def __init__(self, start: int, text: str) -> None:
        self.pieces: list[tuple[int, str]] = [(start, text)]

    @property
    def characters(self) -> int:
        return sum(len(text) for _, text in self.pieces)

    def add(self, start: int, text: str) -> None:
        """More of it was taken."""
        self.pieces.append((start, text))

    def follow(self, edit: Edit) -> None:
        """The document was edited so."""
        self.pieces = [piece for old in self.pieces for piece in _after(*old, edit)]


def _after(start: int, text: str, edit: Edit) -> list[tuple[int, str]]:
    end, removed = start + len(text), edit.start + edit.removed
    if edit.start >= end:
        return [(start, text)]
    if removed <= start:
        return [(start + len(edit.text) - edit.removed, text)]
    if edit.start <= start and removed >= end:
        at = _nearest(edit.text, text, start - edit.start)
        return [(edit.start + at, text)] if at >= 0 else []
    head, tail = text[: max(0, edit.start - start)], text[max(0, removed - start) :]
    pieces = [(start, head), (edit.start + len(edit.text), tail)]
    return [(at, piece) for at, piece in pieces if piece]


def _nearest(text: str, piece: str, at: int) -> int:
    """Where the piece is in the text, close to where it was; -1 if it is not."""
    if len(piece) < SHORTEST:
        return -1
    before, behind = text.rfind(piece, 0, at + len(piece)), text.find(piece, at)
    if before < 0 or behind < 0:
        return max(before, behind)
    return before if at - before <= behind - at else behind
