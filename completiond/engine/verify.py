"""Verification: which proposals the target keeps. Pure functions of tensors.

`match` follows tokens that the target drew itself and is lossless for every drafter; `reject` is
the rejection sampler of Leviathan et al. (arXiv:2211.17192) and Chen et al. (arXiv:2302.01318).
"""

from typing import NamedTuple

import torch
from torch import Tensor


def match(ids: Tensor, parents: Tensor, drawn: Tensor, above: Tensor) -> Tensor:
    """The accepted path, as node indices from the top down: [k].

    ids, parents: [n]; drawn: [n+1], the target's own token after the root and after each node;
    above: [n, n], row i holding node i and all above it. A node is kept if it and all above it
    equal the target's draw.
    """
    missed = ids != drawn[parents + 1]
    return torch.nonzero(~(above & missed).any(1)).squeeze(1)


class Rejection(NamedTuple):
    accepted: int
    residual: Tensor  # [V], the distribution of the next token


def reject(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """How many of a chain's drafts are accepted, and what the next token is drawn from.

    p: [γ+1, V] target, q: [γ, V] draft, both processed, q being what `ids` [γ] were sampled from;
    uniforms: [γ] in (0, 1). After γ acceptances the residual is p[γ]: the bonus token.
    """
    at = torch.arange(len(ids))
    n = int((uniforms * q[at, ids] < p[at, ids]).cumprod(0).sum())
    left = (p[n] - q[n]).clamp_min(0) if n < len(ids) else p[n]
    return Rejection(n, left / left.sum())
