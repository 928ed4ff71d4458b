"""Laws of typing through an answer."""

import pytest

from completiond_lsp.documents import Edit
from completiond_lsp.typed import Typed


def after(*edits: Edit, start: int = 10, line: str = "x = f(1,  ") -> Typed:
    typed = Typed(start, line=line)
    for edit in edits:
        typed.follow(edit)
    return typed


def test_typing_on_leaves_the_rest_of_the_answer() -> None:
    assert after(Edit(10, 0, "fo"), Edit(12, 0, "o")).rest("foo(bar)") == "(bar)"


def test_backspace_over_what_was_typed_gives_it_back() -> None:
    typed = after(Edit(10, 0, "fo"), Edit(11, 1, ""))
    assert typed.rest("foo") == "oo"
    typed.follow(Edit(9, 2, ""))
    assert typed.rest("foo") == ""


def test_another_letter_an_edit_elsewhere_or_a_replacement_leaves_nothing() -> None:
    assert after(Edit(10, 0, "x")).rest("foo") == ""
    assert after(Edit(3, 0, "f")).rest("foo") == ""
    assert after(Edit(10, 2, "f")).rest("foo") == ""


def test_edits_of_lines_above_move_the_answer() -> None:
    typed = after(Edit(50, 0, "f"), Edit(3, 2, "four\n"), start=50, line="x = ")
    assert (typed.start, typed.rest("foo")) == (53, "oo")
    typed.follow(Edit(20, 5, ""))
    assert (typed.start, typed.cursor, typed.rest("foo")) == (48, 49, "oo")
    typed.follow(Edit(43, 1, ""))  # the line end in front of this line
    assert typed.rest("foo") == ""


@pytest.mark.parametrize(
    ("pair", "head", "left"),
    [
        ("()", "(", "a)"),
        ("[]", "(", ""),
        ("([])", "([", ""),
        ("(a)", "(", ""),
        ("{\n    \n}", "{\n    ", "b\n}"),
    ],
)
def test_only_closers_of_what_was_typed_may_stand_behind_the_cursor(
    pair: str, head: str, left: str
) -> None:
    typed = after(Edit(10, 0, pair), line="")
    answer = "{\n    b\n}" if "{" in head else "(a)"
    assert typed.rest(answer, 10 + len(head)) == left


def test_quotes_close_by_what_the_line_has_before_them() -> None:
    assert after(Edit(10, 0, '""'), line="f(").rest('"a")', 11) == 'a")'
    assert after(Edit(10, 0, '""'), line='f("a').rest('"a")', 11) == ""


def test_a_line_end_of_the_document_matches_a_line_feed_of_the_answer() -> None:
    assert after(Edit(10, 0, "\r\n    ")).rest("\n    pass") == "pass"


def test_an_answer_that_was_typed_to_its_end_leaves_nothing() -> None:
    assert after(Edit(10, 0, "foo")).rest("foo") == ""
