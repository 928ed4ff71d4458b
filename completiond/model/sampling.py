"""From logits to tokens. Knows tensors only.

Noise comes from Philox4x32-10 (Salmon et al., SC'11), a counter-based generator: it depends on
(seed, position, token id, stream) and on nothing else, so a token that is drawn at a position is
the same whether it was drafted, verified in a tree or decoded plainly.
"""

from array import array
from collections.abc import Sequence

import torch
from torch import Tensor

from completiond.core import Sampling

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF

COLDEST = 1e-30
"""Colder than any difference of logits; what is smaller may be 0 in their precision."""
DRAW, ACCEPT, RESIDUAL = 0, 1, 2
"""Streams: the token at a position, the acceptance test of a draft, the draw from a residual."""


def philox(seed: int, position: int | Tensor, ids: Tensor, stream: int = DRAW) -> Tensor:
    """Uniform doubles in (0, 1), one per id: [K] int64 → [K] float64.

    Positions may be a tensor that broadcasts with the ids: [R, 1] gives [R, K].
    """
    c0 = ids.to(torch.int64) & _LOW
    c1, c2 = (
        torch.full_like(c0, half) if isinstance(half, int) else half
        for half in (position & _LOW, position >> 32 & _LOW)
    )
    c3 = torch.full_like(c0, stream)
    k0, k1 = seed & _LOW, (seed >> 32) & _LOW
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            (p1 >> 32 & _LOW) ^ c1 ^ k0,
            p1 & _LOW,
            (p0 >> 32 & _LOW) ^ c3 ^ k1,
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return (c0.double() + 0.5) / 2.0**32


def index_of(allowed: Sequence[int] | None, vocabulary: int) -> Tensor | None:
    """A mask's ids as [K] int64, without those at or over `vocabulary`; None where all may be."""
    if allowed is None:
        return None
    if isinstance(allowed, array) and len(allowed):
        ids = torch.frombuffer(allowed, dtype=torch.int64)  # thousands of ids: no copy
    else:
        ids = torch.tensor(list(allowed), dtype=torch.int64)
    return ids[ids < vocabulary]


def process(logits: Tensor, sampling: Sampling, allowed: Tensor | None = None) -> Tensor:
    """The logits [..., V] of the distribution that is really drawn from; excluded ids are -inf.

    Order: allowed ids (of one row), temperature, top-k, top-p. Temperature 0 leaves the scale
    alone; however small it and top-p are, the likeliest id stays. No shape depends on the logits,
    so nothing waits for a device.
    """
    if allowed is not None:
        kept = torch.full_like(logits, -torch.inf)
        allowed = allowed.to(logits.device)
        logits = kept.index_copy(0, allowed, logits[allowed])
    if sampling.temperature == 0:
        return logits
    logits = (logits - logits.amax(-1, keepdim=True)) / max(sampling.temperature, COLDEST)
    if 0 < sampling.top_k < logits.shape[-1]:
        floor = logits.topk(sampling.top_k).values[..., -1:]
        logits = logits.masked_fill(logits < floor, -torch.inf)
    if sampling.top_p < 1:
        ordered, index = logits.sort(descending=True, stable=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        beyond = before >= sampling.top_p
        beyond[..., 0] = False  # a top-p that is 0 in the logits' precision
        kept = ordered.masked_fill(beyond, -torch.inf)
        logits = logits.scatter(-1, index, kept)
    return logits


def draw(logits: Tensor, sampling: Sampling, position: int, stream: int = DRAW) -> int:
    """The token at `position` from processed logits [V]: argmax, with Gumbel noise above zero."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    ids = torch.nonzero(logits > -torch.inf).squeeze(1)
    noise = gumbel(sampling.seed, position, ids, stream)
    return int(ids[(logits[ids].double() + noise).argmax()])


def gumbel(seed: int, position: int | Tensor, ids: Tensor, stream: int) -> Tensor:
    """Noise that makes the largest of noisy logits a draw from their distribution."""
    return -torch.log(-torch.log(philox(seed, position, ids, stream)))


def probabilities(logits: Tensor) -> Tensor:
    """Processed logits [..., V] as a distribution, in double precision."""
    return logits.double().softmax(-1)
