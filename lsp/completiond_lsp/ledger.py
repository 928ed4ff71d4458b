"""What became of the answers that an editor got: shown, taken as a whole or in part, left.

Some editors tell, others are watched: text that comes in one edit and is the answer's beginning was
taken, and an edit that leaves its path rejects it. What is known already is not told again.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from completiond.protocol.messages import Feedback
from completiond_lsp.buffers import Ask, Item
from completiond_lsp.documents import Edit
from completiond_lsp.typed import line_feeds

REMEMBERED = 64
"""Answers whose fate may still be told."""
PAIRS = {"()", "[]", "{}", "<>", '""', "''", "``"}
"""What an editor puts in for one key."""


@dataclass(slots=True)
class Offer:
    """One answer: its texts as they were offered last, with the candidate and what was typed."""

    texts: dict[str, tuple[int, int]] = field(default_factory=dict)
    shown: bool = False
    taken: int = 0
    rejected: bool = False


class Ledger:
    """Of one editor. `tell` is called once for each thing that has become known."""

    def __init__(self, tell: Callable[[Feedback], None]) -> None:
        self._tell = tell
        self._offers: OrderedDict[int, Offer] = OrderedDict()

    def offered(self, ask: Ask, items: Sequence[Item], *, seen: bool) -> None:
        """These went to the editor; `seen`: as far as we know it draws the first one."""
        if not items:
            return
        offer = self._offers.setdefault(ask.id, Offer())
        typed = len(line_feeds(ask.typed.text))
        offer.texts = {item.text: (item.candidate, typed) for item in items}
        while len(self._offers) > REMEMBERED:
            self._offers.popitem(last=False)
        if seen:
            self.shown(ask.id)

    def shown(self, ident: int, text: str = "") -> None:
        offer = self._offers.get(ident)
        if offer is not None and not offer.shown:
            offer.shown = True
            self._tell(Feedback(ident, "shown", _place(offer, text)[0]))

    def accepted(self, ident: int, text: str = "") -> None:
        """`text` is what was taken, a beginning of what was offered; empty: all of the first."""
        offer = self._offers.get(ident)
        if offer is not None:
            candidate, characters = _place(offer, text)
            self._taken(ident, offer, candidate, characters)

    def rejected(self, ident: int, text: str = "") -> None:
        """Once, of an answer that was seen and of which nothing was taken."""
        offer = self._offers.get(ident)
        if offer is not None and offer.shown and not offer.taken and not offer.rejected:
            offer.rejected = True
            self._tell(Feedback(ident, "rejected", _place(offer, text)[0]))

    def saw(self, ask: Ask, edit: Edit) -> None:
        """An edit of the buffer where this answer is shown, before anything follows it."""
        offer, text = self._offers.get(ask.id), line_feeds(edit.text)
        if offer is None or edit.start != ask.typed.cursor or len(text) < 2 or text in PAIRS:
            return
        for index, candidate in enumerate(ask.candidates):
            if ask.typed.rest(line_feeds(candidate.text)).startswith(text):
                self._taken(ask.id, offer, index, len(line_feeds(ask.typed.text)) + len(text))
                return

    def _taken(self, ident: int, offer: Offer, candidate: int, characters: int) -> None:
        if characters > offer.taken:
            offer.taken = characters
            self._tell(Feedback(ident, "accepted", candidate, characters))


def _place(offer: Offer, text: str) -> tuple[int, int]:
    """The candidate that begins so, and how many of its characters that makes in all."""
    for offered, (candidate, typed) in offer.texts.items():
        if offered.startswith(text):
            return candidate, typed + len(text or offered)
    return 0, 0
