"""Attention over blocks in one pass of a Triton kernel: no copy of keys and values.

Each program mixes a tile of a segment's query rows, all of one key head, with a part of its
context; the parts are joined afterwards. Reads lengths, blocks and trees from the device, so that a
recorded pass serves any content and a short context costs no more than it is long.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from completiond.model.block_pool import BLOCK
from completiond.model.frame import Trees

TILE = 64
"""Tokens that are multiplied at a time."""
PART = 256
"""Tokens of one program: few enough that a single run fills the device."""
LEAST_ROWS, MOST_ROWS = 16, 64
"""Query rows of a tile: what the device's matrix units take, and what its registers hold."""


class Paged:
    """A frame's mix, for head widths that are powers of two."""

    def __call__(
        self, q: Tensor, stored: Tensor, trees: Trees, scale: float, window: int
    ) -> Tensor:
        (s, r), heads, width = trees.depth.shape, stored.shape[2], q.shape[2]
        groups = q.shape[1] // heads
        folded = q[trees.query].view(s, r, heads, groups, width).permute(0, 2, 3, 1, 4)
        folded = folded.reshape(s * heads, groups * r, width).contiguous()
        rows = min(MOST_ROWS, max(LEAST_ROWS, triton.next_power_of_2(groups * r)))
        parts = -(-trees.table.shape[1] * BLOCK // PART)
        shape = (s * heads, parts, groups * r)
        mixed = torch.empty((*shape, width), dtype=torch.float32, device=q.device)
        most = torch.empty(shape, dtype=torch.float32, device=q.device)
        total = torch.empty(shape, dtype=torch.float32, device=q.device)
        grid = (s * heads, parts, triton.cdiv(groups * r, rows))
        _mix[grid](
            folded,
            stored[0],
            stored[1],
            trees.table,
            trees.past,
            trees.rows,
            trees.depth,
            trees.own.view(torch.uint8),
            mixed,
            most,
            total,
            scale,
            window,
            trees.table.shape[1],
            groups * r,
            r,
            HEADS=heads,
            WIDTH=width,
            ROWS=rows,
            TILE=TILE,
            PART=PART,
            BLOCK=BLOCK,
        )
        out = _joined(mixed, most, total).to(q.dtype)
        cells = out.view(s, heads, groups, r, width).permute(0, 3, 1, 2, 4)
        return cells.reshape(s * r, heads * groups, width)[trees.cell]


def _joined(mixed: Tensor, most: Tensor, total: Tensor) -> Tensor:
    """[B, rows, D] from the parts [B, parts, rows, D], their maxima and their sums.

    Cells without a row see nothing; what they become is finite and nobody reads it.
    """
    weight = torch.exp(most - most.amax(1, keepdim=True).clamp_min(-1e30))
    below = (total * weight).sum(1).clamp_min(1e-30)
    return (mixed * weight[..., None]).sum(1) / below[..., None]


@triton.jit
def _mix(
    q,
    keys,
    values,
    table,
    past_of,
    rows_of,
    depth_of,
    own,
    mixed,
    most,
    total,
    scale,
    window,
    blocks,
    folded,
    each,
    HEADS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
    PART: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """q [S·Hkv, folded, D]; keys, values [T, Hkv, D]; mixed [S·Hkv, parts, folded, D] and so on."""
    batch, part = tl.program_id(0), tl.program_id(1)
    segment, head = batch // HEADS, batch % HEADS
    past = tl.load(past_of + segment)
    end = past + tl.load(rows_of + segment)
    at = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    inside = at < folded
    row, wide = at % each, tl.arange(0, WIDTH)
    depth = tl.load(depth_of + segment * each + row, mask=inside, other=0)
    query = tl.load(
        q + (batch * folded + at[:, None]) * WIDTH + wide[None], mask=inside[:, None], other=0.0
    )
    high = tl.full([ROWS], -float("inf"), tl.float32)
    below = tl.zeros([ROWS], tl.float32)
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, PART, TILE):  # what lies behind the end is masked, and so not read
        token = part * PART + start + tl.arange(0, TILE)
        there = token < end
        block = tl.load(table + segment * blocks + token // BLOCK, mask=there, other=0)
        place = ((block * BLOCK + token % BLOCK) * HEADS + head) * WIDTH
        k = tl.load(keys + place[:, None] + wide[None], mask=there[:, None], other=0.0)
        other = token - past  # which row of the pass a token is, if it is one
        is_row = (other >= 0) & there
        above = tl.load(
            own + (segment * each + row[:, None]) * each + other[None],
            mask=is_row[None] & inside[:, None],
            other=0,
        )
        seen = (above != 0) | (token < past)[None]
        low = tl.load(depth_of + segment * each + other, mask=is_row, other=0)
        position = tl.where(is_row, past + low, token)
        near = (past + depth)[:, None] - position[None] < window
        seen = seen & ((window == 0) | near)
        score = tl.dot(query, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(seen, score, -float("inf"))
        higher = tl.maximum(high, tl.max(score, 1))
        # A row that has seen nothing yet has no maximum; 0 keeps its differences defined.
        safe = tl.where(higher == -float("inf"), 0.0, higher)
        weight = tl.exp(score - safe[:, None])
        keep = tl.exp(high - safe)
        v = tl.load(values + place[:, None] + wide[None], mask=there[:, None], other=0.0)
        below = below * keep + tl.sum(weight, 1)
        sums = sums * keep[:, None] + tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        high = higher
    out = (batch * tl.num_programs(1) + part) * folded + at
    tl.store(most + out, high, mask=inside)
    tl.store(total + out, below, mask=inside)
    tl.store(mixed + out[:, None] * WIDTH + wide[None], sums, mask=inside[:, None])
