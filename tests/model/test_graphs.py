"""A pass that was padded, recorded and replayed is the pass: same logits, same cache, any runner.

The recordings here are those of `tape.py`, which refuses what a device could not record.
"""

import logging
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tape import Tape, Waits
from torch import Tensor

from completiond.model.attention import Pack, Segment
from completiond.model.frame import Frame, Gathered, Key
from completiond.model.graphs import EACH, LEAST_CONTEXT, WIDTHS, GraphRunner, key_of, plain
from completiond.model.kv_cache import KVCache, Slot
from completiond.model.runner import Runner
from tiny import FAMILIES, fresh_slot, random_ids, tiny_runner

BUDGET = 1 << 22
TREE = [-1, -1, 0, 0, 1, 2, 5]


def graphed(family: str = "qwen2", **options: object) -> tuple[GraphRunner, KVCache]:
    """The same weights as `tiny_runner`'s, behind recordings."""
    small = tiny_runner(family)
    made = GraphRunner(small.decoder, small.vocab_size, **options)  # type: ignore[arg-type]
    return made, made.cache(BUDGET)


def held(runner: Runner, cache: KVCache, name: str, ids: Sequence[int]) -> Slot:
    """A slot of `cache` that holds `ids`."""
    slot = cache.acquire(name, 400)
    if ids:
        runner.forward([Segment(slot, ids)])
        slot.keep(ids, range(len(ids)))
    return slot


def close(mine: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


Part = tuple[int, list[int] | None, int]  # tokens before, parents, rows


def check(
    runner: GraphRunner, cache: KVCache, parts: Sequence[Part], family: str = "qwen2"
) -> None:
    """One pass over `parts`, against the runner that computes each segment by itself."""
    other, theirs, mine = tiny_runner(family), [], []
    for index, (past, parents, rows) in enumerate(parts):
        before, new = random_ids(past, seed=index), random_ids(rows, seed=50 + index)
        wanted = range(index % 2, rows)
        theirs.append(Segment(fresh_slot(other, before), new, parents, wanted))
        slot = held(runner, cache, f"b{index}", before)
        mine.append(Segment(slot, new, parents, wanted))
    got, want = runner.forward(mine).logits, other.forward(theirs).logits
    for ours, reference in zip(got, want, strict=True):
        close(ours, reference)
    for segment in mine:
        leaf = way(segment.parents, len(segment.ids) - 1)
        segment.slot.keep([segment.ids[i] for i in leaf], leaf)
        same_as_fresh(runner, segment.slot, family)
    for index in range(len(parts)):
        cache._slots[f"b{index}"].release()
        cache.forget(f"b{index}")


def way(parents: Sequence[int] | None, node: int) -> list[int]:
    if node < 0:
        return []
    return [*way(parents, parents[node] if parents is not None else node - 1), node]


def same_as_fresh(runner: Runner, slot: Slot, family: str) -> None:
    fresh = fresh_slot(tiny_runner(family), slot.ids)
    for layer in range(runner.kv.layers):
        for ours, theirs in zip(slot.keys_values(layer), fresh.keys_values(layer), strict=True):
            close(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_replayed_pass_equals_the_plain_one(family: str) -> None:
    tape = Tape()
    runner, cache = graphed(family, capture=tape)
    mixed: list[Part] = [(23, None, 3), (7, TREE, 7), (60, None, 1), (0, None, 2)]
    for parts in (mixed, mixed[::-1], [(40, TREE, 7)], [(9, None, 7)], [(30, None, 1)]):
        check(runner, cache, parts, family)
    assert tape.replayed > tape.recorded, "some of these passes share a shape"


def trees(most: int) -> st.SearchStrategy[list[int] | None]:
    some = st.integers(1, most).flatmap(
        lambda n: st.tuples(*(st.integers(-1, i - 1) for i in range(n))).map(list)
    )
    return st.one_of(some, st.integers(1, most).map(lambda n: list(range(-1, n - 1))))


RECORDED = graphed("starcoder2", capture=Tape(), most=1000)
COMPUTED = graphed("starcoder2", most=0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), trees(9)), min_size=1, max_size=6), st.booleans())
def test_any_trees_of_any_segments_across_the_window(
    drawn: list[tuple[int, list[int]]], recorded: bool
) -> None:
    runner, cache = RECORDED if recorded else COMPUTED
    check(runner, cache, [(past, tree, len(tree)) for past, tree in drawn], "starcoder2")


def test_a_result_does_not_depend_on_what_fills_the_shape() -> None:
    """One row alone, padded to nothing, against the same row among others, padded to sixteen."""
    runner, cache = graphed(capture=Tape())
    before = random_ids(30)
    alone = runner.forward([Segment(held(runner, cache, "a", before), [5], None, (0,))]).logits[0]
    alone = alone.clone()
    others = [Segment(held(runner, cache, f"{i}", random_ids(9 + i)), [1, 2, 3]) for i in range(3)]
    mine = Segment(cache._slots["a"], [5], None, (0,))
    close(runner.forward([*others, mine]).logits[3], alone)


# Shapes


def shape(rows: Sequence[int], past: int = 10) -> Key | None:
    slots = [fresh_slot(tiny_runner(), random_ids(past)) for _ in rows]
    return key_of(
        Pack([Segment(s, [0] * n) for s, n in zip(slots, rows, strict=True)], torch.float64)
    )


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 33, 64])
def test_one_segment_takes_the_smallest_width_that_holds_it(rows: int) -> None:
    width = min(w for w in WIDTHS if w >= rows)
    assert shape([rows]) == Key(width, 1, width, LEAST_CONTEXT)


def test_several_segments_share_a_shape_with_bounded_rows_each() -> None:
    assert shape([1, 8, 3]) == Key(16, 4, EACH, LEAST_CONTEXT)
    assert shape([1] * 5) == Key(8, 16, 8, LEAST_CONTEXT)
    assert shape([EACH + 1, 1]) is None, "too many rows of one segment"
    assert shape([1] * 17) is None, "too many segments"
    assert shape([65]) is None, "too wide"


@pytest.mark.parametrize(("past", "context"), [(510, 512), (511, 1024), (1023, 2048)])
def test_contexts_double(past: int, context: int) -> None:
    assert shape([2], past) == Key(2, 1, 2, context)


# Bookkeeping


def passes(runner: GraphRunner, cache: KVCache, *widths: int) -> list[Tensor]:
    slot = cache.acquire("b", 400)
    return [
        runner.forward([Segment(slot, [7] * n, None, (n - 1,))]).logits[0].clone() for n in widths
    ]


def test_each_shape_is_recorded_once() -> None:
    tape = Tape()
    runner, cache = graphed(capture=tape)
    passes(runner, cache, 1, 1, 3, 4, 4, 3, 1)
    assert (tape.recorded, tape.replayed) == (2, 7)


def test_a_pass_that_is_too_wide_is_computed_as_it_comes() -> None:
    tape = Tape()
    runner, cache = graphed(capture=tape)
    (wide,) = passes(runner, cache, 65)
    close(wide, passes(*graphed(), 65)[0])
    assert tape.recorded == 0


def test_a_pass_whose_hidden_states_are_wanted_is_computed_as_it_comes() -> None:
    runner, cache = graphed(capture=Tape())
    ids = random_ids(6)
    hidden = runner.forward([Segment(cache.acquire("a", 6), ids)], (0, 2)).hidden
    want = tiny_runner().forward([Segment(Slot(tiny_runner().kv), ids)], (0, 2)).hidden
    assert sorted(hidden) == [0, 2]
    for layer, states in hidden.items():
        close(states, want[layer])


def test_the_recordings_used_longest_ago_make_room() -> None:
    tape = Tape()
    runner, cache = graphed(capture=tape, most=2)
    passes(runner, cache, 1, 2, 1, 4)  # 2 goes
    assert tape.recorded == 3
    passes(runner, cache, 1, 4)
    assert tape.recorded == 3
    passes(runner, cache, 2)
    assert tape.recorded == 4 and len(runner._recorded) == 2


@pytest.mark.parametrize("error", [RuntimeError("no\nroom"), torch.OutOfMemoryError("no\nroom")])
def test_a_recording_that_fails_is_said_once_and_the_pass_is_computed(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    tape = Tape()
    runner, cache = graphed(capture=tape)
    tape.fail = error
    with caplog.at_level(logging.WARNING):
        got = passes(runner, cache, 4, 4, 8)
    for mine, theirs in zip(got, passes(*graphed(most=0), 4, 4, 8), strict=True):
        close(mine, theirs)
    assert [r.getMessage() for r in caplog.records] == [
        "passes of 4 rows are not recorded but computed (no)"
    ]
    tape.fail = None
    passes(runner, cache, 4, 2)
    assert tape.recorded == 1, "a shape that failed is not tried again, another one is"


def test_a_replay_reads_what_is_there_now_and_not_what_was_recorded() -> None:
    """Length, tree, blocks and text of the second pass differ from those of the recorded one."""
    runner, cache = graphed(capture=Tape())
    check(runner, cache, [(3, [-1, -1, 0], 3)])
    spare = held(runner, cache, "spare", random_ids(40))
    check(runner, cache, [(77, None, 4)])
    same_as_fresh(runner, spare, "qwen2")


@pytest.mark.parametrize("bug", [lambda x: int(x.sum()), lambda x: x[x > 0], torch.nonzero])
def test_the_tape_refuses_what_no_device_records(bug: Callable[[Tensor], object]) -> None:
    x = torch.ones(3)

    def run() -> Tensor:
        bug(x)
        return x + 1

    with pytest.raises(Waits):
        Tape()(run)


def test_the_tape_catches_a_mask_that_is_kept_from_an_earlier_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Frame, "begin", lambda self: None)
    runner, cache = graphed(capture=Tape())
    with pytest.raises(AssertionError, match="not close"):
        check(runner, cache, [(3, [-1, -1, 0], 3)])


def test_plain_capture_and_gathered_attention_are_what_a_cpu_gets() -> None:
    runner, _ = graphed()
    assert runner._capture is plain and runner._mixer is Gathered
    with pytest.raises(AssertionError, match="one pool"):
        runner.cache(BUDGET)
