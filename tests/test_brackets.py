"""What a piece of text opens and closes, as editors see it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.brackets import REACH_BEFORE, balance, closable, closed_at, first, strays, within


@pytest.mark.parametrize(
    ("text", "closes", "opens"),
    [
        ("foo(", "", ")"),
        ("foo(a, [b", "", "])"),
        ("foo(a)", "", ""),
        ('print("', "", '")'),
        ('print("a', "", '")'),
        ('print("a")', "", ""),
        ('x = """', "", '"""'),
        ('x = """a"b', "", '"""'),
        ('x = ""', "", ""),
        ("`${a", "", "}`"),
        ("`${a}`", "", ""),
        (r'"a\"', "", '"'),
        ("# don't\nfoo(", "", ")"),
        ("a)", ")", ""),
        ("a)]", ")]", ""),
        ("func f() {\n\tg(", "", ")}"),
    ],
)
def test_what_a_text_closes_and_leaves_open(text: str, closes: str, opens: str) -> None:
    assert balance(text) == (closes, opens)


@pytest.mark.parametrize(
    ("before", "text", "closes", "opens"),
    [
        ('f("', 'a")', '")', ""),
        ('f("', "a", "", ""),
        ("f('", "it", "", ""),
        ("f(", ")", ")", ""),
        ("f(g(", "a), b", ")", ""),
        ("f(", "a), g(", ")", ")"),
    ],
)
def test_the_line_in_front_says_what_is_open_already(
    before: str, text: str, closes: str, opens: str
) -> None:
    assert balance(text, before) == (closes, opens)


@given(st.text("ab([{", max_size=12), st.text("ab([{", max_size=12))
def test_what_is_opened_is_closed_by_what_it_lacks(text: str, before: str) -> None:
    lacks = balance(text, before).opens
    assert balance(text + lacks, before) == ("", "")
    assert balance(lacks, before + text) == (lacks, "")


def test_strays_are_those_that_the_text_did_not_open() -> None:
    assert list(strays("f(a), b) + [c]] )")) == [7, 14, 16]
    assert list(strays('")" + "]"')) == []


def test_where_a_text_that_grows_closes_what_was_open() -> None:
    assert closed_at("a, f(b)) + c", ")") == 7
    assert closed_at("a, f(b)", ")") is None
    assert closed_at('a, ")', ")") is None  # the string may go on
    assert closed_at('a, ")")', ")") == 6
    assert closed_at(r'a\" b" + c', '"') == 5
    assert closed_at('a" b""" + c', '"""') == 4


def test_three_quotes_are_one_closer_and_editors_do_not_write_every_closer() -> None:
    assert [first(text) for text in (")]", '"""', "")] == [")", '"""', ""]
    assert within(")}", ")]}") and not within("})", ")]}") and within("", ")")


def test_a_line_that_the_window_begins_in_is_not_at_the_left_edge() -> None:
    inside = "  f(a, b);\n" * (REACH_BEFORE // 11 + 9)
    for shift in range(11):
        before = f"class A {{\n{' ' * shift}{inside}  /** {{@link "
        assert closable(before, "\n   */\n  g() {\n  }\n}\n") is None


@pytest.mark.parametrize("text", ["[`", "\n[", "'[x"])
def test_a_text_of_brackets_that_nobody_closes_is_read_at_once(text: str) -> None:
    began = time.process_time()
    assert balance(text * 20_000).opens
    assert time.process_time() - began < 1.0
