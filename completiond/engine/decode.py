"""The decode loop's body: propose → forward → verify → keep → stop?

Knows sequences, drafters and one runner. Knows no text, no clients and no clock.
"""

from collections.abc import Sequence as Ids
from typing import NamedTuple

import torch
from torch import Tensor

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.engine import verify
from completiond.engine.sequence import Sequence
from completiond.model import sampling
from completiond.model.attention import Segment, ancestors
from completiond.model.runner import Runner


class Turn(NamedTuple):
    """A sequence's share of the next pass, in rows: pending tokens first, then drafts."""

    sequence: Sequence
    rows: int


class Plan(NamedTuple):
    sequence: Sequence
    context: DraftContext
    pending: Ids[int]
    draft: Draft
    segment: Segment


class Kept(NamedTuple):
    """Draft nodes that hold, top down, and the target's own token behind them."""

    nodes: list[int]
    token: int


class Decoding:
    """Speculative decoding of packed sequences; the answer is the target's, whatever is drafted."""

    def __init__(self, runner: Runner, drafters: Ids[Drafter], draft_tokens: int) -> None:
        self.runner = runner
        self.drafters = drafters
        self._draft_tokens = draft_tokens

    def step(self, turns: Ids[Turn]) -> list[Step]:
        """One pass over all turns, one Step each."""
        plans = [self._propose(turn) for turn in turns]
        logits = self.runner.forward([plan.segment for plan in plans]).logits
        return [self._commit(plan, rows) for plan, rows in zip(plans, logits, strict=True)]

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

    def _commit(self, plan: Plan, logits: Tensor) -> Step:
        sequence, draft = plan.sequence, plan.draft
        n = len(plan.pending)
        if not len(logits):
            sequence.held.keep(plan.pending, range(n))
            return Step((), n)
        kept = self._verify(plan, logits)
        ids, reason = _until_stop(sequence, [draft.ids[i] for i in kept.nodes] + [kept.token])
        nodes = kept.nodes[: len(ids)]
        cached = [*plan.pending, *(draft.ids[i] for i in nodes)]
        sequence.held.keep(cached, [*range(n), *(n + i for i in nodes)])
        sequence.ids.extend(ids)
        accepted = _count(draft, nodes)
        drafted = _count(draft, range(len(draft)))
        step = Step(tuple(ids), n + len(draft), drafted, accepted, reason)
        for drafter in self.drafters:
            drafter.observe(plan.context, step)
        return step

    def _verify(self, plan: Plan, logits: Tensor) -> Kept:
        """logits [1 + nodes, V]: row 0 follows the last pending token, row i+1 draft node i."""
        draft = plan.draft
        paths = _paths(draft)
        processed = [
            self._process(plan, row, path) for row, path in zip(logits, paths, strict=True)
        ]
        if draft.q is not None:
            return _reject(plan, torch.stack(processed))
        base, job = len(plan.context.ids), plan.sequence.job
        drawn = [
            sampling.draw(row, job.sampling, base + len(path))
            for row, path in zip(processed, paths, strict=True)
        ]
        parents = torch.tensor(draft.parents, dtype=torch.long)
        above = ancestors(draft.parents, len(draft))
        ids = torch.tensor(draft.ids, dtype=torch.long)
        nodes: list[int] = verify.match(ids, parents, torch.tensor(drawn), above).tolist()
        return Kept(nodes, drawn[nodes[-1] + 1 if nodes else 0])

    def _process(self, plan: Plan, row: Tensor, path: Ids[int]) -> Tensor:
        """The distribution [V] behind `path`, a way from the last committed token to a node."""
        job, mask = plan.sequence.job, plan.sequence.rules.mask
        generated = [*plan.context.generated, *path] if mask else ()
        allowed = mask.allowed(generated) if mask else None
        return sampling.process(row, job.sampling, sampling.index_of(allowed, len(row)))


def _reject(plan: Plan, processed: Tensor) -> Kept:
    """A chain whose nodes were sampled from `draft.q`: [1 + γ, V] logits → what is kept."""
    draft, job, base = plan.draft, plan.sequence.job, len(plan.context.ids)
    assert draft.is_chain, "the rejection sampler verifies chains"
    p = sampling.probabilities(processed)
    q = torch.zeros_like(p[:-1])
    q[:, : draft.q.shape[1]] = draft.q
    ids = torch.tensor(draft.ids, device=p.device)
    here = torch.zeros(1, dtype=torch.long, device=p.device)
    uniforms = torch.cat(
        [
            sampling.philox(job.sampling.seed, base + i, here, sampling.ACCEPT)
            for i in range(len(ids))
        ]
    )
    n, residual = verify.reject(p, q, ids, uniforms)
    token = sampling.draw(residual.log(), job.sampling, base + n, sampling.RESIDUAL)
    return Kept(list(range(n)), token)


def _segment(sequence: Sequence, pending: Ids[int], draft: Draft) -> Segment:
    n = len(pending)
    parents = None
    if not draft.is_chain:
        parents = [*range(-1, n - 1), *(n + p if p >= 0 else n - 1 for p in draft.parents)]
    rows = range(n - 1, n + len(draft))
    return Segment(sequence.held, [*pending, *draft.ids], parents, rows)


def _paths(draft: Draft) -> list[tuple[int, ...]]:
    """The ids from the root to each node; the empty path, the root's own, comes first."""
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        paths.append((*paths[parent + 1], token))
    return paths


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
