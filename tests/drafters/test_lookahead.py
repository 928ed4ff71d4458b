"""Lookahead: n-grams that the target drew itself are drafted, and the window follows the text."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.guarded import fault, is_tree
from completiond.drafters.lookahead import (
    CLIENTS,
    COLUMNS,
    GUESSES,
    LEVELS,
    PER_TOKEN,
    POOL,
    RUNS,
    Lookahead,
    Pool,
    Window,
)

WHOLE = COLUMNS * LEVELS + GUESSES * LEVELS
"""Nodes for the window and the guesses together."""


def context(ids: list[int], *, client: str = "c", buffer: str = "b") -> DraftContext:
    return DraftContext(buffer, client, ids, 1)


Target = Callable[[Sequence[int]], int]


def verified(target: Target, ids: Sequence[int], draft: Draft) -> Step:
    """The pass of a greedy target: its draws at the root and behind each node, and what is kept."""
    paths: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        paths.append((*paths[parent + 1], token))
    drawn = tuple(target([*ids, *path]) for path in paths)
    kept: list[int] = []
    at = -1
    while True:
        kept.append(drawn[at + 1])
        children = [i for i, p in enumerate(draft.parents) if p == at and draft.ids[i] == kept[-1]]
        if not children:
            return Step(tuple(kept), tree=draft, drawn=drawn)
        at = children[0]


def run(target: Target, n: int, budget: int = WHOLE) -> tuple[list[int], int]:
    """`n` tokens behind a prompt, and the passes that they took."""
    drafter, ids, passes = Lookahead(), [3, 1, 4, 1, 5], 0
    where = context(ids)
    while len(ids) < 5 + n:
        draft = drafter.propose(where, budget)
        assert not fault(draft, budget, 1000)
        step = verified(target, ids, draft)
        ids += step.ids
        drafter.observe(where, step)
        passes += 1
    return ids[5 : 5 + n], passes


def markov(ids: Sequence[int]) -> int:
    """A target whose next token depends on the last one: Jacobi columns come true at once."""
    return (5 * ids[-1] + 3) % 17


def test_the_text_is_the_target_s_and_takes_fewer_passes() -> None:
    text, passes = run(markov, 200)
    plain = [5]
    while len(plain) <= 200:
        plain.append(markov(plain))
    assert text == plain[1:]
    assert passes < 100


@pytest.mark.parametrize("budget", [1, 3, COLUMNS * LEVELS])
def test_any_budget_is_kept(budget: int) -> None:
    assert run(markov, 60, budget)[0] == run(markov, 60)[0]


def test_columns_become_what_the_target_draws() -> None:
    """Each n-gram of the pool follows the target once its column was drawn level by level."""
    drafter, ids = Lookahead(), [3, 1, 4, 1, 5]
    where = context(ids)
    for _ in range(3 * LEVELS):
        step = verified(markov, ids, drafter.propose(where, WHOLE))
        ids += step.ids
        drafter.observe(where, step)
    pool = drafter._pools["c"]
    true = [n for n in pool._held if all(markov([a]) == b for a, b in zip(n, n[1:], strict=False))]
    assert len(true) > COLUMNS


def test_without_the_target_s_draws_nothing_is_learned_and_nothing_breaks() -> None:
    drafter, ids = Lookahead(), [1, 2, 3]
    for _ in range(5):
        drafter.propose(context(ids), WHOLE)
        drafter.observe(context(ids), Step((4,)))
        ids.append(4)
    assert len(drafter._pools["c"]) == 0


# The window


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.none() | st.integers(0, 9), min_size=COLUMNS, max_size=COLUMNS),
            st.integers(1, 9),
        ),
        max_size=8,
    )
)
def test_the_window_keeps_its_shape(steps: list[tuple[list[int | None], int]]) -> None:
    window = Window([7, 8, 9])
    for drawn, kept in steps:
        columns = [tuple(level[j] for level in window.levels) for j in range(COLUMNS)]
        done = window.grow(drawn, kept)
        assert done == [(*c, new) for c, new in zip(columns, drawn, strict=True) if new is not None]
        assert [len(level) for level in window.levels] == [COLUMNS] * LEVELS
        draft = window.draft("s")
        assert is_tree(draft) and set(window.paths()) <= set(paths(draft))
        assert len(draft) <= COLUMNS * LEVELS


def paths(draft: Draft) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


def test_a_column_keeps_its_place_in_the_text() -> None:
    """levels[l][j] stands 1 + j + l behind the text; `kept` tokens later it is so much nearer."""
    window = Window([0])
    place = {(level, j): 10 * (1 + j + level) for level in range(LEVELS) for j in range(COLUMNS)}
    window.levels = [[place[level, j] for j in range(COLUMNS)] for level in range(LEVELS)]
    window.grow([10 * (1 + j + LEVELS) for j in range(COLUMNS)], 2)
    for level in range(LEVELS):
        assert window.levels[level][: COLUMNS - 1] == [
            10 * (1 + j + level + 2) for j in range(COLUMNS - 1)
        ]


# The pool


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=60))
def test_the_latest_of_a_token_are_kept_and_come_first(ngrams: list[tuple[int, ...]]) -> None:
    pool = Pool()
    for ngram in ngrams:
        pool.put(ngram)
    for token in range(4):
        latest = list(dict.fromkeys(n[1:] for n in reversed(ngrams) if n[0] == token))
        assert pool.behind(token) == latest[:PER_TOKEN]
    assert len(pool) == sum(len(pool.behind(token)) for token in range(4))


def test_pools_and_windows_are_bounded() -> None:
    pool = Pool()
    for number in range(2 * POOL):
        pool.put((number, 1, 2))
    assert len(pool) == POOL and len(pool._by_first) == POOL
    drafter = Lookahead()
    for number in range(3 * RUNS):
        drafter.propose(context([1], client=str(number), buffer=str(number)), WHOLE)
    assert len(drafter._windows) == RUNS and len(drafter._pools) == CLIENTS


def test_one_client_s_n_grams_are_no_guesses_of_another() -> None:
    drafter, ids = Lookahead(), [5]
    drafter._pool("other").put((5, 77, 78))
    assert 77 in drafter.propose(context(ids, client="other"), 8).ids
    assert 77 not in drafter.propose(context(ids, client="me"), 8).ids


def test_a_run_that_ended_leaves_its_window() -> None:
    drafter, ids = Lookahead(), [1, 2, 3]
    draft = drafter.propose(context(ids), WHOLE)
    drafter.observe(context(ids), Step((4,), tree=draft, drawn=(4,), reason="eos"))
    assert not drafter._windows


def test_a_text_of_one_token_or_none_is_no_error() -> None:
    assert Lookahead().propose(context([]), WHOLE) == NO_DRAFT
    assert Lookahead().propose(context([1]), 0) == NO_DRAFT
    assert set(Lookahead().propose(context([1]), WHOLE).ids) == {1}
