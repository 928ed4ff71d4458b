"""Attention of one packed pass: each segment against its own slot, under its own ancestor mask.

Knows slots and tensors; knows no weights. Query heads that share a key head are folded into the
query length, which keeps scaled_dot_product_attention on its fast path with a mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from completiond.model.kv_cache import Slot


@dataclass(frozen=True, slots=True)
class Segment:
    """New tokens of one sequence, a token tree laid end to end.

    `parents[i]` is the index within the segment that token i continues, -1 for the cached text;
    None means a chain. `logits` are the indices whose next-token logits are wanted.
    """

    slot: Slot
    ids: Sequence[int]
    parents: Sequence[int] | None = None
    logits: Sequence[int] = ()


class Pack:
    """The segments of one pass with what attention needs: offsets, positions, masks."""

    def __init__(self, segments: Sequence[Segment], dtype: torch.dtype) -> None:
        self.segments = segments
        self._dtype = dtype
        self._depths = [_depths(s) for s in segments]
        self._masks: dict[tuple[int, int], Tensor | None] = {}
        for segment in segments:
            segment.slot.reserve(len(segment.ids))

    @property
    def ids(self) -> list[int]:
        return [token for s in self.segments for token in s.ids]

    @property
    def positions(self) -> list[int]:
        """Base + depth: siblings of a tree share a position."""
        return [
            len(s.slot) + depth
            for s, depths in zip(self.segments, self._depths, strict=True)
            for depth in depths
        ]

    @property
    def logit_rows(self) -> list[int]:
        rows, start = [], 0
        for s in self.segments:
            rows += [start + i for i in s.logits]
            start += len(s.ids)
        return rows

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """q [Hq, N, D], k and v [Hkv, N, D] of all segments → [N, Hq, D]; stores k and v."""
        out, start = [], 0
        for index, s in enumerate(self.segments):
            end = start + len(s.ids)
            keys, values = s.slot.write(layer, k[:, start:end], v[:, start:end])
            mask = self._mask(index, window or 0, q.shape[0] // k.shape[0])
            out.append(_folded(q[:, start:end], keys, values, mask, scale))
            start = end
        return out[0] if len(out) == 1 else torch.cat(out)

    def _mask(self, index: int, window: int, groups: int) -> Tensor | None:
        """[groups·n, L+n] additive mask; None where everything is seen."""
        key = (index, window)
        if key not in self._masks:
            segment, depths = self.segments[index], self._depths[index]
            visible = _visible(segment, depths, window)
            self._masks[key] = None if visible is None else self._additive(visible, groups, segment)
        return self._masks[key]

    def _additive(self, visible: Tensor, groups: int, segment: Segment) -> Tensor:
        mask = torch.zeros(visible.shape, dtype=self._dtype)
        mask.masked_fill_(~visible, -torch.inf)
        return mask.repeat(groups, 1).to(segment.slot.shape.device)


def _folded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q [Hq, n, D], k and v [Hkv, S, D] → [n, Hq, D]."""
    heads, n, width = q.shape
    folded = q.reshape(1, k.shape[0], -1, width)
    out = scaled_dot_product_attention(folded, k[None], v[None], attn_mask=mask, scale=scale)
    return out.reshape(heads, n, width).transpose(0, 1)  # some kernels answer transposed


def _depths(segment: Segment) -> list[int]:
    if segment.parents is None:
        return list(range(len(segment.ids)))
    depths: list[int] = []
    for parent in segment.parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def _visible(segment: Segment, depths: list[int], window: int) -> Tensor | None:
    """[n, L+n] bool: the cached text and the ancestors, at most `window` positions back."""
    n, past = len(segment.ids), len(segment.slot)
    if n == 1 and (not window or past < window):
        return None
    own = _ancestors(segment.parents, n)
    visible = torch.cat([torch.ones(n, past, dtype=torch.bool), own], 1)
    if window:
        here = torch.tensor(depths) + past
        there = torch.cat([torch.arange(past), here])
        visible &= here[:, None] - there[None] < window
    return visible


def _ancestors(parents: Sequence[int] | None, n: int) -> Tensor:
    """[n, n] bool: row i sees itself and everything above it."""
    if parents is None:
        return torch.ones(n, n, dtype=torch.bool).tril()
    own = torch.eye(n, dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            own[i] |= own[parent]
    return own
