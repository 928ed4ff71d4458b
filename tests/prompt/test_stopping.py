"""Where a completion ends: each rule on text, and the same at every cut into tokens."""

from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.prompt.stopping import TextStop, rule, trim
from completiond.prompt.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
EOS = 256


def at(text: str, *, healed: str = "") -> dict[str, Any]:
    """The rule at the cursor `|` of `text`."""
    before, after = text.split("|")
    return rule(before, after, healed=healed, stop_ids=[EOS])


def run(data: dict[str, Any], text: str) -> tuple[str, str | None]:
    """What is shown, and the reason, when the model writes `text` byte by byte, then ends it."""
    stop, done = TextStop(data, TOKENIZER.token_bytes), []
    for token in [*TOKENIZER.encode(text), EOS]:
        done.append(token)
        reason = stop.step([token])
        if reason:
            return trim(TOKENIZER.decode(done), data, reason), reason
    raise AssertionError("the end of text must stop a run")


CASES = {
    "end of text": ("x = |", "1", "1", "eos"),
    "one line where text follows": ("x = | + y\n", "a\nb", "a", "line"),
    "one line after a leading newline": ("x = | + y\n", "\na\nb", "\na", "line"),
    "one line loses its trailing blanks": ("x = | + y\n", "a  \r\nb", "a", "line"),
    "closers are not text that follows": ("f(|);\n", "a,\n  b", "a,\n  b", "eos"),
    "a blank line ends a paragraph": ("|", "a\nb\n\nc", "a\nb", "paragraph"),
    "so does one with blanks": ("|", "a\n  \nc", "a", "paragraph"),
    "so does one of CRLF": ("|", "a\r\n\r\nc", "a", "paragraph"),
    "leading blank lines do not": ("import os|", "\n\nx = 1\n\n", "\n\nx = 1", "paragraph"),
    "a shallower line ends a block": ("def f():\n    |", "a = 1\ndef g", "a = 1", "dedent"),
    "of a body that starts on the next line": ("def f():|", "\n    a\nb = 2", "\n    a", "dedent"),
    "a shallower blank line does not": ("  |", "a\n\n", "a", "paragraph"),
    "a deeper block goes on": ("  |", "if a:\n    b\n  c\n\n", "if a:\n    b\n  c", "paragraph"),
    "one closing line is allowed": ("f() {\n\t|", "a;\n}\nb", "a;\n}", "dedent"),
    "a word may close": ("def f\n  |", "a\nend\nb", "a\nend", "dedent"),
    "a word that begins like one may not": ("def f\n  |", "a\nendless\nb", "a", "dedent"),
    "closing and going on is no closing line": ("{\n  |", "a\n} else {\n", "a", "dedent"),
    "tabs count like the spaces they show": ("\t|", "a\n    b\n\n", "a\n    b", "paragraph"),
    "the suffix is reached": ("  |\n  last()\n", "a()\n  last()\n", "a()", "suffix"),
    "an inner closer is not the outer one": ("|\n}\n", "  if {\n  }\n}\n", "  if {\n  }", "suffix"),
    "the rest of the line is reached": ("f(|)\n", "\n  a,\n)\nb", "\n  a,\n", "suffix"),
    "a first line like the suffix": ("  |\n  a\n", "a\nb", "", "suffix"),
    "four equal lines are a loop": ("|", "a\na\na\na\na\n", "a", "repetition"),
    "three are not": ("|", "a\na\na\n\n", "a\na\na", "paragraph"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_completion_ends_where_its_rule_says(case: str) -> None:
    text, written, shown, reason = CASES[case]
    assert run(at(text), written) == (shown, reason)


@pytest.mark.parametrize("case", CASES)
def test_a_block_of_ids_stops_for_the_same_reason_and_shows_the_same(case: str) -> None:
    text, written, shown, reason = CASES[case]
    data = at(text)
    stop = TextStop(data, TOKENIZER.token_bytes)
    assert stop.step([*TOKENIZER.encode(written), EOS, 120, 120]) == reason
    assert trim(written, data, reason) == shown


def test_the_rule_is_plain_data() -> None:
    data = at("  x = foo|bar\n\n  y\n", healed=" foo")
    assert msgpack.unpackb(msgpack.packb(data)) == data


def test_the_healed_part_is_skipped_and_taken_away() -> None:
    data = at("a é|\n", healed=" é")
    assert run(data, " été\n\nb") == ("té", "paragraph")


def test_the_healed_part_ends_inside_a_token() -> None:
    data = at("fo|\n", healed="fo")
    spelled = {0: b"foo\n", 1: b"\nx"}
    stop = TextStop(data, spelled.__getitem__)
    assert stop.step([0]) is None
    assert stop.step([1]) == "paragraph"
    assert trim("foo\n\nx", data, "paragraph") == "o"


def test_a_run_that_did_not_spell_the_healed_part_shows_nothing() -> None:
    data = at("foo|", healed="foo")
    assert trim("fo", data, "length") == ""
    assert trim("bar", data, "eos") == ""


def test_half_a_character_at_a_limit_is_not_shown() -> None:
    assert trim("a\ufffd", at("|"), "length") == "a"


def test_a_run_that_was_cut_off_shows_complete_lines_if_it_has_any() -> None:
    assert trim("\na\n  b = lon", at("x|"), "length") == "\na"
    assert trim("\n  b = lon", at("x|"), "timeout") == "\n  b = lon"
    assert trim("a\n  b = lon", at("x|"), "") == "a\n  b = lon"


def test_legal_code_in_the_first_line_is_never_cut() -> None:
    for code in ("```", "// x", "t.Fatal(t)", "/src/", "a  # b", "})", "<fim_middle> = 1"):
        assert run(at("|\n"), code) == (code, "eos")


@given(st.text("ab {}()\n\t", max_size=60), st.text("a })\n ", max_size=12))
@settings(max_examples=200, deadline=None)
def test_what_is_shown_is_a_beginning_of_what_was_written(written: str, after: str) -> None:
    data = at(f"  x|{after}")
    shown, reason = run(data, written)
    assert written.startswith(shown)
    assert reason in {"eos", "line", "paragraph", "dedent", "suffix", "repetition"}
    assert trim(written, data, reason or "") == shown


@pytest.mark.parametrize(
    ("closers", "written", "shown", "reason"),
    [
        (")", "a, f(b))\nmore", "a, f(b))", "suffix"),
        (")", 'a, ")", b)', 'a, ")", b)', "suffix"),
        (")", "a, b", "a, b", "eos"),
        (")", "a,\n  b\n\nc", "a,\n  b", "paragraph"),
        (')"', "x", "x", "eos"),
        ('")', 'it)" + "b', 'it)"', "suffix"),
        ('""" ', 'a "b" c""" + d', 'a "b" c"""', "suffix"),
        ("\n}", "\n  a {\n  }\n}\nb", "\n  a {\n  }\n", "suffix"),
        ("])", "1], x)", "1]", "suffix"),
        ("}", "# don't\n  a}", "# don't\n  a}", "suffix"),
    ],
)
def test_a_completion_ends_where_it_closes_what_the_editor_has_closed(
    closers: str, written: str, shown: str, reason: str
) -> None:
    data = rule("x = f(", "\nnext = 1\n", healed="", stop_ids=[EOS], closers=closers)
    assert run(data, written) == (shown, reason)


@given(st.text('ab )("\n', max_size=40), st.sampled_from([")", '"', "\n}"]))
@settings(max_examples=200, deadline=None)
def test_what_is_shown_inside_a_pair_is_the_same_at_every_cut(written: str, closers: str) -> None:
    data = rule("  x(", "\n", healed="", stop_ids=[EOS], closers=closers)
    shown, reason = run(data, written)
    assert written.startswith(shown)
    whole = trim(written, data, reason or "")
    assert whole == shown
