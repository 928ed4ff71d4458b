"""Laws of typing through an answer."""

from completiond_lsp.documents import Edit
from completiond_lsp.typed import Typed


def after(*edits: Edit, start: int = 10) -> Typed:
    typed = Typed(start)
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


def test_a_line_end_of_the_document_matches_a_line_feed_of_the_answer() -> None:
    assert after(Edit(10, 0, "\r\n    ")).rest("\n    pass") == "pass"


def test_an_answer_that_was_typed_to_its_end_leaves_nothing() -> None:
    assert after(Edit(10, 0, "foo")).rest("foo") == ""
