"""One admitted request on its way to its answers, and what an answer depends on beside the text.

Knows requests, prompts and outcomes; starts nothing.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from completiond.core import Outcome, Sampling
from completiond.flight import Continued, Flight
from completiond.prompt.builder import Built
from completiond.sessions import Buffer, Ticket

WARM = 0.6
"""Least temperature of the second candidate and those after it: greedy has only one answer."""


class Answer(NamedTuple):
    """What one run says at a request's cursor: the text as it came, and as it may be shown."""

    raw: str
    shown: str
    reason: str
    outcome: Outcome

    def beside(self, lost: Outcome) -> "Answer":
        """The same, also paid for with a run that was waited for in vain."""
        passes, prefilled = self.outcome.passes + lost.passes, self.outcome.prefilled
        total = replace(self.outcome, passes=passes, prefilled=prefilled + lost.prefilled)
        return self._replace(outcome=total)


@dataclass(slots=True, eq=False)
class Work:
    """One admitted request on its way to its answers."""

    ticket: Ticket
    buffer: Buffer[Flight]
    max_tokens: int
    sampling: Sampling
    built: Built | None = None
    continued: Continued = field(init=False)
    prompt_ns: int = 0
    answers: list[Answer] = field(default_factory=list)


def key_of(work: Work, candidate: int) -> Hashable:
    """What an answer depends on beside the text around the cursor."""
    return settings_of(work, candidate), tuple(chunk.hash for chunk in work.ticket.chunks)


def settings_of(work: Work, candidate: int) -> tuple[Sampling, int]:
    asked = work.sampling
    if candidate:
        warm = asked.temperature or WARM
        asked = replace(asked, temperature=warm, seed=asked.seed + candidate)
    return asked, work.max_tokens
