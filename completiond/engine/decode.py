"""The decode loop's body: propose → forward → verify → keep → stop?

Knows sequences, drafters and one runner. Knows no text, no clients and no clock.
"""

from collections.abc import Sequence as Ids
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.drafting import Drafting
from completiond.drafters.guarded import Guarded
from completiond.drafters.planner import Policy
from completiond.drafters.policies import FixedK
from completiond.drafters.token_recycling import LIKELIEST, TokenRecycling
from completiond.drafters.tree import pre_order
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

    def __init__(
        self,
        runner: Runner,
        drafters: Ids[Drafter],
        draft_tokens: int,
        policy: Policy | None = None,
    ) -> None:
        self.runner = runner
        self.draft_tokens = draft_tokens
        # Not `or`: a planner that knows no client yet is empty, and empty is false.
        self._policy = policy if policy is not None else FixedK(draft_tokens)
        self.use(drafters)

    @property
    def drafters(self) -> Ids[Drafter]:
        return self._drafters

    def use(self, drafters: Ids[Drafter], policy: Policy | None = None) -> None:
        """Draft by these from now on, and choose by `policy` instead of the engine's own."""
        self._drafters = drafters
        learns = any(drafter.name == TokenRecycling.name for drafter in drafters)
        self._likely = LIKELIEST if learns else 0
        guarded = [Guarded(drafter, self.runner.vocab_size) for drafter in drafters]
        self.drafting = Drafting(guarded, policy if policy is not None else self._policy)

    def step(self, turns: Ids[Turn]) -> list[Step]:
        """One pass over all turns, one Step each."""
        plans = self._plans(turns)
        trial = Trial(plans, self.runner.vocab_size, self.runner.kv.device, self._likely)
        logits, _, rows = self.runner.forward([plan.segment for plan in plans])
        verdicts = trial.judge(logits, rows)
        if not len(rows):
            self.runner.finish()
        judged = zip(plans, verdicts, logits, strict=True)
        return [self._commit(plan, kept, lines) for plan, kept, lines in judged]

    def _plans(self, turns: Ids[Turn]) -> list[Plan]:
        """Each turn's part, drafted for what the whole pass has by then."""
        plans: list[Plan] = []
        rows = sum(min(turn.rows, len(turn.sequence.pending)) for turn in turns)
        for turn in turns:
            plans.append(self._plan(turn, rows))
            rows += len(plans[-1].draft)
        return plans

    def _plan(self, turn: Turn, rows: int) -> Plan:
        sequence = turn.sequence
        context = sequence.context()
        pending = sequence.pending[: turn.rows]
        if len(pending) < len(sequence.pending):
            segment = Segment(sequence.held, pending)  # a chunk of prefill: no logits yet
            return Plan(sequence, context, pending, NO_DRAFT, segment)
        draft = pre_order(self._draft(turn, context, rows))
        return Plan(sequence, context, pending, draft, _segment(sequence, pending, draft))

    def _draft(self, turn: Turn, context: DraftContext, rows: int) -> Draft:
        """A hint that no policy cuts, in the first pass; otherwise what the drafters agree on."""
        sequence = turn.sequence
        # The last token that may still be drawn is the target's own, so drafts leave it room.
        room = min(turn.rows - len(sequence.pending), sequence.left - 1)
        if sequence.hinted and room > 0:
            hint = self.drafting.whole(context, min(room, sequence.hinted))
            if len(hint):
                return hint
        return self.drafting.propose(context, min(room, self.draft_tokens), rows)

    def _commit(self, plan: Plan, kept: Kept | None, logits: Tensor) -> Step:
        """Keep what holds; logits [1 + nodes, V] of the last token kept and of each node."""
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
        rows = n + len(draft)
        step = Step(tuple(ids), rows, drafted, accepted, reason, draft, kept.drawn, kept.likely)
        if sequence.job.scored:
            lines_of = [0, *(node + 1 for node in kept.nodes)][: len(ids)]
            step = replace(step, logprob=_logprob(logits[lines_of], ids))
        self.drafting.observe(plan.context, step)
        return step


def _logprob(logits: Tensor, ids: Ids[int]) -> float:
    """Of ids [N] under logits [N, V], before any mask or temperature."""
    chosen = torch.tensor(ids, device=logits.device)[:, None]
    return float(logits.float().log_softmax(-1).gather(1, chosen).sum())


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
