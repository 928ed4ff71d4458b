"""Two moments of a buffer: what was typed is found whatever editors and windows add to it."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import WINDOW_STEP, Snapshot
from completiond.moments import FAR, Since, accepted, place, same_around, since, typed_since


def at(text: str) -> Snapshot:
    before, after = text.split("|")
    return Snapshot("d", 1, "python", "a.py", before, after)


def window(text: str, cursor: int) -> Snapshot:
    return Snapshot.around(text, cursor, document="d", version=1, language="", path="")


CASES = {
    # what the editor does: before, then after, what was typed, closers that came, typed over
    "python, a call": ("x = foo|\n", "x = foo(|)\n", "(", ")", 0),
    "and its argument": ("x = foo|\n", "x = foo(a|)\n", "(a", ")", 0),
    "typed over": ("x = foo|\n", "x = foo(a)|\n", "(a)", "", 0),
    "typed over, seen from inside": ("foo(|)\n", "foo(a)|\n", "a)", "", 1),
    "typed although there was none": ("foo(|\n", "foo(a)|\n", "a)", "", 0),
    "a closer that was there": ("print(|)\n", "print(foo(|))\n", "foo(", ")", 0),
    "that and no auto-close": ("print(|)\n", "print(foo(|)\n", "foo(", "", 0),
    "a string": ("x = |\n", 'x = "|"\n', '"', '"', 0),
    "a string in a call": ("x = |\n", 'x = f("a|")\n', 'f("a', '")', 0),
    "of which only the call was closed": ("x = |\n", 'x = f("a|)\n', 'f("a', ")", 0),
    "out of a string": ('x = "a|"\n', 'x = "ab"|\n', 'b"', "", 1),
    "three quotes": ("|\n", '"""|"""\n', '"""', '"""', 0),
    "typescript, quotes": ("const a = |;", "const a = ['|'];", "['", "']", 0),
    "typescript, a template": ("const a = |;", "const a = `${b|}`;", "`${b", "}`", 0),
    "typescript, an object in a call": ("f|", "f({ a: [|]})", "({ a: [", "]})", 0),
    "a line end between braces": ("if x |\n", "if x {\n\t|\n}\n", "{\n\t", "\n}", 0),
    "the same, seen from inside": ("if x {|}\n", "if x {\n\t|\n}\n", "\n\t", "\n", 0),
    "go, a function literal": ("go |", "go func() {\n\tf(|)\n}", "func() {\n\tf(", ")\n}", 0),
    "with the line ends of its buffer": ("x |\r\n", "x {\r\n\t|\r\n}\r\n", "{\r\n\t", "\r\n}", 0),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_typed_is_found_behind_what_the_editor_closed(case: str) -> None:
    old, new, typed, closers, over = CASES[case]
    assert since(at(old), at(new)) == Since(typed, closers, over)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("foo|\n", "foo(|]\n"),  # no closer of what was typed
        ("foo|\n", "foo|)\n"),  # nothing was opened
        ("foo|\n", "foo(a)|)\n"),  # it is closed already
        ("foo|\n", "foo(|) + 1\n"),
        ("foo(|)\n", "foo(|\n"),  # lost without being typed over
        ("foo(|)\n", "foo(a|\n"),
        ("foo|\nbar\n", "foo\n|bar\n"),
        ("foo|\n", "fo|\n"),
        ("foo|\n", "fob|\n"),
        ("f(|)\n", "f(\n  |x\n)\n"),
    ],
)
def test_another_change_is_no_typing(old: str, new: str) -> None:
    assert since(at(old), at(new)) is None


def test_one_backspace_over_a_pair_returns_to_the_moment_before() -> None:
    assert since(at("foo|\n"), at("foo|\n")) == Since("")
    assert since(at("foo(|)\n"), at("foo|\n")) is None


def test_only_one_document_and_one_beginning_are_compared() -> None:
    here = at("ab|c")
    assert same_around(here, replace(here, before="axx"))
    assert not same_around(here, replace(here, document="e"))
    assert not same_around(here, replace(here, prefix_hash="other"))
    assert not same_around(here, replace(here, after="d"))


TEXT = "".join(f"line {n} of a file that is longer than any window\n" for n in range(2_000))


@pytest.mark.parametrize("cursor", [WINDOW_STEP * n - 3 for n in (1, 2, 4, 5, 6, 9)])
def test_typing_across_a_step_of_the_window_is_typing(cursor: int) -> None:
    old = window(TEXT, cursor)
    for n in range(8):
        now = window(TEXT[:cursor] + "typed on"[:n] + TEXT[cursor:], cursor + n)
        assert typed_since(old, now) == "typed on"[:n]
    assert now.offset != old.offset or cursor < 5 * WINDOW_STEP - 3
    assert len(now.after) != len(old.after)


def test_a_change_that_a_window_shows_is_seen_across_a_step() -> None:
    cursor = 6 * WINDOW_STEP - 1
    old = window(TEXT, cursor)
    for changed in (cursor - 5_000, cursor - 3, cursor + 5, cursor + FAR - 2):
        text = TEXT[:changed] + "#" + TEXT[changed + 1 :]
        now = window(text[:cursor] + "abc" + text[cursor:], cursor + 3)
        assert now.offset != old.offset
        assert since(old, now) is None


def test_a_short_file_that_grew_at_its_end_has_changed() -> None:
    assert since(at("a|b\n"), at("ax|b\nc")) is None
    assert since(at("a|"), at("ax|y")) is None


def test_a_jump_of_the_cursor_is_no_typing() -> None:
    assert since(window(TEXT, 100), window(TEXT, 60_000)) is None


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(TEXT)), st.text('ab("[{)]}\n', max_size=8))
def test_typing_is_always_seen_in_a_window_of_any_file(cursor: int, typed: str) -> None:
    old = window(TEXT, cursor)
    new = window(TEXT[:cursor] + typed + TEXT[cursor:], cursor + len(typed))
    assert typed_since(old, new) == typed


@given(st.text("ab(){}\n", max_size=12), st.text("ab(){}\n", max_size=12), st.data())
def test_what_is_said_to_be_typed_explains_the_text(
    before: str, after: str, data: st.DataObject
) -> None:
    text = data.draw(st.text("ab(){}\n", max_size=12))
    cursor = data.draw(st.integers(0, len(text)))
    old, new = at(f"{before}|{after}"), at(f"{before}{text[:cursor]}|{text[cursor:]}{after}")
    found = since(old, new)
    if found is not None:
        assert old.before + found.typed == new.before
        assert found.closers + old.after[found.over :] == new.after


def test_an_accepted_text_has_the_line_ends_of_its_buffer() -> None:
    assert accepted(at("a\r\nb|c"), "x\ny").before == "a\r\nbx\r\ny"
    assert accepted(at("a\nb|c"), "x\ny").before == "a\nbx\ny"
    assert place(replace(at("ab|"), offset=10)) == 12
