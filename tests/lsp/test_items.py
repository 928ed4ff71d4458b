"""Laws of the items that an editor gets, in particular of those in its completion popup."""

import pytest
from lsprotocol.types import InsertTextMode, MarkupContent

from completiond_lsp.buffers import Item
from completiond_lsp.documents import Position
from completiond_lsp.items import completion_list, inline_items, needs_fallback


def item(text: str, line: str, replace: int = 0) -> Item:
    at = len(line.encode("utf-16-le")) // 2
    return Item(text, Position(3, at), Position(3, at + replace), line, 7, 1)


def test_ghost_text_is_plain_with_its_range_and_its_id() -> None:
    (found,) = inline_items([item("b)", "f(a", replace=1)])
    assert (found.insert_text, found.filter_text) == ("b)", None)
    assert found.range is not None and found.command is not None
    assert (found.range.start.character, found.range.end.character) == (3, 4)
    assert found.command.arguments == [7, "b)"]
    assert inline_items([]) == []


@pytest.mark.parametrize(
    ("line", "word", "start"),
    [("x = 😀prin", "prin", 6), ("f(", "", 2), ("größe", "größe", 0), ("", "", 0)],
)
def test_a_popup_item_replaces_the_word_that_its_filter_names(
    line: str, word: str, start: int
) -> None:
    found = completion_list([item("t(1)", line, replace=1)] * 2, "utf-16")
    assert found.is_incomplete and len(found.items) == 1
    edit = found.items[0].text_edit
    assert edit is not None and edit.new_text == word + "t(1)"
    assert found.items[0].filter_text == word
    assert edit.range.start.character == start  # type: ignore[union-attr]


def test_other_lines_are_as_they_belong_into_the_file() -> None:
    lines = item("a:\n        b\n    c", "    if ")
    found = completion_list([lines], "utf-16").items[0]
    assert found.text_edit is not None and found.text_edit.new_text == lines.text
    assert found.insert_text_mode == InsertTextMode.AsIs


def test_a_fence_in_the_text_does_not_end_the_documentation() -> None:
    text = completion_list([item("```\nx", "")], "utf-16").items[0].documentation
    assert isinstance(text, MarkupContent)
    assert text.value == "````\n```\nx\n````"


def test_null_means_that_an_editor_draws_ghost_text() -> None:
    assert not needs_fallback({"textDocument": {"inlineCompletion": None}})
    assert not needs_fallback({"textDocument": {"inlineCompletion": {}}})
    assert needs_fallback({"textDocument": {}})
    assert needs_fallback({})
    assert needs_fallback(None)
