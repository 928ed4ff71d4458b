"""Lookup finds the longest match, the latest among equals, and never crosses a boundary."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import Segment
from completiond.drafters.base import DraftContext
from completiond.drafters.lookup import LONGEST, PER_MATCHED, Lookup, longest_match
from completiond.drafters.text import BOUNDARY, RUNS, Ids, RunText, RunTexts


def context(ids: list[int], prompt: int, *segments: Segment) -> DraftContext:
    return DraftContext("buffer", "client", ids, prompt, segments)


def draft(text: list[int], budget: int = 8) -> list[int]:
    return list(Lookup().propose(context(text, len(text)), budget).ids)


def logical_text(where: DraftContext) -> Ids:
    return RunText(where).now()


def oracle(text: list[int]) -> tuple[int, int]:
    """By trying: the longest run before the end that equals the end, without a boundary."""
    best, length = len(text), 0
    for end in range(1, len(text)):
        n = 0
        while n < min(end, LONGEST) and text[end - 1 - n] == text[-1 - n] != BOUNDARY:
            n += 1
        if n and n >= length:
            best, length = end, n
    return best, length


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from([BOUNDARY, 1, 2, 3]), max_size=60))
def test_the_match_is_the_longest_and_then_the_latest(text: list[int]) -> None:
    assert longest_match(np.array(text, dtype=np.int64)) == oracle(text)


@pytest.mark.parametrize("text", [[], [1], [1, 2, 3], [BOUNDARY], [1, BOUNDARY], [BOUNDARY, 1]])
def test_without_a_match_nothing_is_drafted(text: list[int]) -> None:
    assert draft(text) == []


def test_the_longest_match_beats_a_later_shorter_one() -> None:
    assert draft([1, 2, 3, 7, 8, 9, 3, 4, 5, 1, 2, 3]) == [7, 8, 9, 3, 4, 5, 1, 2]


def test_among_equals_the_latest_wins() -> None:
    assert draft([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], 2) == [8, 1]


def test_matches_beyond_the_limit_are_as_good_as_each_other() -> None:
    run = list(range(100, 100 + LONGEST))
    assert draft([1, *run, 7, 2, *run, 8, 1, *run], 1) == [8]


@pytest.mark.parametrize(("matched", "most"), [(1, PER_MATCHED[1]), (2, PER_MATCHED[2]), (3, 20)])
def test_a_short_match_gives_a_short_draft(matched: int, most: int) -> None:
    end = list(range(matched))
    text = [*end, *range(50, 80), 99, *end]
    assert len(draft(text, 20)) == most
    assert draft(text, 1) == [50]


@pytest.mark.parametrize("budget", [0, -1])
def test_without_a_budget_nothing_is_drafted(budget: int) -> None:
    assert draft([1, 2, 3, 4, 1, 2, 3], budget) == []


def test_a_draft_is_a_chain_of_plain_ints_from_lookup() -> None:
    made = Lookup().propose(context([1, 2, 3, 4, 5, 1, 2, 3], 8), 3)
    assert made.ids == (4, 5, 1) and made.parents == (-1, 0, 1) and made.q is None
    assert {type(i) for i in made.ids} == {int} and set(made.sources) == {"lookup"}
    assert list(made.probs) == sorted(made.probs, reverse=True)


# The logical text

IDS = [
    *(90, 91),  # sentinels
    *(1, 2, 3),  # another file
    92,
    *(4, 5, 6),  # prefix
    *(7, 8),  # typed
    93,
    *(9, 10, 11),  # suffix
    94,
]
SEGMENTS = (
    Segment("control", 0, 2),
    Segment("context", 2, 5),
    Segment("control", 5, 6),
    Segment("prefix", 6, 9),
    Segment("typed", 9, 11),
    Segment("control", 11, 12),
    Segment("suffix", 12, 15),
    Segment("control", 15, 16),
)


@pytest.mark.parametrize("controls", [True, False])
def test_the_text_goes_on_from_what_was_typed_and_ends_with_what_was_generated(
    controls: bool,
) -> None:
    segments = [s for s in SEGMENTS if controls or s.kind != "control"]
    text = logical_text(context([*IDS, 20, 21], len(IDS), *segments))
    assert text.tolist() == [1, 2, 3, BOUNDARY, 9, 10, 11, BOUNDARY, 4, 5, 6, 7, 8, 20, 21]


def test_the_suffix_and_other_files_are_drafted_from() -> None:
    propose = Lookup().propose
    assert propose(context([*IDS, 9], len(IDS), *SEGMENTS), 8).ids == (10, 11)
    assert propose(context([*IDS, 1, 2], len(IDS), *SEGMENTS), 8).ids == (3,)
    assert propose(context([*IDS, 7], len(IDS), *SEGMENTS), 8).ids == (8, 7)


def test_sentinels_are_neither_matched_nor_drafted() -> None:
    for sentinel in (90, 91, 92, 93, 94):
        made = Lookup().propose(context([*IDS, sentinel], len(IDS), *SEGMENTS), 8)
        assert not len(made)


def test_a_prompt_without_segments_is_its_own_text() -> None:
    assert logical_text(context([1, 2, 3, 4], 3)).tolist() == [1, 2, 3, 4]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_draft_stands_inside_one_text_behind_the_end_of_the_run(data: st.DataObject) -> None:
    texts = st.lists(st.integers(1, 3), max_size=12)
    kinds = ["context", "context", "suffix", "prefix", "typed"]
    ids, segments = [0], []
    for kind in kinds:
        segment = data.draw(texts)
        segments.append(Segment(kind, len(ids), len(ids) + len(segment)))  # type: ignore[arg-type]
        ids += [*segment, 0]
    generated = data.draw(texts)
    made = Lookup().propose(context([*ids, *generated], len(ids), *segments), 6)
    if not len(made):
        return
    own = [i for s in segments[3:] for i in ids[s.start : s.end]] + generated
    others = [ids[s.start : s.end] for s in segments[:3]]
    assert own and 0 not in made.ids
    found = [own[-1], *made.ids]
    assert any(
        text[i : i + len(found)] == found for text in [*others, own] for i in range(len(text))
    )


def test_one_run_s_text_is_no_draft_of_another() -> None:
    lookup = Lookup()
    lookup.propose(context([1, 2, 3, 4, 1, 2, 3], 7), 8)
    assert not len(lookup.propose(context([3], 1), 8))


def test_a_run_that_ended_is_not_kept() -> None:
    texts, where = RunTexts(), context([1, 2], 2)
    texts.of(where)
    texts.forget(where)
    assert len(texts) == 0
    for number in range(2 * RUNS):
        texts.of(DraftContext(str(number), "client", [1, 2], 2))
    assert len(texts) == RUNS


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=300), max_size=6), st.integers(0, 3))
def test_a_run_s_text_grows_as_if_it_were_read_anew(steps: list[list[int]], cut: int) -> None:
    """Two runs in turns, one list each, as the engine has them."""
    texts = RunTexts()
    runs = [DraftContext(name, "c", list(IDS), len(IDS), SEGMENTS) for name in ("a", "b")]
    for number, step in enumerate(steps):
        where = runs[number % 2]
        where.ids.extend(step)  # type: ignore[attr-defined]
        assert texts.of(where).tolist() == logical_text(where).tolist()
    shorter = DraftContext("a", "c", [*IDS, *[1] * cut], len(IDS), SEGMENTS)
    assert texts.of(shorter).tolist() == logical_text(shorter).tolist()


def test_a_step_costs_microseconds(record_property: Callable[[str, object], None]) -> None:
    """At 4,000 tokens 6 µs of match and 12 µs in all; the bounds are for a busy machine."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 200, 4000).tolist()
    where = context(ids, 3990, Segment("suffix", 0, 500), Segment("prefix", 500, 3990))
    text, lookup = logical_text(where), Lookup()
    match_us = best_us(lambda: longest_match(text))
    step_us = best_us(lambda: lookup.propose(where, 8))
    record_property("match_us", match_us)
    record_property("step_us", step_us)
    assert match_us < 200 and step_us < 300, (match_us, step_us)


def best_us(call: Callable[[], object]) -> float:
    times = []
    for _ in range(200):
        started = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - started)
    return min(times) / 1000
