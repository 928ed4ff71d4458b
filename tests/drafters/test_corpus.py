"""A client's documents: newest kept, within the bound, apart from each other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.drafters.corpus import COPIES, DOCUMENT_SHARE, Corpus
from completiond.drafters.ngrams import Chains
from completiond.drafters.text import BOUNDARY

Puts = st.lists(st.tuples(st.sampled_from("abcdef"), st.lists(st.integers(1, 3), max_size=40)))


def texts(corpus: Corpus) -> list[list[int]]:
    """The documents as the chains hold them."""
    found: list[list[int]] = [[]]
    for token in corpus.chains.tokens:
        if token == BOUNDARY:
            found.append([])
        else:
            found[-1].append(token)
    return [text for text in found if text]


@settings(max_examples=200, deadline=None)
@given(Puts, st.integers(20, 200))
def test_the_newest_documents_are_held_within_the_bound(
    puts: list[tuple[str, list[int]]], limit: int
) -> None:
    corpus, want = Corpus(limit), dict[str, list[int]]()
    for name, ids in puts:
        corpus.put(name, ids)
        want.pop(name, None)
        kept = ids[: limit // DOCUMENT_SHARE]
        if kept:
            want[name] = kept
        while sum(len(text) + 1 for text in want.values()) > limit:
            del want[next(iter(want))]
        assert sorted(texts(corpus)) == sorted(want.values())
        assert corpus.tokens <= limit and len(corpus.chains) <= 2 * limit
        assert all(name in corpus for name in want) and len(corpus) == len(want)


def test_a_document_that_comes_again_unchanged_costs_nothing() -> None:
    corpus = Corpus(1000)
    corpus.put("a", [1, 2, 3])
    held = len(corpus.chains)
    for _ in range(10):
        corpus.put("a", [1, 2, 3])
    assert len(corpus.chains) == held


def test_a_document_that_is_asked_for_again_is_not_the_oldest() -> None:
    corpus = Corpus(100)
    for name in "abcd":
        corpus.put(name, [ord(name)] * 20)
    corpus.put("a", [ord("a")] * 20)
    corpus.put("e", [1] * 20)
    assert "a" in corpus and "b" not in corpus


def test_a_control_token_is_a_boundary() -> None:
    corpus = Corpus(100, controls={9})
    corpus.put("a", [1, 2, 9, 3, 4, -5])
    assert texts(corpus) == [[1, 2], [3, 4]]


def test_one_huge_document_does_not_drive_all_others_out() -> None:
    corpus = Corpus(1000)
    corpus.put("small", [1, 2, 3])
    corpus.put("huge", [5] * 1_000_000)
    assert "small" in corpus and corpus.tokens <= 1000


@pytest.mark.slow
def test_a_flood_of_documents_stays_within_the_bound() -> None:
    corpus = Corpus(2000)
    for number in range(3000):
        corpus.put(str(number), [number % 50, *range(30)])
    assert corpus.tokens <= 2000 and len(corpus.chains) <= 4000
    assert corpus.bytes < 400_000 and "2999" in corpus


def test_no_put_waits_for_the_whole_corpus_to_be_written_anew() -> None:
    corpus, chained, worst = Corpus(40_000), 0, 0
    link = Chains._link_from

    def counting(chains: Chains, start: int) -> None:
        nonlocal chained
        chained += len(chains) - start
        link(chains, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chains, "_link_from", counting)
        for number in range(600):
            chained = 0
            corpus.put(f"{number % 30}", [number, *range(500)])
            worst = max(worst, chained)
    assert worst <= (COPIES + 2) * 502
    assert len(corpus.chains) <= 2 * 40_000 and len(corpus) == 30
    assert sorted(text[0] for text in texts(corpus)) == list(range(570, 600))


def test_what_is_forgotten_while_all_is_written_anew_is_gone() -> None:
    corpus = Corpus(1000)
    for number in range(200):
        corpus.put(f"{number % 20}", [number, *range(30)])
        corpus.forget(f"{(number + 7) % 20}")
        assert len(texts(corpus)) == len(corpus)


def test_what_is_forgotten_is_gone() -> None:
    corpus = Corpus(100)
    corpus.put("a", [1, 2])
    corpus.put("b", [3])
    corpus.forget("a")
    corpus.forget("unknown")
    assert texts(corpus) == [[3]] and "a" not in corpus
