"""Texts of clients that wait to be tokens in a drafter's corpus, read in slices between passes.

Knows text, one vocabulary's encoder and a corpus; knows no passes. A slice takes a millisecond or
two, so that a key never waits for a file. What waits is bounded, per client and in all.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

SLICE = 2048
"""Characters that are encoded at once."""
LONGEST_TEXT = 200_000
"""Characters of a text that are read; a corpus holds no more of one."""
PART, MOST_PARTS = 2048, 32
"""Tokens that are handed over at once, as a document of their own, and such parts of a text."""
WAITING_TEXTS, WAITING_CLIENTS = 32, 8
"""Texts of one client that wait, and clients; the oldest go."""


class Texts(Protocol):
    """Where the tokens go: a corpus for each client."""

    def feed(self, client: str, document: str, ids: Sequence[int]) -> None: ...
    def forget(self, client: str, document: str | None = None) -> None: ...


@dataclass(slots=True)
class _Text:
    left: str
    ids: list[int] = field(default_factory=list)
    parts: int = 0


class Reading:
    """`encode` gives the ids of a text."""

    def __init__(self, encode: Callable[[str], Sequence[int]], texts: Texts) -> None:
        self._encode = encode
        self._texts = texts
        self._waiting: OrderedDict[str, OrderedDict[str, _Text]] = OrderedDict()

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def put(self, client: str, document: str, text: str) -> None:
        """Read `text` for this client when there is time, in place of an earlier version of it.

        What holds a NUL is no text, and is left out.
        """
        held = self._waiting.setdefault(client, OrderedDict())
        held.pop(document, None)
        held[document] = _Text("" if "\0" in text else text[:LONGEST_TEXT])
        if len(held) > WAITING_TEXTS:
            held.popitem(last=False)
        self._waiting.move_to_end(client)
        if len(self._waiting) > WAITING_CLIENTS:
            self._waiting.popitem(last=False)

    def forget(self, client: str) -> None:
        """Drop all that is known of a client, read or not."""
        self._waiting.pop(client, None)
        self._texts.forget(client)

    def slice(self) -> None:
        """One slice of the oldest text of the client that waits longest."""
        if not self._waiting:
            return
        client, held = next(iter(self._waiting.items()))
        self._waiting.move_to_end(client)
        document, text = next(iter(held.items()))
        here, text.left = _cut(text.left)
        text.ids += self._encode(here)
        if not text.left or len(text.ids) >= PART:
            self._hand_over(client, document, text)
        if not text.left or text.parts >= MOST_PARTS:
            for number in range(text.parts, MOST_PARTS):  # an earlier version was longer
                self._texts.forget(client, _part(document, number))
            del held[document]
            if not held:
                del self._waiting[client]

    def _hand_over(self, client: str, document: str, text: _Text) -> None:
        self._texts.feed(client, _part(document, text.parts), text.ids)
        text.ids, text.parts = [], text.parts + 1


def _part(document: str, number: int) -> str:
    return f"{document}\0{number}"


def _cut(text: str) -> tuple[str, str]:
    """The next slice, up to the end of a line where it has one, and the rest."""
    end = text.rfind("\n", 0, SLICE) + 1 or SLICE
    return (text, "") if len(text) <= SLICE else (text[:end], text[end:])
