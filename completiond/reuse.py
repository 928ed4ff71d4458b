"""Answers from text that was already predicted: no prompt, no queue, no pass.

Keyed by the document's own text before the cursor (not by a prompt, whose window slides), with the
text after it compared too. So typing through an answer, going back and undoing find it again.
Knows snapshots and text; knows no models and no clients.
"""

import sys
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

from completiond.core import Snapshot
from completiond.moments import place, typed_since

KEPT = 24
"""Answers of one buffer that are remembered, the least lately used forgotten first."""
KEPT_BYTES = 1 << 20
"""What they may take together, windows included."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a finished run said at a moment of the buffer; `key` is what else it depends on.

    `counts` names what its first use is counted as, if that is of interest.
    """

    snapshot: Snapshot
    key: Hashable
    text: str
    reason: str
    counts: str = ""

    @property
    def bytes(self) -> int:
        texts = self.snapshot.before, self.snapshot.after, self.text
        return sum(map(sys.getsizeof, texts))


class Found(NamedTuple):
    """An earlier answer and what it still says behind the text that was typed since."""

    answer: Answered
    rest: str


class Answers:
    """The answers of one buffer."""

    def __init__(self, kept: int = KEPT, limit: int = KEPT_BYTES) -> None:
        self._kept = kept
        self._limit = limit
        self._answers: OrderedDict[tuple[str, str, Hashable], Answered] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def keep(self, answer: Answered) -> None:
        """Remember an answer, also that there is none; a later one at its place replaces it."""
        self._forget(_name(answer))
        self._answers[_name(answer)] = answer
        self.bytes += answer.bytes
        while len(self._answers) > self._kept or self.bytes > self._limit:
            self._forget(next(iter(self._answers)))

    def find(self, now: Snapshot, key: Hashable) -> Found | None:
        """The answer that was made nearest to the cursor and still holds there, or None.

        One that says nothing more holds at its own moment only.
        """
        best: Found | None = None
        for answer in self._answers.values():
            rest = _rest(answer, now) if answer.key == key else None
            if rest is None or not (rest.strip() or made_at(answer, now)):
                continue
            if best is None or place(answer.snapshot) >= place(best.answer.snapshot):
                best = Found(answer, rest)
        return best

    def use(self, answer: Answered) -> str:
        """It answered a request: it is forgotten last. What that counts as, the first time."""
        name = _name(answer)
        kept = self._answers.get(name)
        if kept is None:
            return ""
        self._answers[name] = replace(kept, counts="")
        self._answers.move_to_end(name)
        return kept.counts

    def clear(self) -> None:
        self._answers.clear()
        self.bytes = 0

    def _forget(self, name: tuple[str, str, Hashable]) -> None:
        answer = self._answers.pop(name, None)
        self.bytes -= answer.bytes if answer is not None else 0


def remainder(text: str, typed: str) -> str | None:
    """What a prediction still says after the typed part: empty as long as it has not got there.

    None if it contradicts what was typed.
    """
    if text.startswith(typed):
        return text[len(typed) :]
    return "" if typed.startswith(text) else None


def made_at(answer: Answered, now: Snapshot) -> bool:
    """Whether the answer was made for this very text, so that asking again tells nothing new."""
    at = answer.snapshot
    return (at.before, at.after, at.offset) == (now.before, now.after, now.offset)


def _name(answer: Answered) -> tuple[str, str, Hashable]:
    return answer.snapshot.before, answer.snapshot.after, answer.key


def _rest(answer: Answered, now: Snapshot) -> str | None:
    typed = typed_since(answer.snapshot, now)
    if typed is None:
        return None
    # Models write LF whatever the buffer's line ends are.
    return remainder(answer.text, typed.replace("\r\n", "\n"))
