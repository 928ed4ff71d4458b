"""The remainder of an earlier answer, also behind a place where the run went another way.

While the run follows the answer, its rest is drafted. After a deviation, the run's or one that was
typed, the last generated tokens are looked for in the answer, the longest match nearest to where
the run is, and it goes on there.
"""

from collections.abc import Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext

HOLDS = 0.9
"""Chance that the next token of an answer that held so far holds again."""
REALIGNED = (0.0, 0.4, 0.6, 0.7, 0.8)
"""The same behind a deviation, by the tokens that match again."""
LONGEST = 16
"""Tokens of a match that are told apart, and what is said of one that never broke."""


class Recycled:
    name = "recycled"

    def propose(self, context: DraftContext, budget: int) -> Draft:
        hint, done = list(context.hint), list(context.generated)
        if not hint or budget < 1:
            return NO_DRAFT
        at, matched = len(done), LONGEST
        if context.astray or hint[:at] != done:
            at, matched = realigned(hint, done)
        if not matched:
            return NO_DRAFT
        return self._chain(hint[at : at + budget], matched)

    def observe(self, context: DraftContext, step: Step) -> None:
        pass  # the hint travels with the job

    def _chain(self, ids: Sequence[int], matched: int) -> Draft:
        n, path, probs = len(ids), 1.0, []
        for depth in range(n):
            path *= holds(matched + depth)
            probs.append(path)
        held = tuple(min(LONGEST, matched + depth) for depth in range(n))
        return Draft(
            tuple(ids), tuple(range(-1, n - 1)), tuple(probs), (self.name,) * n, None, held
        )


def holds(matched: int) -> float:
    if matched >= LONGEST:
        return HOLDS
    return REALIGNED[min(matched, len(REALIGNED) - 1)]


def realigned(hint: Sequence[int], done: Sequence[int]) -> tuple[int, int]:
    """(index behind the match, its length) of the end of `done` in `hint`; (0, 0) without one."""
    best = (0, 0, 0)  # length, nearness, index
    for at in range(1, len(hint) + 1):
        n = 0
        while n < min(at, len(done), LONGEST - 1) and hint[at - 1 - n] == done[-1 - n]:
            n += 1
        best = max(best, (n, -abs(at - len(done)), at)) if n else best
    return best[2], best[0]
