"""The kernel mixes what torch's own operations mix: random trees, segments, windows, head counts.

Runs in Triton's interpreter, on a CPU; skipped where Triton is not installed.
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.model import mixer
from completiond.model.attention import Pack, Segment
from completiond.model.block_pool import BLOCK, BlockPool
from completiond.model.frame import Frame, Gathered, Key, Mix
from completiond.model.kv_cache import KVShape

os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="Triton is not installed")

from completiond.model.paged_kernel import PART, Paged

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")


def mixed(
    mix: type[Mix],
    parts: list[tuple[int, list[int] | None, int]],
    key: Key,
    window: int,
    **shape: int,
) -> torch.Tensor:
    """One layer of a pass over random keys, values and queries."""
    heads, groups, width = shape["heads"], shape["groups"], shape["width"]
    pool = BlockPool(KVShape(1, heads, width, torch.float32, CPU), 1 << 23)
    pool.kv.normal_(generator=torch.Generator().manual_seed(0))
    slots = []
    for past, _, _ in parts:  # blocks that do not lie in a row
        pool.take(1)
        slot = pool.slot()
        slot.reserve(past)
        slot.keep([0] * past, range(past))
        slots.append(slot)
    segments = [Segment(s, [0] * n, tree) for s, (_, tree, n) in zip(slots, parts, strict=True)]
    frame = Frame(key, pool, mix)
    frame.fill(Pack(segments, torch.float32))
    noise = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(h, key.width, width, generator=noise) for h in (heads * groups, heads, heads)
    )
    out = frame.attend(0, q, k, v, scale=width**-0.5, window=window or None)
    return out[: sum(n for _, _, n in parts)]


def check(
    parts: list[tuple[int, list[int] | None, int]], key: Key, window: int, **shape: int
) -> None:
    ours, theirs = (mixed(mix, parts, key, window, **shape) for mix in (Paged, Gathered))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("heads", "groups", "width"), [(1, 1, 16), (2, 3, 16), (1, 12, 32), (4, 1, 64)]
)
@pytest.mark.parametrize("window", [0, 1, 5, 300])
def test_it_mixes_what_torch_mixes(heads: int, groups: int, width: int, window: int) -> None:
    shape = {"heads": heads, "groups": groups, "width": width}
    check([(40, None, 1)], Key(1, 1, 1, 512), window, **shape)
    check([(PART + 7, [-1, -1, 0, 0, 1, 2, 5], 7)], Key(8, 1, 8, 512), window, **shape)
    three: list[tuple[int, list[int] | None, int]] = [
        (0, None, 3),
        (BLOCK - 1, [-1, 0, 0], 3),
        (70, None, 1),
    ]
    check(three, Key(8, 4, 8, 512), window, **shape)


trees = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*(st.integers(-1, i - 1) for i in range(n))).map(list)
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), trees), min_size=1, max_size=4), st.integers(0, 20))
def test_any_trees_of_any_segments(drawn: list[tuple[int, list[int]]], window: int) -> None:
    parts: list[tuple[int, list[int] | None, int]] = [(p, tree, len(tree)) for p, tree in drawn]
    check(parts, Key(32, 4, 16, 512), window, heads=2, groups=2, width=16)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_is_taken_where_it_runs(dtype: torch.dtype) -> None:
    kernel = mixer.choose(KVShape(2, 2, 16, dtype, CPU))
    assert isinstance(kernel(), Paged)
