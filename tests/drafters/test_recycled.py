"""An earlier answer is drafted from while the run follows it, and where it comes back to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.core import Step
from completiond.drafters.base import DraftContext
from completiond.drafters.guarded import fault
from completiond.drafters.recycled import Recycled

PROMPT = [1, 2, 3]
HINT = (10, 11, 12, 13, 14)


def draft(
    generated: list[int],
    budget: int = 8,
    hint: tuple[int, ...] = HINT,
    astray: bool = False,
) -> tuple[int, ...]:
    ids = [*PROMPT, *generated]
    context = DraftContext("b", "c", ids, len(PROMPT), hint=hint, astray=astray)
    made = Recycled().propose(context, budget)
    assert not fault(made, budget, 1000)
    return made.ids


@pytest.mark.parametrize("done", range(len(HINT) + 1))
def test_the_rest_of_the_answer_is_drafted_while_the_run_follows_it(done: int) -> None:
    assert draft(list(HINT[:done])) == HINT[done:]


@pytest.mark.parametrize("generated", [[9], [10, 9], [10, 11, 12, 13, 9], [*HINT, 15]])
def test_a_run_that_left_the_answer_gets_no_draft_until_it_comes_back(generated: list[int]) -> None:
    assert draft(generated) == ()


@pytest.mark.parametrize(
    ("generated", "rest"),
    [
        ([10, 9, 12], (13, 14)),  # one token was another
        ([10, 9, 11], (12, 13, 14)),  # one was put in between
        ([10, 12], (13, 14)),  # one was left out
        ([8, 9, 10], HINT[1:]),  # it begins later
        ([10, 9, 12, 9, 13], (14,)),  # twice
    ],
)
def test_behind_a_deviation_the_answer_goes_on_where_it_matches_again(
    generated: list[int], rest: tuple[int, ...]
) -> None:
    assert draft(generated) == rest


@pytest.mark.parametrize(
    ("generated", "rest"), [([], ()), ([9], ()), ([9, 11], (12, 13, 14)), ([10], HINT[1:])]
)
def test_an_answer_that_was_contradicted_is_drafted_from_only_where_it_matches_again(
    generated: list[int], rest: tuple[int, ...]
) -> None:
    assert draft(generated, astray=True) == rest


def test_the_longest_match_is_taken_and_the_nearest_among_equals() -> None:
    hint = (1, 2, 3, 1, 2, 4, 1, 5, 1, 6)
    assert draft([7, 1, 2], hint=hint) == (3, 1, 2, 4, 1, 5, 1, 6)
    assert draft([7, 7, 7, 7, 1, 2], hint=hint) == (4, 1, 5, 1, 6)
    assert draft([7] * 8 + [1], hint=hint) == (6,)


@pytest.mark.parametrize("budget", [-1, 0, 1, 3])
def test_the_budget_is_kept(budget: int) -> None:
    assert draft([10], budget) == HINT[1 : 1 + max(0, budget)]


def test_without_a_hint_there_is_no_draft() -> None:
    assert draft([], hint=()) == ()
    assert draft([4], hint=()) == ()


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_a_draft_is_the_end_of_the_answer_behind_what_was_generated(
    hint: list[int], done: list[int]
) -> None:
    drafted = list(draft(done, hint=tuple(hint)))
    if drafted:
        assert hint[-len(drafted) :] == drafted
        before = hint[: -len(drafted)]
        assert before == done or before[-1] == done[-1]
    if hint[: len(done)] == done:
        assert [*done, *drafted] == hint[: max(len(done), len(hint))]


@pytest.mark.parametrize("generated", [[], [10, 9, 12]])
def test_a_draft_is_a_chain_that_grows_less_likely(generated: list[int]) -> None:
    context = DraftContext("b", "c", PROMPT + generated, len(PROMPT), hint=HINT)
    made = Recycled().propose(context, 3)
    assert made.is_chain and made.q is None and set(made.sources) == {"recycled"}
    assert list(made.probs) == sorted(made.probs, reverse=True)
    Recycled().observe(context, Step((10,)))
    assert Recycled().propose(context, 3) == made
