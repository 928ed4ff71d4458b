"""One packed pass equals the library's own forward of each sequence, for every family.

float64, 1e-9: the norms, which the library computes in float32, see the same numbers in both.
"""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from completiond.model.attention import Segment
from completiond.model.kv_cache import Slot
from completiond.model.runner import Runner
from tiny import (
    FAMILIES,
    PADDING,
    WINDOW,
    WINDOWED,
    fresh_slot,
    random_ids,
    reference,
    reference_logits,
    tiny_runner,
)

TREE = [-1, -1, 0, 0, 1, 2, 5]


def close(mine: Tensor, theirs: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


def way(nodes: Sequence[int], parents: Sequence[int], node: int) -> list[int]:
    return [] if node < 0 else [*way(nodes, parents, parents[node]), nodes[node]]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_packed_pass_equals_the_plain_forward_of_each_sequence(family: str) -> None:
    runner = tiny_runner(family)
    prompt, text, branching, long = (random_ids(n, seed=n) for n in (23, 30, 12, 2 * WINDOW + 3))
    nodes = random_ids(len(TREE), seed=9)
    slots = [fresh_slot(runner, ids) for ids in (prompt[:4], text[:22], branching, long[:-1])]
    logits = runner.forward(
        [
            Segment(slots[0], prompt[4:], None, (18,)),
            Segment(slots[1], text[22:], None, range(8)),
            Segment(slots[2], nodes, TREE, range(len(TREE))),
            Segment(slots[3], long[-1:], None, (0,)),
        ]
    ).logits
    close(logits[0][0], reference_logits(prompt, family)[-1])
    close(logits[1], reference_logits(text, family)[22:])
    for i, row in enumerate(logits[2]):
        close(row, reference_logits(branching + way(nodes, TREE, i), family)[-1])
    close(logits[3][0], reference_logits(long, family)[-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_token_by_token_equals_the_plain_forward(family: str) -> None:
    runner, ids = tiny_runner(family), random_ids(3 * WINDOW)
    slot = Slot(runner.kv)
    rows = torch.stack([runner.prefill(slot, [token]) for token in ids])
    close(rows, reference_logits(ids, family))


@pytest.mark.parametrize("family", WINDOWED)
@pytest.mark.parametrize("past", range(WINDOW - 8, WINDOW + 3))
def test_a_tree_that_crosses_the_window_equals_the_plain_forward(family: str, past: int) -> None:
    runner, ids, nodes = tiny_runner(family), random_ids(past), random_ids(9, seed=1)
    tree = [-1, -1, 0, 1, 3, 4, 4, 6, 2]
    out = runner.forward([Segment(fresh_slot(runner, ids), nodes, tree, range(9))])
    for i, row in enumerate(out.logits[0]):
        close(row, reference_logits(ids + way(nodes, tree, i), family)[-1])


@pytest.mark.parametrize("family", WINDOWED)
def test_a_window_hides_what_is_behind_it(family: str) -> None:
    runner = tiny_runner(family, layers=1)
    ids = random_ids(2 * WINDOW)
    near, far = list(ids), list(ids)
    far[WINDOW - 1] = (ids[WINDOW - 1] + 1) % 64
    near[WINDOW] = (ids[WINDOW] + 1) % 64
    last = [runner.prefill(Slot(runner.kv), text) for text in (ids, far, near)]
    close(last[0], last[1], 0)
    assert (last[0] - last[2]).abs().max() > 1e-3


def test_positions_in_a_tree_are_depths_not_storage_rows() -> None:
    runner, ids = tiny_runner(), random_ids(10)
    wide = [-1] * 20 + [19]
    nodes = random_ids(21, seed=1)
    out = runner.forward([Segment(fresh_slot(runner, ids), nodes, wide, (20,))])
    close(out.logits[0][0], reference_logits([*ids, nodes[19], nodes[20]])[-1])


@pytest.mark.parametrize("family", ["qwen2", "gpt_bigcode"])
def test_rows_of_padding_are_cut_from_the_logits(family: str) -> None:
    runner = tiny_runner(family)
    assert runner.decoder.vocab_size == 64 + PADDING
    assert runner.vocab_size == 64
    assert runner.prefill(Slot(runner.kv), [1, 2]).shape == (64,)
    assert Runner(runner.decoder, 1000).vocab_size == 64 + PADDING


def test_logits_come_for_the_wanted_rows_only_and_in_their_order() -> None:
    runner, a, b = tiny_runner(), random_ids(8), random_ids(6, seed=1)
    segments = [
        Segment(Slot(runner.kv), a, None, (2, 7)),
        Segment(Slot(runner.kv), b),
        Segment(Slot(runner.kv), b, None, (5, 0)),
    ]
    logits = runner.forward(segments).logits
    assert [tuple(rows.shape) for rows in logits] == [(2, 64), (0, 64), (2, 64)]
    close(logits[0], reference_logits(a)[[2, 7]])
    close(logits[2], reference_logits(b)[[5, 0]])


def test_a_pass_without_any_wanted_row_still_stores_its_tokens() -> None:
    runner, ids = tiny_runner(), random_ids(9)
    slot = Slot(runner.kv)
    out = runner.forward([Segment(slot, ids[:8])])
    assert out.logits[0].shape == (0, 64)
    slot.keep(ids[:8], range(8))
    close(runner.prefill(slot, ids[8:]), reference_logits(ids)[-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_hidden_states_are_the_librarys(family: str) -> None:
    runner, a, b = tiny_runner(family), random_ids(7), random_ids(5, seed=1)
    segments = [Segment(Slot(runner.kv), ids) for ids in (a, b)]
    hidden = runner.forward(segments, (0, 2)).hidden
    assert sorted(hidden) == [0, 2]
    for layer, states in hidden.items():
        with torch.no_grad():
            plain = [
                reference(family)(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
                for ids in (a, b)
            ]
        close(states, torch.cat([out.hidden_states[layer][0] for out in plain]))
    assert runner.forward(segments).hidden == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_result_does_not_depend_on_the_other_segments(family: str) -> None:
    runner, ids, nodes = tiny_runner(family), random_ids(20), random_ids(7, seed=1)

    def result(before: list[int], after: list[int]) -> Tensor:
        others = [[Segment(Slot(runner.kv), o, None, (0,))] if o else [] for o in (before, after)]
        mine = Segment(fresh_slot(runner, ids), nodes, TREE, range(7))
        return runner.forward([*others[0], mine, *others[1]]).logits[len(others[0])]

    alone = result([], [])
    for before, after in ([random_ids(33), []], [[], [3]], [[1], random_ids(40, seed=2)]):
        close(result(before, after), alone, 1e-11)
