"""Attention of a packed pass equals the textbook's, row by row; masks and positions are exact."""

from copy import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from completiond.model.attention import Pack, Segment
from completiond.model.kv_cache import KVShape, Slot

WIDTH = 8
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2}


def slot_of(n: int, heads: int, dtype: torch.dtype = torch.float64, width: int = WIDTH) -> Slot:
    """A slot of one layer that holds `n` tokens with random keys and values."""
    slot = Slot(KVShape(1, heads, width, dtype, torch.device("cpu")))
    slot.reserve(n)
    if n:
        slot.write(0, *noise(2, heads, n, width, dtype=dtype))
    slot.keep(range(n), range(n))
    return slot


def noise(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def ancestors(parents: list[int], i: int) -> list[int]:
    return [] if i < 0 else [*ancestors(parents, parents[i]), i]


def textbook(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """One row: q [Hq, D], k and v [Hkv, S, D] → [Hq, D]; each key head serves a run of queries."""
    groups = q.shape[0] // k.shape[0]
    k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
    return torch.einsum("hs,hsd->hd", (torch.einsum("hd,hsd->hs", q, k) * scale).softmax(-1), v)


def check(
    slots: list[Slot],
    trees: list[list[int] | None],
    sizes: list[int],
    window: int,
    groups: int = 3,
) -> None:
    kv = slots[0].shape.heads
    pack = Pack(
        [Segment(s, [0] * n, t) for s, n, t in zip(slots, sizes, trees, strict=True)],
        slots[0].shape.dtype,
    )
    total, dtype = sum(sizes), slots[0].shape.dtype
    q, k, v = (  # views, as the models hand them over
        noise(total, h, WIDTH, dtype=dtype).transpose(0, 1) for h in (kv * groups, kv, kv)
    )
    v = v + 1
    past = [s.keys_values(0) for s in slots]
    out = pack.attend(0, q, k, v, scale=0.4, window=window or None)
    assert out.shape == (total, kv * groups, WIDTH)
    start = 0
    for (old_k, old_v), n, tree in zip(past, sizes, trees, strict=True):
        parents = tree if tree is not None else list(range(-1, n - 1))
        length = old_k.shape[1]
        for i in range(n):
            way = ancestors(parents, i)
            first = max(0, length + len(way) - window) if window else 0
            way = way[max(0, first - length) :]
            rows = torch.tensor(way, dtype=torch.long) + start
            keys = torch.cat([old_k[:, first:], k[:, rows]], 1)
            values = torch.cat([old_v[:, first:], v[:, rows]], 1)
            want = textbook(q[:, start + i].double(), keys.double(), values.double(), 0.4)
            tolerance = TOLERANCE[dtype]
            torch.testing.assert_close(out[start + i].double(), want, rtol=0, atol=tolerance)
        start += n


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (1, 3), (2, 1), (2, 3)])
@pytest.mark.parametrize("window", [0, 1, 4, 9])
def test_each_row_attends_to_its_past_and_its_ancestors_within_the_window(
    dtype: torch.dtype, heads: int, groups: int, window: int
) -> None:
    slots = [slot_of(n, heads, dtype) for n in (0, 9, 3, 8, 12)]
    trees = [None, None, [-1, -1, 0, 0, 1, 4], None, [-1, 0, 1, 2, 0, 4, -1]]
    check(slots, trees, [5, 1, 6, 3, 7], window, groups)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(*(st.integers(-1, i - 1) for i in range(n)))),
    st.integers(0, 12),
    st.integers(0, 8),
)
def test_any_tree_at_any_window(parents: tuple[int, ...], past: int, window: int) -> None:
    check([slot_of(past, 2)], [list(parents)], [len(parents)], window)


def test_siblings_share_a_position_and_a_depth_is_a_position() -> None:
    pack = Pack(
        [
            Segment(slot_of(5, 1), [1, 2, 3, 4, 5], [-1, 0, 0, 2, -1]),
            Segment(slot_of(2, 1), [6, 7]),
        ],
        torch.float64,
    )
    assert pack.ids == [1, 2, 3, 4, 5, 6, 7]
    assert pack.positions == [5, 6, 6, 7, 5, 2, 3]


def test_wanted_rows_are_counted_across_segments() -> None:
    slots = [slot_of(0, 1) for _ in range(3)]
    pack = Pack(
        [
            Segment(slots[0], [1, 2, 3], None, (0, 2)),
            Segment(slots[1], [4, 5]),
            Segment(slots[2], [6, 7], None, (1,)),
        ],
        torch.float64,
    )
    assert pack.logit_rows == [0, 2, 6]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "width"), [(14, 2, 64), (8, 8, 64), (9, 3, 32), (12, 2, 128)]
)
@pytest.mark.parametrize(
    "past", [0, 319, 990, *(pytest.param(n, marks=pytest.mark.slow) for n in (62, 511, 700, 2030))]
)
def test_a_row_is_the_same_to_the_bit_in_a_pass_of_any_width(
    dtype: torch.dtype, heads: int, kv_heads: int, width: int, past: int
) -> None:
    """The promise that chunks, chains and neighbours change no answer rests on this."""
    shape = KVShape(1, kv_heads, width, dtype, torch.device("cpu"))
    length = past + 300
    q, k, v = (
        torch.randn(h, length, width, generator=torch.Generator().manual_seed(h + past))
        for h in (heads, kv_heads, kv_heads)
    )

    def rows(widths: list[int]) -> torch.Tensor:
        slot, out = Slot(shape), []
        for n in [past, *widths] if past else widths:
            start, end = len(slot), len(slot) + n
            pack = Pack([Segment(slot, [0] * n)], dtype)
            parts = (x[:, start:end] for x in (q, k, v))
            out.append(pack.attend(0, *parts, scale=width**-0.5, window=None))
            slot.keep([0] * n, range(n))
        return torch.cat(out)[past:]

    alone = rows([1] * 40)
    for widths in ([40], [8] * 5, [3, 37], [31, 1, 8], [40, 260], [300]):
        assert torch.equal(rows(widths)[:40], alone)


BRANCHING = [-1, 0, 1, 2, 1, 4, 5, 0, 7, 7]
"""Two rows that are kept in any case, then a tree in pre-order: three branches and their leaves."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.parametrize("past", [0, 61, 510, 700, 1018])
def test_a_row_of_a_tree_is_that_of_plain_decoding_to_the_bit(
    dtype: torch.dtype, window: int | None, past: int
) -> None:
    """Keys and values of the path that is kept then lie where those of plain decoding would."""
    heads, kv_heads, width, n = 14, 2, 64, len(BRANCHING)
    slot = slot_of(past, kv_heads, dtype, width)
    q, k, v = (noise(h, n, width, dtype=torch.float32) for h in (heads, kv_heads, kv_heads))
    pack = Pack([Segment(slot, [0] * n, BRANCHING)], dtype)
    out = pack.attend(0, q, k, v, scale=width**-0.5, window=window)
    for leaf in (3, 6, 8, 9):
        path = ancestors(BRANCHING, leaf)
        alone, last = slot_of(past, kv_heads, dtype, width), torch.Tensor()
        for row in path:
            parts = (x[:, row : row + 1] for x in (q, k, v))
            one = Pack([Segment(alone, [0])], dtype)
            last = one.attend(0, *parts, scale=width**-0.5, window=window)
            alone.keep([0], [0])
            assert torch.equal(out[row], last[0])
        kept = copy(slot)
        kept.ids = list(slot.ids)
        kept._keys, kept._values = slot._keys.clone(), slot._values.clone()
        kept._opened = {}
        kept.keep([0] * len(path), path)
        for mine, theirs in zip(kept.keys_values(0), alone.keys_values(0), strict=True):
            assert torch.equal(mine, theirs)
