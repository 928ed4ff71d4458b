"""The remainder of an earlier answer, as long as the run still follows it."""

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext

HOLDS = 0.9
"""Chance that the next token of an answer that held so far holds again."""


class Recycled:
    name = "recycled"

    def propose(self, context: DraftContext, budget: int) -> Draft:
        done = list(context.generated)
        if list(context.hint[: len(done)]) != done:
            return NO_DRAFT
        return Draft.chain(context.hint[len(done) : len(done) + budget], self.name, HOLDS)

    def observe(self, context: DraftContext, step: Step) -> None:
        pass  # the hint travels with the job
