"""All drafters of an engine behind one call: asked as the policy wants, merged, cut, told.

Knows drafters, one policy and a clock; knows no model and no slots. What it needs of a pass is in
Step: the tree that was verified, and what was kept of it.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.planner import Policy
from completiond.drafters.recycled import Recycled
from completiond.drafters.tree import merge

HINTED = Recycled.name
"""The drafter whose drafts are the run's hint."""
OPEN = 64
"""Runs whose drafts may be under way; one whose pass failed is never told, and forgotten."""


class Drafting:
    """`drafters`, cheap ones first: of equal guesses the first one's name is kept."""

    def __init__(self, drafters: Sequence[Drafter], policy: Policy) -> None:
        self.drafters = drafters
        self.policy = policy
        self.spent_ms = 0.0  # in all, so that what a pass takes can be told from it
        self._spent: OrderedDict[str, dict[str, float]] = OrderedDict()

    @property
    def names(self) -> list[str]:
        return [drafter.name for drafter in self.drafters]

    def whole(self, context: DraftContext, budget: int) -> Draft:
        """The hint as it is, which no policy cuts: one that holds is verified in one pass."""
        spent = self._begin(context.buffer)
        for drafter in self.drafters:
            if drafter.name == HINTED:
                return self._asked(drafter, context, budget, spent)
        return NO_DRAFT

    def propose(self, context: DraftContext, budget: int, rows: int) -> Draft:
        """At most `budget` nodes for a pass that has `rows` without them."""
        spent = self._begin(context.buffer)
        found: list[Draft] = []
        for drafter in self.drafters if budget > 0 else ():
            wanted = self.policy.budget(context.client, drafter.name, budget, found)
            if wanted < 1:
                continue
            draft = self._asked(drafter, context, wanted, spent)
            if draft.q is not None and not found:
                return draft  # what was sampled is verified whole and alone
            if len(draft) and draft.q is None:
                found.append(draft)
        if not found:
            return NO_DRAFT
        return self.policy.choose(context.client, merge(found, budget), rows)

    def observe(self, context: DraftContext, step: Step) -> None:
        for drafter in self.drafters:
            drafter.observe(context, step)
        self.policy.observe(context.client, step, self._spent.pop(context.buffer, {}))

    def _asked(
        self, drafter: Drafter, context: DraftContext, wanted: int, spent: dict[str, float]
    ) -> Draft:
        started = time.perf_counter()
        draft = drafter.propose(context, wanted)
        spent[drafter.name] = (time.perf_counter() - started) * 1000
        self.spent_ms += spent[drafter.name]
        return draft

    def _begin(self, buffer: str) -> dict[str, float]:
        spent: dict[str, float] = {}
        self._spent[buffer] = spent
        if len(self._spent) > OPEN:
            self._spent.popitem(last=False)
        return spent
