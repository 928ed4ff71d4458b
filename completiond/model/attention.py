"""Attention of one packed pass: each segment against its own slot, under its own ancestor mask.

Knows slots and tensors; knows no weights. Query heads that share a key head are folded into the
query length. On a CPU a token's result is the same to the bit in a pass of any width, and in any
tree that is laid out in pre-order: chunks, drafts and neighbours cannot change an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from completiond.model.kv_cache import KVShape, Slot


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


class Piece(NamedTuple):
    """Rows [start, end) of a segment, computed together behind `past` stored tokens.

    `parents` are those of a tree within the piece; None means a chain.
    """

    start: int
    end: int
    past: int
    parents: Sequence[int] | None = None


class Mask(NamedTuple):
    """Additive [groups · n, columns - first]; the columns before `first` are all seen."""

    first: int
    rows: Tensor


class Tree(NamedTuple):
    """A segment's branches, the mask behind the text in the order of depths, and the rows [1,
    groups · n, n] that stand at each depth of a row's path."""

    pieces: list[Piece]
    mask: Mask
    where: Tensor


Parts = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values of one segment's rows."""
Way = Callable[[Tensor, Tensor, Tensor, Mask | None, float], Tensor]
"""How one segment attends: queries, keys, values, mask, scale → [n, Hq, D]."""


class Pack:
    """The segments of one pass with what attention needs: offsets, positions, masks."""

    def __init__(self, segments: Sequence[Segment], dtype: torch.dtype) -> None:
        self.segments = segments
        self._dtype = dtype
        self._way = _way(segments[0].slot.shape)
        self._depths = [_depths(s) for s in segments]
        self._pieces = [self._taken_apart(s) for s in segments]
        self._masks: dict[tuple[int, int, int], Mask | None] = {}
        self._trees: dict[int, Tree] = {}
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
        heads, total, width = q.shape
        out, start = q.new_empty(total, heads, width), 0
        for index, s in enumerate(self.segments):
            rows = slice(start, start + len(s.ids))
            parts = q[:, rows], k[:, rows], v[:, rows]
            if self._is_one_product(index) and not window:
                out[rows] = self._as_tree(index, layer, parts, scale)
            else:
                self._by_piece((index, layer), parts, out[rows], scale, window or 0)
            start = rows.stop
        return out

    def _is_one_product(self, index: int) -> bool:
        """Whether a segment's branches may be multiplied together: in halves, and its rows are all
        summed in one way."""
        past, n = len(self.segments[index].slot), len(self.segments[index].ids)
        alike = past >= ONE_SUM or past + n <= ONE_SUM
        return len(self._pieces[index]) > 1 and self._way is _in_halves and alike

    def _by_piece(
        self, at: tuple[int, int], parts: Parts, out: Tensor, scale: float, window: int
    ) -> None:
        (index, layer), (q, k, v) = at, parts
        slot, pieces = self.segments[index].slot, self._pieces[index]
        for number, piece in enumerate(pieces):
            rows, past = slice(piece.start, piece.end), piece.past
            columns = None if self._way is _folded else _columns(past + piece.end - piece.start)
            keys, values = slot.write(layer, k[:, rows], v[:, rows], columns, at=past)
            mask = self._mask((index, number, window), len(q) // len(k))
            out[rows] = self._way(q[:, rows], keys, values, mask, scale)
        if self.segments[index].parents:  # branches took turns: now each row has its place
            slot.write(layer, k, v)

    def _as_tree(self, index: int, layer: int, parts: Parts, scale: float) -> Tensor:
        (q, k, v), segment = parts, self.segments[index]
        columns = _columns(len(segment.slot) + len(segment.ids))
        keys, values = segment.slot.write(layer, k, v, columns)
        return _branched(q, keys, values, self._tree(index, len(q) // len(k)), scale)

    def _taken_apart(self, segment: Segment) -> list[Piece]:
        """On a CPU a tree is computed branch by branch, each as the chain that plain decoding sees:
        sums over other columns, or in another order, would differ in the last bit."""
        parents, past = segment.parents, len(segment.slot)
        whole = Piece(0, len(segment.ids), past, parents)
        if self._way is _folded:
            return [whole]
        if parents is None:
            return _cut(whole)
        if not _in_pre_order(parents):
            return [whole]
        depths, pieces, start = _depths(segment), list[Piece](), 0
        for end in range(1, len(parents) + 1):
            if end == len(parents) or parents[end] != end - 1:
                pieces += _cut(Piece(start, end, past + depths[start]))
                start = end
        return pieces

    def _mask(self, key: tuple[int, int, int], groups: int) -> Mask | None:
        """Of (segment, piece, window). None where everything is seen; on a CPU never, as it has
        columns behind the text too."""
        if key not in self._masks:
            index, number, window = key
            piece = self._pieces[index][number]
            if self._way is _folded:
                hides = piece.end - piece.start > 1 or window
                mask = self._additive(piece, window, groups, 0) if hides else None
            else:
                # What lies before the piece is seen by every row, unless a window slides over it.
                first = piece.past if self._way is _in_halves and not window else 0
                mask = self._additive(piece, window, groups, first)
            self._masks[key] = mask
        return self._masks[key]

    def _tree(self, index: int, groups: int) -> "Tree":
        """How a segment's tree is read, for all layers."""
        if index not in self._trees:
            segment, pieces = self.segments[index], self._pieces[index]
            n, past = len(segment.ids), len(segment.slot)
            paths: list[list[int]] = []
            for row, parent in enumerate(segment.parents or ()):
                paths.append([*(paths[parent] if parent >= 0 else ()), row])
            where = torch.tensor([[*path, *[0] * (n - len(path))] for path in paths])
            own = torch.tensor([len(path) for path in paths])[:, None] > torch.arange(n)
            rows = torch.full((n, _columns(past + n) - past), -torch.inf, dtype=self._dtype)
            rows[:, :n].masked_fill_(own, 0)
            mask = Mask(past, rows.repeat(groups, 1))
            self._trees[index] = Tree(pieces, mask, where.repeat(groups, 1)[None])
        return self._trees[index]

    def _additive(self, piece: Piece, window: int, groups: int, first: int) -> Mask:
        visible = _visible(piece, window, first)
        n, seen = piece.end - piece.start, first + visible.shape[1]
        columns = seen if self._way is _folded else _columns(seen)
        rows = torch.full((n, columns - first), -torch.inf, dtype=self._dtype)
        rows[:, : seen - first].masked_fill_(visible, 0)
        rows = rows.repeat(groups, 1)
        if self._way is _exactly:
            rows = pad(rows, (0, 0, 0, max(0, LEAST_ROWS - groups * n)))
        return Mask(first, rows.to(self.segments[0].slot.shape.device))


COLUMN_STEP, LEAST_COLUMNS, LEAST_ROWS = 64, 512, 4
"""Shapes from which on a matrix product of torch's CPU build sums each element in one order,
whatever else it computes: found by trying every width and length, and kept by a test."""

ONE_SUM = 1024
"""Up to so many columns it sums in one block, and over more of them in another order. No row may
be multiplied with columns of the other kind."""


def _columns(seen: int) -> int:
    """How many stored tokens are multiplied for `seen` of them; the rest is masked, to the bit."""
    return max(LEAST_COLUMNS, -(-seen // COLUMN_STEP) * COLUMN_STEP)


def _cut(chain: Piece) -> list[Piece]:
    """A chain in two where its rows begin to see more than one sum goes over."""
    start, end, past, _ = chain
    at = start + ONE_SUM - past
    if not start < at < end:
        return [chain]
    return [Piece(start, at, past), Piece(at, end, ONE_SUM)]


def _in_halves(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, scale: float) -> Tensor:
    """q [Hq, n, D] float, k [Hkv, D, columns] and v [Hkv, columns, D] bf16 → [n, Hq, D] bf16.

    Sums are kept in float32, in one order: a row's result does not depend on n.
    """
    assert mask is not None, "columns behind the text must be masked"
    heads, n, width = q.shape
    queries = q.new_empty(heads, n, width, dtype=k.dtype)
    queries.copy_(q if scale == 1.0 else q * scale)
    scores = torch.bmm(queries.view(k.shape[0], -1, width), k)
    scores[:, :, mask.first :] += mask.rows
    return torch.bmm(scores.softmax(-1), v).view(heads, n, width).transpose(0, 1)


def _branched(q: Tensor, k: Tensor, v: Tensor, tree: Tree, scale: float) -> Tensor:
    """`_in_halves` for a tree whose rows are stored one after the other; v is left as it was.

    Scores are put in the order of depths, and each branch's values take turns there, so that sums
    are those of a chain.
    """
    heads, n, width = q.shape
    first = tree.mask.first
    queries = q.new_empty(heads, n, width, dtype=k.dtype)
    queries.copy_(q if scale == 1.0 else q * scale)
    scores = torch.bmm(queries.view(k.shape[0], -1, width), k)
    drafts = scores[:, :, first : first + n]
    drafts.copy_(drafts.gather(2, tree.where.expand(len(scores), -1, -1)))
    scores[:, :, first:] += tree.mask.rows
    weights = scores.softmax(-1).unflatten(1, (-1, n))
    stored, out = v[:, first : first + n].clone(), q.new_empty(heads, n, width, dtype=k.dtype)
    grouped = out.view(k.shape[0], -1, n, width)
    for start, end, past, _ in tree.pieces:
        if start:
            v[:, past : past + end - start] = stored[:, start:end]
        mixed = torch.bmm(weights[:, :, start:end].flatten(1, 2), v)
        grouped[:, :, start:end] = mixed.unflatten(1, (-1, end - start))
    v[:, first : first + n] = stored
    return out.transpose(0, 1)


def _exactly(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, scale: float) -> Tensor:
    """q [Hq, n, D], k [Hkv, D, columns], v [Hkv, columns, D] → [n, Hq, D].

    A row's result does not depend on n, nor on how much is stored behind what it sees.
    """
    assert mask is not None, "columns behind the text must be masked"
    heads, n, width = q.shape
    rows = heads // k.shape[0] * n
    folded = pad(q.reshape(k.shape[0], rows, width), (0, 0, 0, len(mask.rows) - rows))
    weights = torch.baddbmm(mask.rows, folded, k, alpha=scale).softmax(-1)
    return torch.bmm(weights, v)[:, :rows].reshape(heads, n, width).transpose(0, 1)


def _folded(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, scale: float) -> Tensor:
    """q [Hq, n, D], k [Hkv, D, S], v [Hkv, S, D] → [n, Hq, D]."""
    heads, n, width = q.shape
    folded, added = q.reshape(1, k.shape[0], -1, width), None if mask is None else mask.rows
    out = scaled_dot_product_attention(
        folded, k.transpose(1, 2)[None], v[None], attn_mask=added, scale=scale
    )
    return out.reshape(heads, n, width).transpose(0, 1)  # some kernels answer transposed


def _way(shape: KVShape) -> Way:
    if shape.device.type != "cpu":
        return _folded
    return _in_halves if shape.dtype == torch.bfloat16 else _exactly


def _depths(segment: Segment) -> list[int]:
    if segment.parents is None:
        return list(range(len(segment.ids)))
    depths: list[int] = []
    for parent in segment.parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def _in_pre_order(parents: Sequence[int]) -> bool:
    """Whether each row continues the one before it or one that this one continues."""
    path: list[int] = []  # the rows down to the last one
    for row, parent in enumerate(parents):
        while path and path[-1] != parent:
            path.pop()
        if not path and parent >= 0:
            return False
        path.append(row)
    return True


def _visible(piece: Piece, window: int, first: int) -> Tensor:
    """[n, past+n-first] bool: the stored text and the ancestors, at most `window` positions back.

    With a window, `first` is 0.
    """
    n, past = piece.end - piece.start, piece.past
    own = ancestors(piece.parents, n)
    visible = torch.cat([torch.ones(n, past - first, dtype=torch.bool), own], 1)
    if window:
        depths = own.sum(1) - 1
        here = depths + past
        there = torch.cat([torch.arange(past), here])
        visible &= here[:, None] - there[None] < window
    return visible


def ancestors(parents: Sequence[int] | None, n: int) -> Tensor:
    """[n, n] bool: row i sees itself and everything above it."""
    if parents is None:
        return torch.ones(n, n, dtype=torch.bool).tril()
    own = torch.eye(n, dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            own[i] |= own[parent]
    return own
