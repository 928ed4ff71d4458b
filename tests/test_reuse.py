"""An answer is found again exactly where it still holds."""

import time
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from completiond.core import Snapshot
from completiond.reuse import KEPT, Answered, Answers

HERE = Snapshot("f.py", 1, "python", "f.py", "def f():\n    ret", "\n\nprint(f())\n")
ANSWER = Answered(HERE, "greedy", "urn compute(x)", "line")


def typed(text: str, at: Snapshot = HERE) -> Snapshot:
    return replace(at, before=at.before + text, version=at.version + len(text))


def kept(*answers: Answered) -> Answers:
    book = Answers()
    for answer in answers:
        book.keep(answer)
    return book


def rest(book: Answers, now: Snapshot, key: str = "greedy") -> str | None:
    found = book.find(now, key)
    return found.rest if found else None


def test_typing_through_an_answer_finds_the_rest_of_it() -> None:
    book = kept(ANSWER)
    for n in range(len(ANSWER.text)):
        assert rest(book, typed(ANSWER.text[:n])) == ANSWER.text[n:]


def test_an_answer_that_is_typed_out_or_contradicted_is_none() -> None:
    book = kept(ANSWER)
    assert rest(book, typed(ANSWER.text)) is None
    assert rest(book, typed("urn x")) is None


def test_going_back_and_undo_return_to_the_earlier_answer() -> None:
    book = kept(ANSWER, Answered(typed("urn x"), "greedy", " + 1", "line"))
    assert rest(book, typed("urn x")) == " + 1"
    assert rest(book, typed("urn ")) == "compute(x)"
    assert rest(book, HERE) == ANSWER.text


def test_the_answer_made_nearest_to_the_cursor_wins() -> None:
    later = Answered(typed("urn "), "greedy", "compute(x, y)", "line")
    assert rest(kept(later, ANSWER), typed("urn com")) == "pute(x, y)"
    assert rest(kept(ANSWER, later), typed("urn com")) == "pute(x, y)"


def test_text_after_the_cursor_the_document_and_the_key_must_be_the_same() -> None:
    book = kept(ANSWER)
    assert rest(book, replace(HERE, after=")" + HERE.after)) is None
    assert rest(book, replace(HERE, document="g.py")) is None
    assert rest(book, replace(HERE, prefix_hash="ab", offset=4096)) is None
    assert rest(book, replace(HERE, prefix_hash="ab")) is None
    assert rest(book, HERE, key="warm") is None


def test_crlf_typed_through_an_answer_in_lf() -> None:
    book = kept(replace(ANSWER, text="a\nb"))
    assert rest(book, typed("a\r\n")) == "b"


def test_that_there_is_nothing_to_say_holds_at_its_own_moment_only() -> None:
    book = kept(ANSWER, Answered(typed("urn com"), "greedy", "\n", "eos"))
    assert rest(book, typed("urn com")) == "\n"
    assert rest(book, typed("urn ")) == "compute(x)"
    assert rest(book, typed("urn comp")) == "ute(x)"
    assert rest(book, typed("urn com"), key="warm") is None


def test_old_answers_are_forgotten() -> None:
    book = Answers(kept=3)
    for n in range(5):
        book.keep(Answered(typed("x" * n), "greedy", f"answer {n}", "line"))
    assert len(book) == 3 and rest(book, HERE) is None


def test_answers_are_bounded_in_bytes_and_counted_right() -> None:
    book = Answers(kept=100, limit=40_000)
    for n in range(20):
        at = replace(typed("x" * n), before="y" * 9_000 + "x" * n)
        book.keep(Answered(at, "k", f"answer {n}", "line"))
        assert book.bytes == sum(answer.bytes for answer in book._answers.values()) <= 40_000
    assert len(book) == 4
    book.keep(Answered(at, "k", "another", "line"))  # at the same place
    assert len(book) == 4 and book.bytes <= 40_000
    book.clear()
    assert (len(book), book.bytes) == (0, 0)


def test_the_first_use_of_an_answer_is_counted_and_only_that() -> None:
    book = kept(replace(ANSWER, counts="prefetch hits"))
    found = book.find(HERE, "greedy")
    assert found is not None and book.use(found.answer) == "prefetch hits"
    again = book.find(HERE, "greedy")
    assert again is not None and book.use(again.answer) == ""


def test_an_answer_that_is_used_is_forgotten_last() -> None:
    book = Answers(kept=2)
    book.keep(ANSWER)
    book.keep(Answered(typed("zzz"), "greedy", "a", "line"))
    book.use(ANSWER)
    book.keep(Answered(typed("yyy"), "greedy", "b", "line"))
    assert rest(book, HERE) == ANSWER.text and rest(book, typed("zzz")) is None


def test_a_look_into_a_full_book_of_large_windows_is_quick() -> None:
    text = "".join(f"value_{n} = compute({n})\n" for n in range(2_000))
    at = 5 * 4096 - 12
    book, here = Answers(limit=1 << 30), []
    for n in range(30):
        now = Snapshot.around(
            text[:at] + "x" * n + text[at:],
            at + n,
            document="d",
            version=n,
            language="",
            path="",
        )
        here.append(now)
        book.keep(Answered(now, "k", "y" * 40, "line"))
    assert len(book) == KEPT
    started = time.perf_counter()
    for now in here:
        book.find(now, "k")
    # 0.1 ms on an idle machine; a bound that a busy one keeps too.
    assert (time.perf_counter() - started) / len(here) < 0.005


@given(st.text("ab\n", max_size=6), st.text("ab\n", max_size=6), st.text("ab\n", max_size=6))
def test_what_is_found_always_continues_what_was_typed(first: str, text: str, more: str) -> None:
    at = replace(HERE, before=first)
    found = kept(Answered(at, "k", text, "line")).find(replace(at, before=first + more), "k")
    if found is None:
        assert more and (not text[len(more) :].strip() or not text.startswith(more))
    else:
        assert more + found.rest == text
