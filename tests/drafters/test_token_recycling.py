"""Token recycling: what the target thought likely behind a token is drafted behind it again."""

from collections.abc import Sequence

import pytest

from completiond.core import NO_DRAFT, Draft, Likely, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.guarded import fault
from completiond.drafters.token_recycling import CLIENTS, HOLDS, TOKENS, TokenRecycling


def context(ids: list[int], *, client: str = "c", stop: Sequence[int] = ()) -> DraftContext:
    return DraftContext("b", client, ids, 1, stop_ids=stop)


def told(drafter: TokenRecycling, token: int, likely: Likely, client: str = "c") -> None:
    """One plain pass behind `token`."""
    ids = [0, token, likely[0][0]]
    drafter.observe(context(ids, client=client), Step((ids[-1],), likely=(likely,)))


def test_a_tree_grows_over_what_was_likely_best_first() -> None:
    drafter = TokenRecycling()
    told(drafter, 5, ((6, 0.9), (7, 0.1)))
    told(drafter, 6, ((8, 1.0),))
    draft = drafter.propose(context([0, 5]), 8)
    assert draft.ids == (6, 8, 7)
    assert draft.parents == (-1, 0, -1)
    assert draft.probs == pytest.approx((0.9 * HOLDS, 0.9 * HOLDS**2, 0.1 * HOLDS))
    assert draft.matched == (0, 0, 1) and set(draft.sources) == {"token_recycling"}
    assert not fault(draft, 8, 10)


def test_rows_of_rejected_drafts_teach_as_those_of_kept_ones() -> None:
    drafter = TokenRecycling()
    tree = Draft((5, 9), (-1, -1), (0.5, 0.5), ("s", "s"))
    rows: tuple[Likely, ...] = (((5, 1.0),), ((6, 1.0),), ((4, 1.0),))
    for ids in ([0, 3], [0, 3, 5, 6]):  # before and after the step's ids are in the context
        drafter.observe(context(ids), Step((5, 6), tree=tree, likely=rows))
        assert drafter.propose(context([0, 9]), 1).ids == (4,)  # 9 was rejected
        assert drafter.propose(context([0, 3]), 1).ids == (5,)


def test_the_latest_word_on_a_token_replaces_the_earlier() -> None:
    drafter = TokenRecycling()
    told(drafter, 5, ((6, 1.0),))
    told(drafter, 5, ((7, 1.0),))
    assert drafter.propose(context([0, 5]), 1).ids == (7,)


def test_nothing_is_drafted_without_a_generated_token_behind_a_stop_or_for_another_client() -> None:
    drafter = TokenRecycling()
    told(drafter, 5, ((6, 1.0),))
    assert drafter.propose(DraftContext("b", "c", [0, 5], 2), 4) == NO_DRAFT
    assert drafter.propose(context([0, 5], stop=[6]), 4) == NO_DRAFT
    assert drafter.propose(context([0, 5], client="d"), 4) == NO_DRAFT
    assert drafter.propose(context([0, 5]), 0) == NO_DRAFT
    drafter.observe(context([0, 5]), Step((1,)))  # a pass without what it learns from
    assert drafter.propose(context([0, 5]), 1).ids == (6,)


def test_a_circle_ends_by_its_chances_and_the_budget() -> None:
    drafter = TokenRecycling()
    told(drafter, 5, ((5, 1.0),))
    assert drafter.propose(context([0, 5]), 3).ids == (5, 5, 5)
    assert len(drafter.propose(context([0, 5]), 100)) < 10


def test_tokens_and_clients_are_bounded_and_the_latest_stay() -> None:
    drafter = TokenRecycling()
    for token in range(TOKENS + 50):
        told(drafter, token, ((1, 1.0),))
    full = drafter.bytes
    told(drafter, TOKENS + 50, ((1, 1.0),))
    assert drafter.bytes == full
    assert drafter.propose(context([0, 50]), 1) == NO_DRAFT
    assert drafter.propose(context([0, TOKENS]), 1).ids == (1,)
    for number in range(CLIENTS):
        told(drafter, 1, ((2, 1.0),), client=f"d{number}")
    assert drafter.propose(context([0, TOKENS]), 1) == NO_DRAFT  # the client that came first
