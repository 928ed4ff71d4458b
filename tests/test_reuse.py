"""An answer is found again exactly where it still holds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from completiond.core import Snapshot
from completiond.reuse import Answered, Answers

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
    assert rest(book, HERE, key="warm") is None


def test_crlf_typed_through_an_answer_in_lf() -> None:
    book = kept(replace(ANSWER, text="a\nb"))
    assert rest(book, typed("a\r\n")) == "b"


def test_an_empty_answer_is_not_kept_and_old_ones_are_forgotten() -> None:
    book = Answers(kept=3)
    book.keep(replace(ANSWER, text=" \n"))
    assert len(book) == 0
    for n in range(5):
        book.keep(Answered(typed("x" * n), "greedy", f"answer {n}", "line"))
    assert len(book) == 3 and rest(book, HERE) is None


@given(st.text("ab\n", max_size=6), st.text("ab\n", max_size=6), st.text("ab\n", max_size=6))
def test_what_is_found_always_continues_what_was_typed(first: str, text: str, more: str) -> None:
    at = replace(HERE, before=first)
    found = kept(Answered(at, "k", text, "line")).find(replace(at, before=first + more), "k")
    if found is None:
        assert not text.strip() or not text.startswith(more) or text == more
    else:
        assert more + found.rest == text
