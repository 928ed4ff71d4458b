"""A drafter that may fail: its failure costs its drafts, never the answer.

What it proposes is checked where a wrong tree would break the pass; the first failure is logged
once and ends its service.
"""

import logging
from collections.abc import Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter

log = logging.getLogger(__name__)
DROPPED = "The drafter %s %s and is not asked again; answers stay the same."


class Guarded:
    """`drafter`, until it raises or proposes what is no tree of ids below `vocab_size`."""

    def __init__(self, drafter: Drafter, vocab_size: int) -> None:
        self.name = drafter.name
        self.dropped = False
        self._drafter = drafter
        self._vocab_size = vocab_size

    def propose(self, context: DraftContext, budget: int) -> Draft:
        if self.dropped:
            return NO_DRAFT
        try:
            draft = self._drafter.propose(context, budget)
            wrong = fault(draft, budget, self._vocab_size)
        except Exception:
            log.exception(DROPPED, self.name, "raised an error")
            self.dropped = True
            return NO_DRAFT
        if wrong:
            log.error(DROPPED, self.name, wrong)
            self.dropped = True
        return NO_DRAFT if wrong else draft

    def observe(self, context: DraftContext, step: Step) -> None:
        if self.dropped:
            return
        try:
            self._drafter.observe(context, step)
        except Exception:
            log.exception(DROPPED, self.name, "raised an error")
            self.dropped = True


def fault(draft: Draft, budget: int, vocab_size: int) -> str:
    """What is wrong with a draft's shape; empty if nothing is."""
    n = len(draft)
    if any(len(part) != n for part in (draft.parents, draft.probs, draft.sources)):
        return "proposed nodes without all of their parts"
    if draft.matched and len(draft.matched) != n:
        return "proposed nodes without all of their parts"
    if n > max(0, budget):
        return f"proposed {n} nodes where {budget} were asked for"
    return "proposed what is no tree" if not is_tree(draft) else _outside(draft.ids, vocab_size)


def is_tree(draft: Draft) -> bool:
    """Whether parents come before their children, and siblings differ."""
    edges = set(zip(draft.parents, draft.ids, strict=True))
    return len(edges) == len(draft) and all(-1 <= p < i for i, p in enumerate(draft.parents))


def _outside(ids: Sequence[int], vocab_size: int) -> str:
    return "" if all(0 <= i < vocab_size for i in ids) else "proposed ids outside the vocabulary"
