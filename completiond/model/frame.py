"""A pass in fixed shapes: everything that attention must know as device tensors that stay in place.

Knows blocks, lengths and trees; knows no weights. `fill` writes a pass into the buffers, padding
what is left; `attend` reads nothing but them, waits for nothing and chooses no shape by their
content, so that a pass over a frame can be recorded once and replayed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from completiond.model.attention import Pack, Segment, ancestors
from completiond.model.block_pool import BLOCK, SCRATCH, BlockPool, BlockSlot
from completiond.model.kv_cache import stepped

CONTEXT_STEP = 64
"""Tokens by which a context that is not recorded is rounded up: fast kernels want whole tiles."""
WIDE = 64
"""Rows of a segment from which on copying its keys and values costs little beside the rest."""


class Key(NamedTuple):
    """The shapes of a frame."""

    width: int  # rows of the pass
    segments: int
    each: int  # rows that one segment may have
    context: int  # tokens that one segment may see, a multiple of BLOCK


class Trees(NamedTuple):
    """What the segments of a frame may see, as device tensors. S segments of R rows each."""

    table: Tensor  # [S, context / BLOCK] blocks
    past: Tensor  # [S] tokens before the pass
    rows: Tensor  # [S] of the pass
    depth: Tensor  # [S, R] of each row below the past
    own: Tensor  # [S, R, R] bool: row i sees row j
    query: Tensor  # [S · R] the pass's row of each cell
    cell: Tensor  # [N] the cell of each row of the pass


Mix = Callable[[Tensor, Tensor, Trees, float, int], Tensor]
"""(q [N, Hq, D], stored [2, T, Hkv, D], trees, scale, window or 0) → [N, Hq, D]."""


class Frame:
    """Static buffers of one key over one pool. `mixer` makes what computes one pass's attention."""

    def __init__(self, key: Key, pool: BlockPool, mixer: Callable[[], Mix]) -> None:
        self.key, self.pool = key, pool
        self._mixer, self._mix = mixer, mixer()
        device, n, s, r = pool.kv.device, key.width, key.segments, key.each
        shapes = {
            "ids": (n,),
            "positions": (n,),
            "rows": (n,),
            "store": (n,),
            "cell": (n,),
            "query": (s, r),
            "depth": (s, r),
            "past": (s,),
            "count": (s,),
            "table": (s, key.context // BLOCK),
        }
        sizes = [torch.Size(shape).numel() for shape in shapes.values()]
        self._here = torch.zeros(sum(sizes), dtype=torch.long)
        self._there = self._here.to(device, copy=True)
        self._own = torch.zeros(s, r, r, dtype=torch.bool)
        self._host, views = (
            {
                name: part.view(shape)
                for (name, shape), part in zip(
                    shapes.items(), torch.split(buffer, sizes), strict=True
                )
            }
            for buffer in (self._here, self._there)
        )
        self.ids, self.positions, self.rows = views["ids"], views["positions"], views["rows"]
        self._store = views["store"]
        self.trees = Trees(
            table=views["table"],
            past=views["past"],
            rows=views["count"],
            depth=views["depth"],
            own=self._own.to(device, copy=True),
            query=views["query"].view(-1),
            cell=views["cell"],
        )

    def fill(self, pack: Pack) -> None:
        """Write a pass that fits the key into the buffers: two copies to the device.

        They wait for what was queued on the device, and nothing is: a pass is read before the next.
        """
        self._here.zero_()
        self._own.zero_()
        host, n = self._host, len(pack.ids)
        host["ids"][:n] = torch.tensor(pack.ids)
        host["positions"][:n] = torch.tensor(pack.positions)
        host["rows"][: len(pack.logit_rows)] = torch.tensor(pack.logit_rows, dtype=torch.long)
        # Rows of padding store into the scratch block and are never looked at.
        host["store"][:] = torch.arange(self.key.width) % BLOCK + SCRATCH * BLOCK
        start = 0
        for index, segment in enumerate(pack.segments):
            self._place(index, segment, start, pack.positions[start : start + len(segment.ids)])
            start += len(segment.ids)
        self._there.copy_(self._here)
        self.trees.own.copy_(self._own)

    def _place(self, index: int, segment: Segment, start: int, positions: Sequence[int]) -> None:
        slot, host, n = segment.slot, self._host, len(segment.ids)
        assert isinstance(slot, BlockSlot), "a frame reads slots of a pool"
        past, end = len(slot), start + n
        host["store"][start:end] = torch.tensor(slot.places(past, past + n))
        host["cell"][start:end] = torch.arange(n) + index * self.key.each
        host["query"][index, :n] = torch.arange(start, end)
        host["depth"][index, :n] = torch.tensor(positions) - past
        host["past"][index], host["count"][index] = past, n
        seen = slot.blocks[: -(-(past + n) // BLOCK)]
        host["table"][index, : len(seen)] = torch.tensor(seen)
        self._own[index, :n, :n] = ancestors(segment.parents, n)

    def begin(self) -> None:
        """Forget what an earlier run derived from the buffers: a recording must derive it anew."""
        self._mix = self._mixer()

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """q [Hq, N, D], k and v [Hkv, N, D] → [N, Hq, D]; stores k and v."""
        stored = self.pool.kv[layer]
        stored[0].index_copy_(0, self._store, k.transpose(0, 1))
        stored[1].index_copy_(0, self._store, v.transpose(0, 1))
        return self._mix(q.transpose(0, 1), stored, self.trees, scale, window or 0)


class Apiece:
    """A pass of any shape, not to be recorded: each segment in a frame that is made for it."""

    def __init__(self, pack: Pack, pool: BlockPool, mixer: Callable[[], Mix]) -> None:
        self._frames: list[Frame] = []
        for segment in pack.segments:
            n = len(segment.ids)
            context = stepped(len(segment.slot) + n, CONTEXT_STEP)
            # Of a wide part the products are what costs, and torch's own are best at those.
            frame = Frame(Key(n, 1, n, context), pool, mixer if n <= WIDE else Gathered)
            frame.fill(Pack([segment], pool.shape.dtype))
            self._frames.append(frame)

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        out, start = [], 0
        for frame in self._frames:
            end = start + frame.key.width
            parts = (x[:, start:end] for x in (q, k, v))
            out.append(frame.attend(layer, *parts, scale=scale, window=window))
            start = end
        return out[0] if len(out) == 1 else torch.cat(out)


class Gathered:
    """Attention in torch's own operations: the blocks are copied together, then one product.

    The copy reads and writes each key and value once more, so a layer moves three times the bytes
    that it needs; where another mixer runs, this one is what it is compared with.
    """

    def __init__(self) -> None:
        self._masks: dict[tuple[int, int], Tensor] = {}

    def __call__(
        self, q: Tensor, stored: Tensor, trees: Trees, scale: float, window: int
    ) -> Tensor:
        (s, r), heads, width = trees.depth.shape, stored.shape[2], q.shape[2]
        groups = q.shape[1] // heads
        blocks = stored.view(2, -1, BLOCK, heads, width)[:, trees.table]  # [2, S, C/B, B, Hkv, D]
        keys, values = blocks.view(2, s, -1, heads, width).transpose(2, 3)
        # Query heads that share a key head are folded into the query length.
        folded = q[trees.query].view(s, r, heads, groups, width).permute(0, 2, 3, 1, 4)
        out = scaled_dot_product_attention(
            folded.reshape(s, heads, groups * r, width),
            keys,
            values,
            attn_mask=self._mask(trees, window, groups, q.dtype),
            scale=scale,
        )
        cells = out.view(s, heads, groups, r, width).permute(0, 3, 1, 2, 4)
        return cells.reshape(s * r, heads * groups, width)[trees.cell]

    def _mask(self, trees: Trees, window: int, groups: int, dtype: torch.dtype) -> Tensor:
        """[S, 1, groups · R, context], additive; the same for all layers of a window."""
        if (window, groups) not in self._masks:
            seen = visible(trees, window)
            mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
            mask.masked_fill_(~seen, -torch.inf)
            self._masks[window, groups] = mask.repeat(1, groups, 1)[:, None]
        return self._masks[window, groups]


def visible(trees: Trees, window: int) -> Tensor:
    """[S, R, context] bool: the past and a row's ancestors, at most `window` positions back.

    A cell without a row sees the first token, so that its sum is finite.
    """
    s, r = trees.depth.shape
    token = torch.arange(trees.table.shape[1] * BLOCK, device=trees.past.device)  # [C]
    past, end = trees.past[:, None], (trees.past + trees.rows)[:, None]
    row = (token - past).clamp(0, r - 1)  # [S, C]: which row a token is, if it is one
    seen = trees.own.gather(2, row[:, None].expand(s, r, -1)) & (token < end)[:, None]
    seen = seen | (token < past)[:, None]
    if window:
        there = torch.where(token < past, token, past + trees.depth.gather(1, row))
        seen &= (past + trees.depth)[:, :, None] - there[:, None] < window
    empty = torch.arange(r, device=token.device) >= trees.rows[:, None]
    return seen | (empty[:, :, None] & (token == 0))
