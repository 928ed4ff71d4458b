"""Blocks are shared without holes: a slot of a pool is a slot, and the budget is never exceeded."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.errors import Overloaded
from completiond.model.attention import Segment
from completiond.model.block_pool import BLOCK, SCRATCH, BlockPool, BlockSlot
from completiond.model.graphs import GraphRunner
from completiond.model.kv_cache import KVCache, KVShape, Slot
from tiny import fresh_slot, random_ids, tiny_runner

SHAPE = KVShape(layers=2, heads=2, width=4, dtype=torch.float32, device=torch.device("cpu"))
BLOCK_BYTES = BLOCK * SHAPE.token_bytes


def cache_of(blocks: int) -> tuple[KVCache, BlockPool]:
    """A cache with room for `blocks`, the scratch block not counted."""
    pool = BlockPool(SHAPE, (blocks + 1) * BLOCK_BYTES)
    return KVCache(SHAPE, (blocks + 1) * BLOCK_BYTES, pool), pool


def filled(cache: KVCache, name: str, tokens: int) -> Slot:
    slot = cache.acquire(name, tokens)
    slot.reserve(tokens)
    slot.keep(range(tokens), range(tokens))
    return slot


def blocks_of(slot: Slot) -> list[int]:
    assert isinstance(slot, BlockSlot)
    return slot.blocks


def test_the_pool_is_not_larger_than_its_budget_scratch_included() -> None:
    for budget in (2 * BLOCK_BYTES, 7 * BLOCK_BYTES + 5):
        pool = BlockPool(SHAPE, budget)
        assert pool.kv.nbytes <= budget
        assert pool.room == pool.kv.nbytes - BLOCK_BYTES == pool.free * BLOCK_BYTES


def test_a_slot_grows_by_blocks_and_is_counted_by_what_it_may_fill() -> None:
    cache, pool = cache_of(8)
    slot = cache.acquire("a", 3 * BLOCK + 1)
    assert (slot.capacity, cache.bytes, pool.free) == (0, 4 * BLOCK_BYTES, 8)
    slot.reserve(1)
    assert (slot.capacity, cache.bytes, pool.free) == (BLOCK, 4 * BLOCK_BYTES, 7)
    slot.keep([1], [0])
    slot.reserve(BLOCK)
    assert (slot.capacity, pool.free) == (2 * BLOCK, 6)


def test_a_slot_that_is_released_gives_back_what_holds_nothing() -> None:
    cache, pool = cache_of(8)
    slot = filled(cache, "a", 5 * BLOCK)
    slot.rewind([*range(BLOCK + 3), 9])
    slot.release()
    assert len(slot) == BLOCK + 3 and len(blocks_of(slot)) == 2 and pool.free == 6


def test_idle_slots_are_evicted_longest_idle_first_and_their_blocks_are_used_again() -> None:
    cache, pool = cache_of(6)
    slots = {name: filled(cache, name, 2 * BLOCK) for name in "abc"}
    theirs = set(blocks_of(slots["b"]))
    for name in "bca":
        slots[name].release()
    assert set(blocks_of(filled(cache, "d", 2 * BLOCK))) == theirs
    assert set(cache._slots) == {"a", "c", "d"} and cache.evicted == 1 and pool.free == 0


def test_busy_slots_stay_and_a_request_without_room_is_refused_and_evicts_nobody() -> None:
    cache, pool = cache_of(4)
    filled(cache, "busy", 2 * BLOCK)
    filled(cache, "idle", 1).release()
    with pytest.raises(Overloaded, match=r"engine\.kv_mb"):
        cache.acquire("large", 3 * BLOCK)
    assert set(cache._slots) == {"busy", "idle"} and pool.free == 1


def test_a_pass_that_needs_more_than_was_reserved_takes_no_block_that_is_not_free() -> None:
    cache, pool = cache_of(2)
    slot = filled(cache, "a", 2 * BLOCK)
    with pytest.raises(Overloaded, match="0 of 2 blocks free and a pass needs 1"):
        slot.reserve(1)
    assert len(blocks_of(slot)) == 2 and pool.free == 0


def test_forgetting_a_slot_frees_its_blocks() -> None:
    cache, pool = cache_of(4)
    filled(cache, "a", 3 * BLOCK).release()
    cache.forget("a")
    assert pool.free == 4 and cache.bytes == 0


actions = st.tuples(
    st.sampled_from(["acquire", "fill", "rewind", "release", "forget"]),
    st.sampled_from("abcde"),
    st.integers(1, 3 * BLOCK),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(actions, max_size=50))
def test_no_block_is_lost_or_held_twice_and_the_budget_holds(
    todo: Sequence[tuple[str, str, int]],
) -> None:
    cache, pool = cache_of(6)
    busy: dict[str, Slot] = {}
    for what, name, tokens in todo:
        slot = busy.get(name)
        if what == "acquire" and slot is None:
            try:
                busy[name] = cache.acquire(name, tokens)
            except Overloaded:
                assert tokens + sum(s.reserved for s in busy.values()) > BLOCK
        elif what == "fill" and slot is not None:
            more = max(0, min(tokens, slot.reserved) - len(slot))
            slot.reserve(more)
            slot.keep(range(more), range(more))
        elif what == "rewind" and slot is not None:
            slot.rewind([*slot.ids[: tokens // 2], 99])
        elif what == "release" and slot is not None:
            busy.pop(name).release()
        elif what == "forget" and slot is None:
            cache.forget(name)
        held = [block for s in cache._slots.values() for block in blocks_of(s)]
        assert len(set(held)) == len(held) and SCRATCH not in held
        assert len(held) + pool.free == 6
        assert cache.bytes <= cache.budget <= 6 * BLOCK_BYTES
        assert all(len(s) <= s.capacity for s in cache._slots.values())


# What a slot holds, through passes of a runner


def test_slots_that_grow_in_turns_hold_what_slots_apart_hold() -> None:
    small = tiny_runner()
    runner = GraphRunner(small.decoder, small.vocab_size)
    cache = runner.cache(1 << 21)
    texts = {name: random_ids(3 * BLOCK, seed=ord(name)) for name in "abc"}
    for start in range(0, 3 * BLOCK, 24):
        for name, text in texts.items():
            slot = cache.acquire(name, 4 * BLOCK)
            runner.prefill(slot, text[start : start + 24])
    mixed = [blocks_of(cache._slots[name]) for name in texts]
    assert all(sorted(b) != list(range(min(b), min(b) + len(b))) for b in mixed), "not scattered"
    for name, text in texts.items():
        same(cache._slots[name], fresh_slot(small, text))


@pytest.mark.parametrize("path", [(), (0,), (1, 3), (2, 5), (1, 4, 6)])
@pytest.mark.parametrize("before", [20, BLOCK - 4, BLOCK - 1, BLOCK])
def test_a_branch_is_gathered_across_blocks(before: int, path: tuple[int, ...]) -> None:
    small, nodes = tiny_runner(), [10, 11, 12, 13, 14, 15, 16]
    runner = GraphRunner(small.decoder, small.vocab_size)
    slot = runner.cache(1 << 20).acquire("a", 4 * BLOCK)
    runner.prefill(slot, random_ids(before))
    runner.forward([Segment(slot, nodes, [-1, -1, -1, 1, 1, 2, 4])])
    slot.keep([nodes[i] for i in path], path)
    same(slot, fresh_slot(small, [*random_ids(before), *(nodes[i] for i in path)]))


def same(slot: Slot, other: Slot) -> None:
    assert slot.ids == other.ids
    for layer in range(slot.shape.layers):
        for mine, theirs in zip(slot.keys_values(layer), other.keys_values(layer), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


def test_a_runner_without_frames_can_use_a_pool_too() -> None:
    """The seam is the slot: attention per segment reads blocks as well as it reads one piece."""
    small, ids = tiny_runner(), random_ids(70)
    slot = BlockPool(small.kv, 1 << 20).slot()
    for start in range(0, 70, 10):
        small.prefill(slot, ids[start : start + 10])
    same(slot, fresh_slot(small, ids))
