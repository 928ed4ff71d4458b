"""What is drawn never repeats what is there; `|` is the cursor."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import Snapshot
from completiond.postprocess.clean import clean


def at(text: str) -> Snapshot:
    before, after = text.split("|")
    return Snapshot("d", 1, "", "a", before, after)


CASES = {
    "the rest of the line": ("Not |`≠`", "equal `≠`", "equal "),
    "a closer that is there": ("Params(|)", "0)", "0"),
    "and whatever comes after it": ("Params(|)", "0) != 0 {", "0"),
    "but not a closer that the text opened": ("foo(|)", "bar(x)", "bar(x)"),
    "nor one inside a string": ("foo(|)", '")"', '")"'),
    "several closers": ("foo(bar[|])", "i])", "i"),
    "an overlap that would unbalance stays": ("x = |y) + z", "(y)", "(y)"),
    "a rest longer than the overlap": ("x = |return y", "a; return", "a; "),
    "a short overlap stays": ("x = |if y", "a if", "a if"),
    "a quote that is there": ('f("|")', 'hello"', "hello"),
    "and whatever comes after the quote": ('f("|")', 'a", "b") + 1', 'a", "b'),
    "but not strings of the text's own": ('f("|")', 'a", "b', 'a", "b'),
    "a NUL ends it": ("x = |", "1\0\0", "1"),
    "so does an escape sequence": ("x = |", "1\x1b[31m2", "1"),
    "and half a character": ("x = |", "'a\ufffd", "'a"),
    "but not a tab": ("|", "\ta = 1\n\tb = 2", "\ta = 1\n\tb = 2"),
    "a line ends in LF": ("|", "a\r\nb\rc", "a\nb\nc"),
    "the line below": ("a\n|\nb\nc\n", "x\nb\nc", "x"),
    "a block closer": ("{\n  |\n}\n", "a\n}", "a"),
    "a closer that begins the line below": ("{\n\t|\n} else {\n", "x\n}", "x"),
    "and whatever comes after it there": ("{\n\t|\n}\n", "x\n}\ny", "x"),
    "what closes another block stays": ("{\n  {\n    |\n}\n", "x\n  }\n  y", "x\n  }\n  y"),
    "a closer too few": ("f(g(|)", "x), y)", "x), y"),
    "a closer of another kind first": ("f([|)", "x])", "x]"),
    "three quotes that are there": ('"""|"""', 'a "b".""" + 1', 'a "b".'),
    "the string that is closed already": ('f("|")', 'a")\ng("b")', "a"),
    "a deeper closer stays": ("{\n  |\n}\n", "if {\n  }", "if {\n  }"),
    "a mid-line tail that is below": ("f(|)\nx = 1\ny = 2\n", "a\nx = 1\ny = 2", "a"),
    "blank lines do not hide it": ("|\n\nb\n", "x\n\nb", "x"),
    "the same with CRLF": ("|\r\nb\r\n", "x\nb", "x"),
    "an echo of the line": ("print(|)", "print(print()</fim_middle>", "print()"),
    "recursion is no echo": ("max(|", "max(a, b)", "max(a, b)"),
    "a sentinel": ("x = |", "1<|fim_pad|>y", "1"),
    "full-width sentinels": ("x = |", "1<｜end▁of▁sentence｜>", "1"),
    "a usage message is no sentinel": ("|", "prog <filename> <<EOT>", "prog <filename> <<EOT>"),
    "trailing blanks": ("x = |\n", "1  \n", "1"),
    "blanks before text that follows stay": ("x = |+ 1", "a ", "a "),
}


@pytest.mark.parametrize("case", CASES)
def test_a_suggestion_loses(case: str) -> None:
    text, written, shown = CASES[case]
    assert clean(written, at(text)) == (shown, "")


@pytest.mark.parametrize(
    ("text", "written", "reason"),
    [
        ("x|", " \n\t", "blank"),
        ("x = |", "<|endoftext|>", "sentinel"),
        ("f(|)", ")", "repeats_suffix"),
        ("x = |y + 1", "y + 1", "repeats_suffix"),
        ("a\n|\nb = 1\n", "b = 1", "repeats_next_lines"),
        ("a|\nb\nc\nd\ne\n", "\nb\nc\nd\ne", "repeats_next_lines"),
    ],
)
def test_nothing_is_left_for_a_named_reason(text: str, written: str, reason: str) -> None:
    assert clean(written, at(text)) == ("", reason)


def test_only_closers_are_shown() -> None:
    assert clean("})", at("foo({|")) == ("})", "")


@given(st.text("ab(){}\n x", max_size=30), st.text("ab)\n }", max_size=20))
@settings(max_examples=300, deadline=None)
def test_a_suggestion_is_only_ever_shortened(written: str, after: str) -> None:
    shown, reason = clean(written, at(f"a(|{after}"))
    assert written.find(shown) >= 0
    assert bool(shown) is not bool(reason)
