"""Verification: which proposals the target keeps. Pure functions of tensors that never wait.

`match` follows tokens that the target drew itself and is lossless for every drafter; `reject` is
the rejection sampler of Leviathan et al. (arXiv:2211.17192) and Chen et al. (arXiv:2302.01318).
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


def match(ids: Tensor, before: Tensor, drawn: Tensor, above: Tensor) -> Tensor:
    """Which nodes are on the accepted path: [n] bool.

    ids, before: [n], a node's token and the row that it continues; drawn: [R], the target's own
    token behind each row; above: [n, n], row i holding node i and all above it. A node is kept if
    it and all above it equal the target's draw.
    """
    missed = ids != drawn[before]
    return ~(above & missed).any(1)


class Rejection(NamedTuple):
    accepted: Tensor  # a number
    residual: Tensor  # [V], the distribution of the next token


def reject(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """How many of a chain's drafts are accepted, and what the next token is drawn from.

    p: [γ+1, V] target, q: [γ, V] draft, both processed, q being what `ids` [γ] were sampled from;
    uniforms: [γ] in (0, 1). After γ acceptances the residual is p[γ]: the bonus token.
    """
    at = torch.arange(len(ids), device=ids.device)
    n = (uniforms * q[at, ids] < p[at, ids]).cumprod(0).sum()
    left = p.index_select(0, n[None]) - pad(q, (0, 0, 0, 1)).index_select(0, n[None])
    left = left[0].clamp_min(0)  # behind the last draft q is 0 and the residual p's own
    return Rejection(n, left / left.sum())
