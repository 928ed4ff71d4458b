"""What a pass is asked: the drafts of all its sequences, prepared before it, judged behind it.

Knows plans and tensors. Everything that the judgement needs but the logits is brought to the
device before the pass, and what comes of it is read once, for all sequences together.
"""

from collections.abc import Sequence as Ids
from typing import NamedTuple

import torch
from torch import Tensor

from completiond.core import Draft, Likely
from completiond.drafters.base import DraftContext
from completiond.engine import verify
from completiond.engine.sequence import Sequence
from completiond.model import sampling
from completiond.model.attention import Segment, ancestors
from completiond.model.drawing import Row, Rows, draw_rows

_WHOLE = 1 << 20
"""A share of 1: shares travel as whole numbers, with the ids."""


class Plan(NamedTuple):
    """A sequence's part of a pass: tokens that wait to be computed, then drafts."""

    sequence: Sequence
    context: DraftContext
    pending: Ids[int]
    draft: Draft
    segment: Segment


class Kept(NamedTuple):
    """Draft nodes that hold, top down, and the target's own token behind them.

    `drawn` is what the target says behind the root and each node; rejection sampling has none.
    `likely` are its likeliest tokens there, if they were asked for.
    """

    nodes: list[int]
    token: int
    drawn: tuple[int, ...] = ()
    likely: tuple[Likely, ...] = ()


class Trial:
    """The drafts of `plans`, before a target of `vocabulary` ids on `device`.

    `likely`: how many of the target's likeliest tokens are read behind each row.
    """

    def __init__(
        self, plans: Ids[Plan], vocabulary: int, device: torch.device, likely: int = 0
    ) -> None:
        self._plans = plans
        self._chains = [Chain(p, vocabulary, device) for p in plans if _by_chain(p)]
        matching = [p for p in plans if p.segment.logits and not _by_chain(p)]
        self._matching = Matching(matching, vocabulary, device, likely)

    def judge(self, logits: Ids[Tensor], rows: Tensor) -> list[Kept | None]:
        """From the logits of each plan, and the same in one piece [R, V]; None for a plan without.

        The only place of a pass that waits for the device.
        """
        if not len(rows):
            return [None] * len(self._plans)
        pairs = list(zip(self._plans, logits, strict=True))
        if self._chains:
            rows = torch.cat([lines for plan, lines in pairs if not _by_chain(plan)] or [rows[:0]])
        chained = [lines for plan, lines in pairs if _by_chain(plan)]
        found = [self._matching.judge(rows)]
        found += [c.judge(lines) for c, lines in zip(self._chains, chained, strict=True)]
        numbers = torch.cat(found).tolist()
        matched = iter(self._matching.read(numbers))
        ends = numbers[len(numbers) - 2 * len(self._chains) :]
        chains = iter([Kept(list(range(n)), t) for n, t in zip(ends[::2], ends[1::2], strict=True)])
        return [
            next(chains) if _by_chain(plan) else next(matched) if len(lines) else None
            for plan, lines in pairs
        ]


def _by_chain(plan: Plan) -> bool:
    return plan.draft.q is not None


class Matching:
    """Sample, then match: all sequences whose drafts are point masses, in one go."""

    def __init__(
        self, plans: Ids[Plan], vocabulary: int, device: torch.device, likely: int = 0
    ) -> None:
        self._drafts = [plan.draft for plan in plans]
        self._likely = min(likely, vocabulary)
        before: list[int] = []
        rows: list[Row] = []
        for plan in plans:
            before += [len(rows) + 1 + parent for parent in plan.draft.parents]
            rows += _rows(plan, vocabulary)
        ids = [token for draft in self._drafts for token in draft.ids]
        above = [ancestors(draft.parents, len(draft)) for draft in self._drafts]
        self._rows = Rows(rows, vocabulary, device)
        self._before = torch.tensor(before, dtype=torch.long, device=device)
        self._ids = torch.tensor(ids, dtype=torch.long, device=device)
        self._above = (above[0] if len(above) == 1 else torch.block_diag(*above).bool()).to(device)

    def judge(self, logits: Tensor) -> Tensor:
        """[R + n + 2RL] from logits [R, V]: the token behind each row, whether each node holds, and
        the L likeliest tokens behind each row with their shares."""
        drawn = self._rows.draw(logits)
        found = [drawn, verify.match(self._ids, self._before, drawn, self._above).long()]
        if self._likely and len(logits):
            best = logits.topk(self._likely)
            shares = best.values.float().softmax(-1) * _WHOLE
            found += [best.indices.flatten(), shares.flatten().long()]
        return torch.cat(found)

    def read(self, numbers: Ids[int]) -> list[Kept]:
        """What `judge` found, by sequence."""
        kept: list[Kept] = []
        rows = sum(len(draft) + 1 for draft in self._drafts)
        row, node = 0, rows
        likely = self._read_likely(numbers[rows + len(self._ids) :], rows)
        for draft in self._drafts:
            end = row + len(draft) + 1
            drawn, holds = numbers[row:end], numbers[node : node + len(draft)]
            nodes = [i for i, held in enumerate(holds) if held]
            last = drawn[nodes[-1] + 1 if nodes else 0]
            kept.append(Kept(nodes, last, tuple(drawn), tuple(likely[row:end])))
            row, node = end, node + len(draft)
        return kept

    def _read_likely(self, numbers: Ids[int], rows: int) -> list[Likely]:
        """By row; nothing where none were asked for."""
        n = self._likely
        if not n:
            return []
        ids, shares = numbers[: rows * n], [share / _WHOLE for share in numbers[rows * n :]]
        pairs = list(zip(ids, shares, strict=False))  # behind them other sequences' numbers follow
        return [tuple(pairs[i : i + n]) for i in range(0, rows * n, n)]


class Chain:
    """Rejection sampling: one sequence whose nodes were sampled from `draft.q`."""

    def __init__(self, plan: Plan, vocabulary: int, device: torch.device) -> None:
        assert plan.draft.is_chain, "the rejection sampler verifies chains"
        self._draft, self._how = plan.draft, plan.sequence.job.sampling
        rows = _rows(plan, vocabulary)
        self._rows = Rows(rows, vocabulary, device)
        self._positions = torch.tensor([row.position for row in rows], device=device)
        self._ids = torch.tensor(plan.draft.ids, device=device)

    def judge(self, logits: Tensor) -> Tensor:
        """[2] from logits [1 + γ, V]: how many nodes hold, and the token behind them."""
        processed = self._rows.processed(logits)
        p = sampling.probabilities(processed)
        q = torch.zeros_like(p[:-1])
        q[:, : self._draft.q.shape[1]] = self._draft.q
        here = torch.zeros_like(self._ids)
        seed, places = self._how.seed, self._positions
        uniforms = sampling.philox(seed, places[:-1], here, sampling.ACCEPT)
        n, residual = verify.reject(p, q, self._ids, uniforms)
        place = places.index_select(0, n[None])
        token = draw_rows(residual.log()[None], self._how, place, sampling.RESIDUAL)
        return torch.cat([n[None], token])


def _rows(plan: Plan, vocabulary: int) -> list[Row]:
    """The root's row and one per node: the position that each fills, and what may stand there."""
    job, mask, base = plan.sequence.job, plan.sequence.rules.mask, len(plan.context.ids)
    rows: list[Row] = []
    for path in _paths(plan.draft):
        allowed = mask.allowed([*plan.context.generated, *path]) if mask else None
        index = sampling.index_of(allowed, vocabulary)
        rows.append(Row(job.sampling, base + len(path), index))
    return rows


def _paths(draft: Draft) -> list[tuple[int, ...]]:
    """The ids from the root to each node; the empty path, the root's own, comes first."""
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        paths.append((*paths[parent + 1], token))
    return paths
