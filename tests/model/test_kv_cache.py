"""A slot holds exactly the keys and values of its ids, and all slots stay within the budget."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.errors import Overloaded
from completiond.model.attention import Segment
from completiond.model.kv_cache import GROWTH, KVCache, KVShape, Slot
from tiny import assert_fresh, fresh_slot, random_ids, tiny_runner

SHAPE = KVShape(layers=2, heads=2, width=4, dtype=torch.float32, device=torch.device("cpu"))
STEP_BYTES = GROWTH * SHAPE.token_bytes


def steps(n: int) -> KVCache:
    """A cache with room for `n` slots of GROWTH tokens."""
    return KVCache(SHAPE, n * STEP_BYTES)


def filled(cache: KVCache, name: str, tokens: int = 10) -> Slot:
    """A busy slot that holds what it was acquired for."""
    slot = cache.acquire(name, tokens)
    slot.reserve(tokens)
    slot.keep(range(tokens), range(tokens))
    return slot


# What a slot holds


@pytest.mark.parametrize("cuts", [(40,), (1, 39), (13, 1, 1, 25), (1,) * 40])
def test_chunks_of_any_size_store_what_one_pass_stores(cuts: tuple[int, ...]) -> None:
    runner, ids = tiny_runner(), iter(random_ids(40))
    slot = Slot(runner.kv)
    for n in cuts:
        chunk = [next(ids) for _ in range(n)]
        runner.prefill(slot, chunk)
        assert_fresh(runner, slot)


@pytest.mark.parametrize("kept", [0, 1, 3, 6])
def test_a_chain_kept_in_part_leaves_nothing_of_the_rest(kept: int) -> None:
    runner, ids, draft = tiny_runner(), random_ids(20), random_ids(6, seed=1)
    slot = fresh_slot(runner, ids)
    runner.forward([Segment(slot, [5, *draft])])
    slot.keep([5, *draft[:kept]], range(1 + kept))
    assert slot.ids == [*ids, 5, *draft[:kept]]
    assert_fresh(runner, slot)
    runner.prefill(slot, random_ids(3, seed=2))
    assert_fresh(runner, slot)


@pytest.mark.parametrize("family", ["qwen2", "starcoder2", "gpt_bigcode"])
@pytest.mark.parametrize("path", [(), (0,), (1,), (1, 3), (2, 5), (1, 4, 6)])
def test_a_branch_of_a_tree_is_gathered_to_the_front(family: str, path: tuple[int, ...]) -> None:
    runner = tiny_runner(family)
    slot = fresh_slot(runner, random_ids(20))
    pending, nodes = random_ids(3, seed=1), [10, 11, 12, 13, 14, 15, 16]
    parents = [-1, -1, -1, 1, 1, 2, 4]
    tree = [*range(-1, 2), *(3 + p if p >= 0 else 2 for p in parents)]
    runner.forward([Segment(slot, [*pending, *nodes], tree)])
    slot.keep([*pending, *(nodes[i] for i in path)], [0, 1, 2, *(3 + i for i in path)])
    assert_fresh(runner, slot)


def trees() -> st.SearchStrategy[list[int]]:
    """Parents of up to eight nodes, each behind its own."""
    return st.integers(1, 8).flatmap(
        lambda n: st.tuples(*(st.integers(-1, i - 1) for i in range(n))).map(list)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(trees(), st.integers(0, 99), st.integers(0, 30)), max_size=4))
def test_after_every_pass_the_cache_equals_a_fresh_prefill(
    passes: list[tuple[list[int], int, int]],
) -> None:
    runner = tiny_runner("starcoder2", layers=1)
    slot = fresh_slot(runner, random_ids(12))
    for seed, (parents, leaf, back) in enumerate(passes):
        nodes = random_ids(len(parents), seed=seed)
        runner.forward([Segment(slot, nodes, parents)])
        path = way(parents, leaf % len(nodes))
        slot.keep([nodes[i] for i in path], path)
        assert_fresh(runner, slot)
        if back < len(slot):
            slot.rewind([*slot.ids[: len(slot) - back], 63])
            assert_fresh(runner, slot)


def way(parents: list[int], node: int) -> list[int]:
    path: list[int] = []
    while node >= 0:
        path.insert(0, node)
        node = parents[node]
    return path


@pytest.mark.parametrize("before", [GROWTH - 1, GROWTH, GROWTH + 1])
def test_growth_keeps_what_was_stored(before: int) -> None:
    runner = tiny_runner(layers=1)
    slot = fresh_slot(runner, random_ids(before))
    runner.forward([Segment(slot, [1, 2, 3], [-1, -1, 1])])
    slot.keep([2, 3], [1, 2])
    assert_fresh(runner, slot)
    assert slot.capacity == (GROWTH if before + 3 <= GROWTH else 2 * GROWTH)


def test_a_pass_that_is_not_kept_changes_nothing() -> None:
    runner = tiny_runner()
    slot = fresh_slot(runner, random_ids(10))
    runner.forward([Segment(slot, random_ids(300, seed=1))])
    assert len(slot) == 10
    assert_fresh(runner, slot)


# Rewinding


@pytest.mark.parametrize(
    ("held", "wanted", "common"),
    [
        ([], [1], 0),
        ([1, 2, 3], [1, 2, 3], 2),
        ([1, 2, 3], [1, 2, 3, 4], 3),
        ([1, 2, 3], [1, 9, 3, 4], 1),
        ([1, 2, 3], [9], 0),
        ([1, 2, 3], [1], 0),
        ([1, 2, 3], [1, 2], 1),
        ([1, 2, 3], [], 0),
    ],
)
def test_rewind_keeps_the_longest_common_prefix_and_leaves_the_last_token_pending(
    held: list[int], wanted: list[int], common: int
) -> None:
    slot = Slot(SHAPE)
    slot.reserve(len(held))
    slot.keep(held, range(len(held)))
    assert slot.rewind(wanted) == common
    assert slot.ids == held[:common]


def test_after_rewinding_the_cache_equals_a_fresh_prefill_of_the_new_text() -> None:
    runner, ids = tiny_runner("mistral"), random_ids(40)
    slot = fresh_slot(runner, ids)
    other = [*ids[:25], *random_ids(20, seed=1)]
    slot.rewind(other)
    runner.prefill(slot, other[len(slot) :])
    assert slot.ids == other
    assert_fresh(runner, slot)


# The budget


def test_idle_slots_are_evicted_longest_idle_first() -> None:
    cache = steps(3)
    slots = {name: filled(cache, name) for name in "abc"}
    for name in "bca":  # idle since: b, then c, then a
        slots[name].release()
    filled(cache, "d")
    assert names(cache) == {"a", "c", "d"}
    filled(cache, "e")
    assert names(cache) == {"a", "d", "e"}
    assert cache.evicted == 2


def names(cache: KVCache) -> set[str]:
    return set(cache._slots)


def test_busy_slots_are_never_evicted() -> None:
    cache = steps(2)
    first, second = filled(cache, "a"), filled(cache, "b")
    with pytest.raises(Overloaded, match=r"no room for 10 tokens.*engine\.kv_mb"):
        cache.acquire("c", 10)
    assert names(cache) == {"a", "b"}
    second.release()
    filled(cache, "c")
    assert names(cache) == {"a", "c"}
    assert first.busy and cache.held("a") and not cache.held("b")


def test_a_refusal_evicts_nobody() -> None:
    cache = steps(3)
    cache.acquire("busy", 10)
    filled(cache, "idle").release()
    with pytest.raises(Overloaded):
        cache.acquire("large", 3 * GROWTH)
    assert names(cache) == {"busy", "idle"}
    assert cache.evicted == 0


def test_a_request_larger_than_the_budget_is_refused_even_when_all_is_free() -> None:
    with pytest.raises(Overloaded, match=f"no room for {GROWTH + 1} tokens"):
        steps(1).acquire("a", GROWTH + 1)


def test_the_budget_counts_what_a_job_may_still_fill() -> None:
    cache = steps(4)
    slot = cache.acquire("a", 2 * GROWTH + 1)
    assert slot.capacity == 0
    assert cache.bytes == slot.bytes == 3 * STEP_BYTES
    slot.reserve(1)
    assert cache.bytes == 3 * STEP_BYTES
    slot.release()
    assert cache.bytes == STEP_BYTES


def test_a_slot_that_is_acquired_again_keeps_its_ids_and_is_not_counted_twice() -> None:
    cache = steps(2)
    slot = filled(cache, "a", 100)
    slot.release()
    again = cache.acquire("a", 2 * GROWTH)
    assert again is slot and again.ids == list(range(100))
    assert cache.bytes == cache.budget and len(cache) == 1


def test_forget_drops_an_idle_slot_and_leaves_a_busy_one() -> None:
    cache = steps(2)
    cache.acquire("busy", 1)
    cache.acquire("idle", 1).release()
    for name in ("busy", "idle", "nobody"):
        cache.forget(name)
    assert names(cache) == {"busy"}


def operations() -> Iterator[st.SearchStrategy[tuple[str, str, int]]]:
    yield st.tuples(st.just("acquire"), st.sampled_from("abcde"), st.integers(1, 3 * GROWTH))
    yield st.tuples(st.just("fill"), st.sampled_from("abcde"), st.integers(1, 3 * GROWTH))
    yield st.tuples(st.just("release"), st.sampled_from("abcde"), st.just(0))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(*operations()), max_size=40))
def test_the_budget_holds_after_every_operation(todo: list[tuple[str, str, int]]) -> None:
    cache = steps(4)
    busy: dict[str, Slot] = {}
    for what, name, tokens in todo:
        if what == "acquire" and name not in busy:
            try:
                busy[name] = cache.acquire(name, tokens)
            except Overloaded:
                assert tokens + sum(s.reserved for s in busy.values()) > GROWTH
        elif what == "fill" and name in busy:
            slot = busy[name]
            slot.reserve(max(0, min(tokens, slot.reserved) - len(slot)))
        elif what == "release" and name in busy:
            busy.pop(name).release()
        assert cache.bytes <= cache.budget
        assert all(cache._slots[n] is slot for n, slot in busy.items())
