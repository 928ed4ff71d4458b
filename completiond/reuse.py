"""Answers from text that was already predicted: no prompt, no queue, no pass.

Keyed by the document's own text before the cursor (not by a prompt, whose window slides), with the
text after it compared exactly. So typing through an answer, going back and undoing find it again.
Knows snapshots and text; knows no models and no clients.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from completiond.core import Snapshot

KEPT = 24
"""Answers of one buffer that are remembered, the least lately used forgotten first."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a finished run said at a moment of the buffer; `key` is what else it depends on."""

    snapshot: Snapshot
    key: Hashable
    text: str
    reason: str


class Found(NamedTuple):
    """An earlier answer and what it still says behind the text that was typed since."""

    answer: Answered
    rest: str


class Answers:
    """The answers of one buffer."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._answers: OrderedDict[tuple[str, str, Hashable], Answered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def keep(self, answer: Answered) -> None:
        """Remember an answer that says something; a later one at the same place replaces it."""
        if not answer.text.strip():
            return
        place = (answer.snapshot.before, answer.snapshot.after, answer.key)
        self._answers[place] = answer
        self._answers.move_to_end(place)
        if len(self._answers) > self._kept:
            self._answers.popitem(last=False)

    def find(self, now: Snapshot, key: Hashable) -> Found | None:
        """The answer that was made nearest to the cursor and still holds there, or None."""
        best: Found | None = None
        for answer in self._answers.values():
            rest = _rest(answer, now) if answer.key == key else None
            if rest and (best is None or _made_at(answer) >= _made_at(best.answer)):
                best = Found(answer, rest)
        if best is not None:
            at = best.answer.snapshot
            self._answers.move_to_end((at.before, at.after, key))
        return best


def typed_since(old: Snapshot, new: Snapshot) -> str | None:
    """What was typed forward between two moments of a buffer; None if it changed otherwise."""
    if same_around(old, new) and new.before.startswith(old.before):
        return new.before[len(old.before) :]
    return None


def same_around(old: Snapshot, new: Snapshot) -> bool:
    """Whether only the window's text before the cursor may differ between two moments."""
    same_window = old.offset == new.offset and old.prefix_hash == new.prefix_hash
    return same_window and old.document == new.document and old.after == new.after


def remainder(text: str, typed: str) -> str | None:
    """What a prediction still says after the typed part: empty as long as it has not got there.

    None if it contradicts what was typed.
    """
    if text.startswith(typed):
        return text[len(typed) :]
    return "" if typed.startswith(text) else None


def _rest(answer: Answered, now: Snapshot) -> str | None:
    typed = typed_since(answer.snapshot, now)
    if typed is None:
        return None
    # Models write LF whatever the buffer's line ends are.
    return remainder(answer.text, typed.replace("\r\n", "\n"))


def _made_at(answer: Answered) -> int:
    return len(answer.snapshot.before)
