"""Suffix drafts come from the client's own texts, grow with a run, and never cross a boundary."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import NO_DRAFT, Draft, Segment, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.guarded import fault
from completiond.drafters.suffix import ANSWERS, BUFFERS, CLIENTS, Suffix
from completiond.prompt.healing import VocabularyIndex
from completiond.prompt.spelling import in_order
from completiond.prompt.tokenizer import ByteTokenizer

STOP = 99
CHAIN = list(range(10, 30))


def context(
    ids: list[int],
    prompt: int | None = None,
    *segments: Segment,
    client: str = "me",
    buffer: str = "b",
) -> DraftContext:
    n = len(ids) if prompt is None else prompt
    return DraftContext(buffer, client, ids, n, segments, stop_ids=(STOP,))


def propose(drafter: Suffix, where: DraftContext, budget: int = 8) -> Draft:
    draft = drafter.propose(where, budget)
    assert not fault(draft, budget, 1 << 20)
    return draft


def best_path(draft: Draft) -> list[int]:
    ids, last = [], -1
    for node, (token, parent) in enumerate(zip(draft.ids, draft.parents, strict=True)):
        if parent == last:
            ids.append(token)
            last = node
    return ids


# Where drafts come from


def test_a_document_that_was_fed_is_drafted_from() -> None:
    drafter = Suffix()
    drafter.feed("me", "file", CHAIN)
    assert best_path(propose(drafter, context([1, 2, 10, 11, 12]))) == CHAIN[3:11]


def test_a_new_version_takes_the_place_of_the_old_and_a_forgotten_one_is_gone() -> None:
    drafter = Suffix()
    drafter.feed("me", "file", [1, 2, 3, 4])
    drafter.feed("me", "file", [1, 2, 3, 5])
    assert propose(drafter, context([1, 2, 3])).ids == (5,)
    drafter.forget("me", "file")
    assert propose(drafter, context([1, 2, 3])) == NO_DRAFT


def test_both_sides_of_the_cursor_and_other_files_of_the_prompt_are_drafted_from() -> None:
    ids = [90, 40, 41, 42, 43, 91, 50, 51, 52, 53, 92, 60, 61, 62, 63]
    segments = [
        Segment("context", 1, 5),
        Segment("control", 5, 6),
        Segment("suffix", 6, 10),
        Segment("control", 10, 11),
        Segment("prefix", 11, 15),
    ]
    for end, rest in (([40, 41, 42], 43), ([50, 51, 52], 53), ([60, 61, 62], 63)):
        assert rest == propose(Suffix(), context([*ids, *end], 15, *segments)).ids[0]
    assert 90 not in propose(Suffix(), context([*ids, 53], 15, *segments)).ids


def test_the_text_behind_the_cursor_is_a_branch() -> None:
    segments = [Segment("suffix", 0, 3), Segment("prefix", 3, 5)]
    beginning = propose(Suffix(), context([50, 51, 52, 1, 2], None, *segments))
    assert beginning.ids[0] == 50 and beginning.probs[0] < 0.05, "there, but hardly likely"
    begun = propose(Suffix(), context([50, 51, 52, 1, 2, 50], 5, *segments))
    assert begun.ids[:2] == (51, 52)


def test_an_answer_is_drafted_from_once_its_run_is_over() -> None:
    drafter, ids = Suffix(), [1, 2, 3]
    where = context(ids, 3)
    propose(drafter, where)
    ids += CHAIN
    propose(drafter, where)
    ids += [STOP]
    drafter.observe(where, Step((STOP,), reason="eos"))
    later = context([5, 2, 3], buffer="other")
    assert best_path(propose(drafter, later)) == CHAIN[:8]
    assert STOP not in propose(drafter, context([CHAIN[-1]], buffer="third")).ids


def test_a_step_that_the_ids_do_not_hold_yet_is_part_of_the_answer() -> None:
    drafter = Suffix()
    drafter.observe(context([1, 2, 3], 3), Step((4, 5), reason="length"))
    assert propose(drafter, context([2, 3], buffer="other")).ids[:2] == (4, 5)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_draft_stands_inside_one_text(data: st.DataObject) -> None:
    """By letters of three, with controls at which texts are cut."""
    drafter, control = Suffix(controls={9}), 9
    texts = st.lists(st.sampled_from([1, 2, 3, control]), max_size=30)
    fed = [data.draw(texts) for _ in range(3)]
    for number, ids in enumerate(fed):
        drafter.feed("me", str(number), ids)
    own = data.draw(st.lists(st.integers(1, 3), max_size=30))
    draft = propose(drafter, context(own), 12)
    whole = [[], own]
    for ids in fed:
        whole.append([])
        for token in ids:
            if token == control:
                whole.append([])
            else:
                whole[-1].append(token)
    found: list[list[int]] = []
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        found.append([*(found[parent] if parent >= 0 else own[-1:]), token])
        path = found[-1]
        assert any(t[i : i + len(path)] == path for t in whole for i in range(len(t)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(1, 4), max_size=80), min_size=1, max_size=5), st.data())
def test_a_buffer_that_goes_on_drafts_like_one_read_anew(
    prompts: list[list[int]], data: st.DataObject
) -> None:
    """Over several prompts that share beginnings, with steps in between."""
    drafter = Suffix()
    for prompt in prompts:
        ids = list(prompt)
        where = context(ids, len(prompt))
        for _ in range(3):
            assert propose(drafter, where) == propose(Suffix(), context(list(ids), len(prompt)))
            ids.extend(data.draw(st.lists(st.integers(1, 4), max_size=3)))


# Isolation and bounds


def test_text_of_one_client_never_appears_in_another_s_drafts() -> None:
    drafter, secret = Suffix(), set(CHAIN)
    drafter.feed("other", "file", CHAIN)
    theirs = [1, 2, 3]
    where = context(theirs, 3, client="other")
    propose(drafter, where)
    theirs += CHAIN
    propose(drafter, where)
    drafter.observe(where, Step((), reason="eos"))
    for buffer in ("b", "mine"):
        for tail in ([10, 11, 12], [1, 2, 3], [29], [3]):
            asked = [*tail, 7, *tail]
            draft = propose(drafter, context(asked, client="me", buffer=buffer))
            assert not (set(draft.ids) - set(asked)) & secret
    assert best_path(propose(drafter, context([10, 11], client="other", buffer="x")))[0] == 12


def test_a_client_that_is_forgotten_leaves_nothing() -> None:
    drafter = Suffix()
    drafter.feed("me", "file", CHAIN)
    drafter.forget("me")
    assert drafter.bytes == 0 and propose(drafter, context([10, 11])) == NO_DRAFT


def test_a_run_that_ends_after_its_client_was_forgotten_brings_nothing_back() -> None:
    drafter, where = Suffix(), context([1, 2, 3], 3)
    propose(drafter, where)
    drafter.forget("me")
    drafter.observe(where, Step((4, 5), reason="cancelled"))
    assert drafter.bytes == 0 and not drafter._clients
    propose(drafter, where)  # it came back: what it says is its own again
    drafter.observe(where, Step((4, 5), reason="eos"))
    assert propose(drafter, context([2, 3], buffer="other")).ids[:2] == (4, 5)


def test_state_is_bounded_whatever_is_thrown_at_it() -> None:
    drafter = Suffix(limit=5000)
    rng = np.random.default_rng(0)
    for number in range(300):
        client = f"c{number % (3 * CLIENTS)}"
        drafter.feed(client, f"d{number}", rng.integers(0, 100, 2000).tolist())
        where = context(rng.integers(0, 100, 500).tolist(), client=client, buffer=f"b{number}")
        propose(drafter, where)
        drafter.observe(where, Step((1,), reason="eos"))
    assert len(drafter._clients) == CLIENTS
    assert all(len(c.buffers) <= BUFFERS for c in drafter._clients.values())
    assert all(c.corpus.tokens <= 5000 for c in drafter._clients.values())
    assert drafter.bytes < CLIENTS * 2_000_000


def test_only_the_last_answers_are_kept() -> None:
    drafter = Suffix()
    for number in range(3 * ANSWERS):
        where = context([number + 1000], 1, buffer="b")
        drafter.observe(where, Step((number + 5000,), reason="eos"))
    corpus = drafter._clients["me"].corpus
    assert len(corpus) == ANSWERS
    assert propose(drafter, context([1000], buffer="x")) == NO_DRAFT
    assert propose(drafter, context([999 + 3 * ANSWERS], buffer="x")).ids == (4999 + 3 * ANSWERS,)


@pytest.mark.parametrize(
    "ids",
    [[0] * 100_000, list(range(100_000)), [3, 5] * 50_000],
    ids=["padding", "noise", "minified"],
)
def test_odd_files_cost_no_more_than_others(ids: list[int]) -> None:
    drafter = Suffix(limit=50_000)
    drafter.feed("me", "odd", ids)
    drafter.feed("me", "good", CHAIN)
    assert best_path(propose(drafter, context([10, 11, 12])))[0] == 13
    assert len(propose(drafter, context(ids[:50]), 16)) <= 16


@pytest.mark.parametrize("budget", [-1, 0, 1, 1000])
def test_the_budget_is_kept(budget: int) -> None:
    drafter = Suffix()
    drafter.feed("me", "file", CHAIN)
    draft = propose(drafter, context([10, 11, 12]), budget)
    assert len(draft) == max(0, min(budget, len(CHAIN) - 3))


@pytest.mark.parametrize("ids", [[], [7]])
def test_a_text_without_a_past_gets_no_draft(ids: list[int]) -> None:
    assert propose(Suffix(), context(ids)) == NO_DRAFT


# A half-typed word


class Speller(ByteTokenizer):
    """Bytes, and a few longer tokens."""

    MORE = (b"get", b"Name", b" get", b" getN", b"ame", b"Value", b" =", b"()", b".")

    def __init__(self) -> None:
        super().__init__()
        self.index = VocabularyIndex(in_order([self.spell(i) for i in range(300 + len(self.MORE))]))

    def spell(self, token: int) -> bytes:
        return self.MORE[token - 300] if token >= 300 else self.token_bytes(token)

    def continuing(self, text: bytes) -> "list[int]":
        return list(self.index.continuing(text))

    def encode(self, text: str) -> list[int]:
        """The longest token first, as a vocabulary does."""
        rest, ids = text.encode(), []
        while rest:
            longest = max((m for m in self.MORE if rest.startswith(m)), key=len, default=rest[:1])
            ids.append(300 + self.MORE.index(longest) if longest in self.MORE else rest[0])
            rest = rest[len(longest) :]
        return ids


SPELL = Speller()


def typed(healed: str, said: list[int], *files: str, budget: int = 12) -> list[str]:
    """The texts of all drafted paths to a leaf behind a half-typed word."""
    drafter = Suffix(SPELL)
    for number, text in enumerate(files):
        drafter.feed("me", str(number), SPELL.encode(text))
    ids = [*SPELL.encode("x\n"), *said]
    where = DraftContext("b", "me", ids, 2, healed=healed)
    draft = propose(drafter, where, budget)
    found: list[bytes] = []
    for token, parent in zip(draft.ids, draft.parents, strict=True):
        found.append((found[parent] if parent >= 0 else b"") + SPELL.spell(token))
    leaves = [found[i] for i in range(len(found)) if i not in draft.parents]
    return [text.decode() for text in leaves]


def test_a_half_typed_word_goes_on_as_it_did_before() -> None:
    assert " getName()" in typed(" getNa", [], "y = getName()")


def test_another_tokenization_of_the_word_is_found_and_spelled_anew() -> None:
    assert SPELL.encode("a.getName()")[2] != SPELL.encode(" getName()")[0]
    assert " getName()" in typed(" getNa", [], "a.getName()")
    assert "getName()" in typed("getNa", [], "a = getName()")


def test_only_words_that_begin_with_it_are_drafted() -> None:
    for text in typed(" getNa", [], "a.getValue() forgetName() getX"):
        assert " getNa".startswith(text) or text.startswith(" getNa")


def test_the_end_of_a_longer_word_is_no_place_of_it() -> None:
    assert SPELL.encode("forgetX")[3] == SPELL.encode("getX")[0]
    assert not any("getX" in text for text in typed(" get", [], "forgetX"))
    assert any("getX" in text for text in typed(" get", [], "for.getX"))


def test_a_new_word_is_spelled_as_far_as_it_is_typed() -> None:
    assert typed(" getQ", []) == [" getQ"]


def test_a_word_that_is_spelled_in_part_goes_on() -> None:
    begun = SPELL.encode(" get")
    assert "Name()" in typed(" getNa", begun, "y = getX; get Name()")
    left = typed(" getNa", SPELL.encode(" other"), "zz other Name()")
    assert left[0].startswith(" "), "a run that left the word goes on like any other"


def test_without_a_speller_nothing_is_drafted_until_the_word_is_spelled() -> None:
    drafter = Suffix()
    drafter.feed("me", "f", CHAIN)
    assert drafter.propose(DraftContext("b", "me", [10, 11], 2, healed="ab"), 4) == NO_DRAFT


# Speed


def test_a_step_costs_microseconds(record_property: Callable[[str, object], None]) -> None:
    """At 200,000 tokens 30-50 µs a step with a draft of 15; the bound is for a busy machine."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 5000, 6).tolist() for _ in range(400)]
    drafter = Suffix()
    for number in range(20):
        ids = [t for i in rng.integers(0, 400, 1660) for t in words[i]]
        drafter.feed("me", str(number), ids)
    assert drafter._clients["me"].corpus.tokens > 190_000
    ids = [t for i in rng.integers(0, 400, 300) for t in words[i]]
    where, times = context(ids, len(ids)), []
    drafter.propose(where, 15)
    for i in rng.integers(0, 400, 100):
        for token in words[i]:
            ids.append(token)
            started = time.perf_counter_ns()
            draft = drafter.propose(where, 15)
            times.append((time.perf_counter_ns() - started) / 1000)
            assert len(draft) <= 15
    median = sorted(times)[len(times) // 2]
    record_property("step_us", median)
    record_property("bytes", drafter.bytes)
    assert median < 500, median
