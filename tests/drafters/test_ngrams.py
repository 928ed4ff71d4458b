"""Chained n-grams: places are real, long matches are found, what is taken back is forgotten."""

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.drafters import ngrams
from completiond.drafters.ngrams import ENOUGH, FOLLOWED, LONGEST, ORDERS, Chains, Tail
from completiond.drafters.text import BOUNDARY

Text = st.lists(st.sampled_from([BOUNDARY, 1, 2, 3]), max_size=200)


def chains(text: list[int]) -> Chains:
    made = Chains()
    made.extend(text)
    return made


def state(made: Chains) -> tuple[object, ...]:
    return made.tokens, made._links, made._tables


def oracle(text: list[int], tail: list[int]) -> dict[int, int]:
    """Length of the match that ends before each index, by trying."""
    found = {}
    for at in range(1, len(text)):
        n = 0
        while n < min(at, len(tail)) and text[at - 1 - n] == tail[-1 - n]:
            n += 1
        if n:
            found[at] = n
    return found


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(Text, st.lists(st.integers(1, 3), min_size=1, max_size=LONGEST))
def test_places_are_real_and_the_longest_is_among_them(text: list[int], tail: list[int]) -> None:
    made = chains(text)
    places, true = made.places(Tail.of(tail)), oracle(text, tail)
    assert all(true[at] == length for at, length in places)
    assert len({at for at, _ in places}) == len(places)
    if len(true) < min(FOLLOWED, ENOUGH):
        assert dict(places) == true
    longest = max(true.values(), default=0)
    order = next((o for o in ORDERS if o <= longest), None)
    if order is not None:  # of those that share a table's slot, the latest were all looked at

        def slot(ids: list[int]) -> int:
            return ngrams._keys(ids[::-1])[ORDERS.index(order)] >> made._shift

        wanted = slot(tail[-order:])
        sharing = [at for at in range(order, len(text)) if slot(text[at - order : at]) == wanted]
        latest = {at for at in sharing[:-FOLLOWED:-1] if true.get(at, 0) >= order}
        assert latest <= {at for at, _ in places}


@settings(max_examples=200, deadline=None)
@given(Text, Text, Text)
def test_one_by_one_is_the_same_as_in_bulk(
    first: list[int], more: list[int], last: list[int]
) -> None:
    bulk, single = chains(first), chains([])
    bulk.extend(more)
    bulk.extend(last)
    for token in [*first, *more, *last]:
        single.extend([token])
    assert state(bulk) == state(single)


@settings(max_examples=200, deadline=None)
@given(Text, Text, st.integers(0, 40))
def test_what_is_taken_back_leaves_no_trace(text: list[int], more: list[int], few: int) -> None:
    made = chains(text)
    made.extend(more)
    made.cut(len(text))
    assert state(made) == state(chains(text))
    made.extend([1, 2] * few)
    made.cut(len(text))
    assert state(made) == state(chains(text))


@given(Text, st.integers(0, 50), st.integers(0, 50))
def test_what_is_erased_matches_nothing(text: list[int], start: int, more: int) -> None:
    made, end = chains(text), min(len(text), start + more)
    start = min(start, end)
    made.erase(start, end)
    for tail in ([1], [1, 2], [3, 3, 3]):
        assert all(not start < at <= end for at, _ in made.places(Tail.of(tail)))


@given(Text)
def test_the_latest_place_of_each_token_is_known(text: list[int]) -> None:
    found = chains(text).latest(np.array([0, 1, 2, 3, 4])).tolist()
    assert sorted(found) == sorted(
        len(text) - 1 - text[::-1].index(token) for token in (1, 2, 3) if token in text
    )


def test_a_text_of_one_token_costs_no_more_than_its_links() -> None:
    """A binary or padded file: every place matches, and only the latest are looked at."""
    made = chains([7] * 50_000)
    assert 0 < len(made.places(Tail.of([7] * LONGEST))) <= FOLLOWED * len(ORDERS)


def test_bytes_are_those_of_the_arrays() -> None:
    made = chains(list(range(100_000)))
    held = [made.tokens, *made._links, *made._tables]
    assert made.bytes == sum(len(part) * part.itemsize for part in held)
    made.rebuild(array("i", [1, 2, 3]))
    assert made.bytes < 20_000 and len(made) == 3
