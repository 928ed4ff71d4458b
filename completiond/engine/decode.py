"""The decode loop's body: propose → forward → verify → keep → stop?

Knows sequences, drafters and one runner. Knows no text, no clients and no clock.
"""

from collections.abc import Sequence as Ids
from typing import NamedTuple

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.engine.sequence import Sequence
from completiond.engine.trial import Kept, Plan, Trial
from completiond.model.attention import Segment
from completiond.model.runner import Runner


class Turn(NamedTuple):
    """A sequence's share of the next pass, in rows: pending tokens first, then drafts."""

    sequence: Sequence
    rows: int


class Decoding:
    """Speculative decoding of packed sequences; the answer is the target's, whatever is drafted."""

    def __init__(self, runner: Runner, drafters: Ids[Drafter], draft_tokens: int) -> None:
        self.runner = runner
        self.drafters = drafters
        self._draft_tokens = draft_tokens

    def step(self, turns: Ids[Turn]) -> list[Step]:
        """One pass over all turns, one Step each."""
        plans = [self._propose(turn) for turn in turns]
        trial = Trial(plans, self.runner.vocab_size, self.runner.kv.device)
        logits, _, rows = self.runner.forward([plan.segment for plan in plans])
        verdicts = trial.judge(logits, rows)
        if not len(rows):
            self.runner.finish()
        return [self._commit(plan, kept) for plan, kept in zip(plans, verdicts, strict=True)]

    def _propose(self, turn: Turn) -> Plan:
        sequence = turn.sequence
        context = sequence.context()
        pending = sequence.pending[: turn.rows]
        if len(pending) < len(sequence.pending):
            segment = Segment(sequence.held, pending)  # a chunk of prefill: no logits yet
            return Plan(sequence, context, pending, NO_DRAFT, segment)
        # The last token that may still be drawn is the target's own, so drafts leave it room.
        width = max(self._draft_tokens, sequence.hinted)
        budget = min(turn.rows - len(pending), width, sequence.left - 1)
        draft = self._draft(context, budget) if budget > 0 else NO_DRAFT
        return Plan(sequence, context, pending, draft, _segment(sequence, pending, draft))

    def _draft(self, context: DraftContext, budget: int) -> Draft:
        """The first drafter that has something; later, several feed one tree."""
        for drafter in self.drafters:
            draft = drafter.propose(context, budget)
            if len(draft):
                return draft
        return NO_DRAFT

    def _commit(self, plan: Plan, kept: Kept | None) -> Step:
        sequence, draft = plan.sequence, plan.draft
        n = len(plan.pending)
        if kept is None:
            sequence.held.keep(plan.pending, range(n))
            return Step((), n)
        ids, reason = _until_stop(sequence, [draft.ids[i] for i in kept.nodes] + [kept.token])
        nodes = kept.nodes[: len(ids)]
        cached = [*plan.pending, *(draft.ids[i] for i in nodes)]
        sequence.held.keep(cached, [*range(n), *(n + i for i in nodes)])
        sequence.ids.extend(ids)
        accepted = _count(draft, nodes)
        drafted = _count(draft, range(len(draft)))
        step = Step(tuple(ids), n + len(draft), drafted, accepted, reason, draft)
        for drafter in self.drafters:
            drafter.observe(plan.context, step)
        return step


def _segment(sequence: Sequence, pending: Ids[int], draft: Draft) -> Segment:
    n = len(pending)
    parents = None
    if not draft.is_chain:
        parents = [*range(-1, n - 1), *(n + p if p >= 0 else n - 1 for p in draft.parents)]
    rows = range(n - 1, n + len(draft))
    return Segment(sequence.held, [*pending, *draft.ids], parents, rows)


def _until_stop(sequence: Sequence, ids: Ids[int]) -> tuple[list[int], str | None]:
    """`ids` up to and with the one that ends the run, and why it ends."""
    left = sequence.left
    for count, token in enumerate(ids, 1):
        reason = sequence.rules.stop.step((token,))
        if reason or count == left:
            return list(ids[:count]), reason or "length"
    return list(ids), None


def _count(draft: Draft, nodes: Ids[int]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for i in nodes:
        counts[draft.sources[i]] = counts.get(draft.sources[i], 0) + 1
    return counts
