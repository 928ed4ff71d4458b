"""An earlier answer is drafted from for as long as the run follows it, and never after."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.core import Step
from completiond.drafters.base import DraftContext
from completiond.drafters.recycled import Recycled

PROMPT = [1, 2, 3]
HINT = (10, 11, 12, 13, 14)


def draft(generated: list[int], budget: int = 8, hint: tuple[int, ...] = HINT) -> tuple[int, ...]:
    context = DraftContext("b", "c", [*PROMPT, *generated], len(PROMPT), hint=hint)
    return Recycled().propose(context, budget).ids


@pytest.mark.parametrize("done", range(len(HINT) + 1))
def test_the_rest_of_the_answer_is_drafted_while_the_run_follows_it(done: int) -> None:
    assert draft(list(HINT[:done])) == HINT[done:]


@pytest.mark.parametrize("generated", [[9], [10, 9], [10, 11, 12, 13, 9], [*HINT, 15], [11]])
def test_a_run_that_left_the_answer_gets_no_draft(generated: list[int]) -> None:
    assert draft(generated) == ()


@pytest.mark.parametrize("budget", [-1, 0, 1, 3])
def test_the_budget_is_kept(budget: int) -> None:
    assert draft([10], budget) == HINT[1 : 1 + max(0, budget)]


def test_without_a_hint_there_is_no_draft() -> None:
    assert draft([], hint=()) == ()
    assert draft([4], hint=()) == ()


@given(st.lists(st.integers(0, 2), max_size=6), st.lists(st.integers(0, 2), max_size=6))
def test_a_draft_and_what_was_generated_spell_the_hint(hint: list[int], done: list[int]) -> None:
    drafted = draft(done, hint=tuple(hint))
    assert not drafted or [*done, *drafted] == hint


def test_a_draft_is_a_chain_that_grows_less_likely() -> None:
    context = DraftContext("b", "c", PROMPT, len(PROMPT), hint=HINT)
    made = Recycled().propose(context, 3)
    assert made.is_chain and made.q is None and set(made.sources) == {"recycled"}
    assert list(made.probs) == sorted(made.probs, reverse=True)
    Recycled().observe(context, Step((10,)))
    assert Recycled().propose(context, 3) == made
