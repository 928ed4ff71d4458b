"""A tree of continuations: sorted, real, surer by length and by count."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import Draft
from completiond.drafters.branching import LEAST, Found, grow
from completiond.drafters.guarded import fault
from completiond.drafters.text import BOUNDARY


def text(*ids: int) -> "array[int]":
    return array("i", ids)


def grown(*found: Found, budget: int = 8, stop_ids: tuple[int, ...] = ()) -> Draft:
    made = grow(found, budget, "s", stop_ids)
    assert not fault(made, budget, 1000)
    return made


def paths(draft: Draft) -> dict[tuple[int, ...], float]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return dict(zip(found, draft.probs, strict=True))


@st.composite
def places(draw: st.DrawFn) -> list[Found]:
    tokens = text(*draw(st.lists(st.sampled_from([BOUNDARY, 1, 2, 3]), min_size=1, max_size=30)))
    at = st.integers(0, len(tokens))
    return [(tokens, a, n) for a, n in draw(st.lists(st.tuples(at, st.integers(0, 20))))]


@settings(max_examples=300, deadline=None)
@given(places(), st.integers(0, 12))
def test_every_path_stands_somewhere_and_grows_less_likely(found: list[Found], budget: int) -> None:
    draft = grown(*found, budget=budget)
    for path in paths(draft):
        assert any(tokens[at : at + len(path)] == text(*path) for tokens, at, _ in found)
    for prob, parent in zip(draft.probs, draft.parents, strict=True):
        assert LEAST <= prob <= (draft.probs[parent] if parent >= 0 else 1)
    assert list(draft.probs) == sorted(draft.probs, reverse=True)
    roots = [p for p, parent in zip(draft.probs, draft.parents, strict=True) if parent < 0]
    assert sum(roots) < 1


def test_a_path_ends_with_its_text_and_before_a_stop() -> None:
    assert grown((text(1, 2, BOUNDARY, 3), 0, 9)).ids == (1, 2)
    assert grown((text(1, 2, 77, 3), 0, 9), stop_ids=(77,)).ids == (1, 2)
    assert grown((text(1), 1, 9)).ids == ()


def test_longer_matches_and_more_of_them_are_surer() -> None:
    def first(*found: Found) -> float:
        return grown(*found).probs[0]

    one = text(5, 6)
    by_length = [first((one, 0, n)) for n in (1, 2, 4, 8, 12)]
    assert by_length == sorted(by_length) and len(set(by_length)) == 5
    assert first((one, 0, 2)) < first((one, 0, 2), (one, 0, 2)) < 1


def test_split_counts_give_branches_the_later_one_first() -> None:
    draft = grown((text(5, 1), 0, 3), (text(6, 2), 0, 3))
    assert paths(draft)[(5,)] > paths(draft)[(6,)] > 0.2
    assert set(paths(draft)) == {(5,), (5, 1), (6,), (6, 2)}


def test_the_majority_beats_the_latest() -> None:
    votes = paths(grown((text(5), 0, 3), (text(6), 0, 3), (text(6), 0, 3)))
    assert votes[(6,)] > votes[(5,)]


def test_a_longer_match_beats_many_short_ones_but_leaves_them_a_branch() -> None:
    votes = paths(grown((text(5), 0, 8), *[(text(6), 0, 1)] * 6))
    assert votes[(5,)] > votes[(6,)] > 0


def test_places_that_agree_are_one_path() -> None:
    draft = grown((text(5, 6, 7), 0, 3), (text(5, 6, 8), 0, 2))
    assert draft.ids[:2] == (5, 6) and set(draft.ids[2:]) == {7, 8}
    assert draft.matched[:2] == (3, 4), "what a guess rests on grows with the path"
