"""Rejection sampling where several drafts were drawn behind one row. Pure functions of tensors.

`reject_draws` verifies k independent draws, as SpecInfer does (Miao et al., arXiv:2305.09781);
`reject_distinct` draws without replacement, as Sequoia does (Chen et al., arXiv:2402.12374); with
one draw both are `verify.reject`. `reject_tree` walks a whole tree by either. Nothing waits.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from completiond.engine.verify import Rejection

Siblings = Callable[[Tensor, Tensor, Tensor, Tensor], Rejection]


def reject_draws(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """Which of `ids` [k], each drawn from q [V], is kept (k: none), and what follows if none is.

    p: [V] target, both processed; uniforms: [k] in (0, 1). Behind a rejection the target is what
    p has over q: a draw that repeats a rejected one meets a target without it.
    """
    kept = []
    for token, uniform in zip(ids, uniforms, strict=True):
        kept.append(uniform * q[token] < p[token])
        p = _normed((p - q).clamp_min(0), p)
    return Rejection(_first(kept), p)


def reject_distinct(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """The same for `ids` drawn from q one after the other, each without those before it."""
    kept = []
    for token, uniform in zip(ids, uniforms, strict=True):
        kept.append(uniform * q[token] < p[token])
        p = _normed((p - q).clamp_min(0), p)
        q = _normed(q.index_fill(0, token, 0), q)
    return Rejection(_first(kept), p)


def reject_tree(
    p: Tensor,
    q: Tensor,
    ids: Tensor,
    uniforms: Tensor,
    *,
    parents: Sequence[int],
    above: Tensor,
    siblings: Siblings,
) -> tuple[Tensor, Tensor]:
    """Which nodes of a drawn tree are kept [n] bool, and the law [V] of the token behind them.

    p: [1 + n, V], the root's row first; q: the same, what a row's children were drawn from;
    ids, uniforms: [n]; above: [n, n], row i holding node i and all above it, as for `match`.
    A row's children stand in the order in which they were drawn.
    """
    chosen = torch.zeros_like(ids, dtype=torch.bool)
    laws = []
    for row in range(len(p)):
        children = [node for node, parent in enumerate(parents) if parent == row - 1]
        found = siblings(p[row], q[row], ids[children], uniforms[children])
        for place, node in enumerate(children):
            chosen[node] = found.accepted == place
        laws.append(found.residual)
    kept = ~(above & ~chosen).any(1)
    # One node a level is kept and levels have no gaps, so the last row is the deepest node's.
    depth = above.sum(1) * kept
    last = torch.cat([depth.new_zeros(1), depth]).argmax()
    return kept, torch.stack(laws).index_select(0, last[None])[0]


def _first(kept: list[Tensor]) -> Tensor:
    """How many are rejected before the first that is kept."""
    return (~torch.stack(kept)).cumprod(0).sum() if kept else torch.tensor(0)


def _normed(left: Tensor, before: Tensor) -> Tensor:
    """`left` as a distribution; where nothing is left the draw was kept, and none follows."""
    total = left.sum()
    return torch.where(total > 0, left / total, before)
