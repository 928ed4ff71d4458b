"""Where a completion ends: each rule on text, and the same at every cut into tokens."""

import time
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.prompt.reading import STOPS, Reader
from completiond.prompt.stopping import Cursor, TextStop, rule, trim
from completiond.prompt.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
EOS = 256


def at(text: str, *, healed: str = "") -> dict[str, Any]:
    """The rule at the cursor `|` of `text`."""
    before, after = text.split("|")
    return rule(Cursor(before, after), healed=healed, stop_ids=[EOS])


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
    "leading blank lines do not": ("|", "\n\nx = 1\n\n", "\n\nx = 1", "paragraph"),
    "a line that has begun is one statement": ("x = |", "1\ny = 2\n", "1", "statement"),
    "that goes on while a bracket is open": ("f(|", "a,\n  b)\ng()\n", "a,\n  b)", "statement"),
    "or an operator waits": ("x = |", "a +\n  b\nc\n", "a +\n  b", "statement"),
    "or a string of several lines": ('x = """|', 'a\nb\n"""\nc', 'a\nb\n"""', "statement"),
    "or a text of a shell": ("cat <|", "<EOF\na\nEOF\nb\n", "<EOF\na\nEOF", "statement"),
    "also an indented one of Ruby": (
        "x = f(|)\n",
        "<<~SQL)\n  a\nSQL\nb\n",
        "<<~SQL",
        "suffix",
    ),
    "but no shift": ("x = a|", " << BITS;\ny;\nBITS\n", " << BITS;", "statement"),
    "in which a line may stand at any depth": (
        "f() {\n  |\n}\n",
        "cat <<'END'\na {\nEND\n  b\n}\n",
        "cat <<'END'\na {\nEND\n  b",
        "suffix",
    ),
    "or a block in brackets": ("if (a|", ") {\n  b;\n}\nc\n", ") {\n  b;\n}", "statement"),
    "and its other branch": ("if (a|", ") {\n} else {\n}\nc\n", ") {\n} else {\n}", "statement"),
    "or its body is to come": ("if (a|", ")\n  b();\nc();\n", ")\n  b();", "statement"),
    "also behind another one": (
        "\tfor (;|",
        ";)\n\t\tif (a)\n\t\t\tb();\n\tc();\n",
        ";)\n\t\tif (a)\n\t\t\tb();",
        "statement",
    ),
    "or its bracket, on a line of its own": (
        "while (a|",
        ")\n{\n  b();\n}\nc();\n",
        ")\n{\n  b();\n}",
        "statement",
    ),
    "or what a mark belongs to": (
        "@cac|",
        "he(1)\ndef f():\n  a\nb\n",
        "he(1)\ndef f():\n  a",
        "dedent",
    ),
    "or an attribute": ("#[te|", "st]\nfn f() {\n}\nb\n", "st]\nfn f() {\n}", "statement"),
    "whose brackets may take several lines": (
        "@f|",
        "(\n  1,\n)\ndef g():\n  a\nb\n",
        "(\n  1,\n)\ndef g():\n  a",
        "dedent",
    ),
    "square ones too": (
        "#[f|",
        "(\n  1\n)]\nfn g() {\n}\nb\n",
        "(\n  1\n)]\nfn g() {\n}",
        "statement",
    ),
    "but not what has its mark in front": (
        "@a(1) f|",
        "un b() = c(2)\nd\n",
        "un b() = c(2)",
        "statement",
    ),
    "nor a condition behind a call": ("f(a|", ") if (b)\nc\n", ") if (b)", "statement"),
    "nor a way out of a branch": ("if (a) ret|", "urn\nb\n", "urn", "statement"),
    "but not where the body stands below": (
        "if (a|\n  b();\n",
        ")\n  b();\n",
        ")",
        "statement",
    ),
    "nor behind the head of a loop at its end": ("} whi|", "le (a)\nb\n", "le (a)", "statement"),
    "a blank line behind what opens a block is of it": (
        "fn f|",
        "() {\n\n  a();\n\n  b();\n",
        "() {\n\n  a();",
        "paragraph",
    ),
    "in a language of blanks too": (
        "|",
        "def f():\n\n  a\n\n  b\n",
        "def f():\n\n  a",
        "paragraph",
    ),
    "also where that line had begun": ("def f|", "g(a)\n\n  b\n\n", "g(a)\n\n  b", "paragraph"),
    "or a function's body": (
        "x = f|",
        "unction(a)\n  return a\nend\ny\n",
        "unction(a)\n  return a\nend",
        "dedent",
    ),
    "or what a word and its names open": (
        "xs.map|",
        " do |a|\n  a\nend\ny\n",
        " do |a|\n  a\nend",
        "dedent",
    ),
    "or a macro of several lines": (
        "\t#|",
        "define A(x) \\\n\t  b(x)\nc\n",
        "define A(x) \\\n\t  b(x)",
        "statement",
    ),
    "a block that the line opens": ("if a|:", "", "", "eos"),
    "is part of it": ("if a|", ":\n  b\n  c\nx", ":\n  b\n  c", "dedent"),
    "down to its last line": ("  if a|", ":\n    b\n  c", ":\n    b", "dedent"),
    "whose bracket may stand below": ("else|", "\n{\n  a;\n}\nb\n", "\n{\n  a;\n}", "dedent"),
    "a comment's end is no operator": ("// a|", " - b -\nc\n", " - b -", "statement"),
    "one more where the line is complete": ("x = 1|", "\ny = 2\nz\n", "\ny = 2", "statement"),
    "with its block": ("f()|", "\nif a:\n  b\nc\n", "\nif a:\n  b", "dedent"),
    "a closer that is there ends it at once": ("f(|)", "a) + b\n", "a", "suffix"),
    "but not one that the text opened": ("f(|)", "g(a), b)", "g(a), b", "suffix"),
    "nor one that is missing": ("f(g(|)\n", "a), b)", "a), b", "suffix"),
    "a block's end that is there": ("{\n  {\n  |\n  }\n}\n", "a\n }\nb", "a", "bracket"),
    "but not one that opens again": (
        "{\n|\n}\n",
        "a\n} else {\nb\n\n",
        "a\n} else {\nb",
        "paragraph",
    ),
    "lines in turn are a loop": ("|", "a\nb\n" * 5, "a\nb", "repetition"),
    "a ruler is not": ("# |", "-" * 200, "-" * 200, "eos"),
    "a control token's name": ("x = |", "1</fim_middle>2", "1", "sentinel"),
    "not where the buffer is about them": (
        "'<fim_prefix>', |",
        "'<fim_suffix>'",
        "'<fim_suffix>'",
        "eos",
    ),
    "lines above one that stands there": ("|b\n", "a\nb\nc", "a\n", "suffix"),
    "are whole ones": ("|b\n", "a\n\nc", "a\n", "paragraph"),
    "a shallower line ends a block": ("def f():\n    |", "a = 1\ndef g", "a = 1", "dedent"),
    "of a body that starts on the next line": ("def f():|", "\n    a\nb = 2", "\n    a", "dedent"),
    "a shallower blank line does not": ("  |", "a\n\n", "a", "paragraph"),
    "a deeper block goes on": ("  |", "if a:\n    b\n  c\n\n", "if a:\n    b\n  c", "paragraph"),
    "nor does one in a string": (
        "def f():\n    |",
        'x = """\na\n"""\n    y\nz\n',
        'x = """\na\n"""\n    y',
        "dedent",
    ),
    "of any language": (
        "function f() {\n  |",
        "g(`\nSELECT\n`);\n  b;\n}\nz\n",
        "g(`\nSELECT\n`);\n  b;\n}",
        "dedent",
    ),
    "but a quoted word in a comment opens none": (
        "{\n  |",
        "// the `a' of it\n  b;\n}\nz\n",
        "// the `a' of it\n  b;\n}",
        "dedent",
    ),
    "one closing line is allowed": ("f() {\n\t|", "a;\n}\nb", "a;\n}", "dedent"),
    "a word may close": ("def f\n  |", "a\nend\nb", "a\nend", "dedent"),
    "a word that begins like one may not": ("def f\n  |", "a\nendless\nb", "a", "dedent"),
    "closing and going on is no closing line": ("{\n  |", "a\n} else {\n", "a", "dedent"),
    "tabs count like the spaces they show": ("\t|", "a\n    b\n\n", "a\n    b", "paragraph"),
    "the suffix is reached": ("  |\n  last()\n", "a()\n  last()\n", "a()", "suffix"),
    "an inner closer is not the outer one": ("|\n}\n", "  if {\n  }\n}\n", "  if {\n  }", "suffix"),
    "the rest of the line is reached": ("f(|)\n", "\n  a,\n)\nb", "\n  a,\n", "suffix"),
    "as soon as it is told": ("  |\n  f(a.b, c)\n", "a()\n  f(a.b, ", "a()", "suffix"),
    "not by what others begin with": (
        "  |\n  f(a.b, c)\n  f(a.b, d)\n",
        "a()\n  f(a.b, e)\n",
        "a()\n  f(a.b, e)\n",
        "eos",
    ),
    "nor by a longer word": ("|\nx = y\n", "x = yes\n", "x = yes\n", "eos"),
    "a line that says more than it": ("  |\n  last\n", "a()\n  last + 1", "a()", "suffix"),
    "not where it closes what that opens": ("|\nf(\n", "a\nf(x)\n", "a\nf(x)\n", "eos"),
    "it is reached before its line ends": ("|f(x);\n", "a;\nf(x);", "a;\n", "suffix"),
    "so is the rest of the line": ("x = |if a else b\n", "c if a else b", "c ", "suffix"),
    "a block that is there": ("if a|\n  b()\n", ":\n  c()\n", ":", "statement"),
    "a list that is there": ("f(|\n  a,\n)\n", "[\n  b", "[", "statement"),
    "not one that stands less deep": (
        "  if a|\n  b()\n",
        ":\n    c()\n\n",
        ":\n    c()",
        "paragraph",
    ),
    "not by a mark that many have": (
        "|\n\n@Test\nvoid g() {\n}\n",
        "@Test\nvoid f() {\n}\n\n@Test",
        "@Test\nvoid f() {\n}",
        "paragraph",
    ),
    "nor by the beginning of a comment": (
        "  |\n  /**\n   * One.\n   */\n  a();\n",
        "/**\n   * Two.\n   */\n  b();\n  /**\n   * One.\n",
        "/**\n   * Two.\n   */\n  b();",
        "suffix",
    ),
    "also in front of it": (
        "|#[test]\nfn a() {}\n",
        "#[test]\nfn b() {}\n#[test]\nfn a() {}\n",
        "#[test]\nfn b() {}\n",
        "suffix",
    ),
    "it takes its mark with it": (
        "  |\n  @a\n  @b(1)\n  def f():\n    c\n",
        "@a\n  @b(1)\n  def f():\n    c\n",
        "",
        "suffix",
    ),
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


TEXTS = sorted({text.partition("|")[2] + written for text, written, _, _ in CASES.values()})


@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=200, deadline=None)
def test_a_text_ends_at_the_same_place_however_it_is_cut(text: str, data: st.DataObject) -> None:
    """Also for the same reason, with any line end right of the cursor and any hole in the text."""
    start = data.draw(st.integers(0, len(text)), "cursor")
    end = data.draw(st.integers(start, len(text)), "end of the hole")
    rule_at = rule(Cursor(text[:start], text[end:]), healed="", stop_ids=[EOS])
    whole, reader, found = Reader(rule_at).feed(text[start:]), Reader(rule_at), None
    while start < len(text) and found is None:
        size = data.draw(st.integers(1, 9), "piece")
        found, start = reader.feed(text[start : start + size]), start + size
    assert found == whole


def test_the_rule_is_plain_data() -> None:
    data = at("  x = foo|bar\n\n  y\n", healed=" foo")
    assert msgpack.unpackb(msgpack.packb(data)) == data


def test_the_healed_part_is_skipped_and_taken_away() -> None:
    data = at("a é|\n", healed=" é")
    assert run(data, " été\n\nb") == ("té", "statement")


def test_the_healed_part_ends_inside_a_token() -> None:
    data = at("fo|\n", healed="fo")
    spelled = {0: b"foo\n", 1: b"\nx"}
    stop = TextStop(data, spelled.__getitem__)
    assert stop.step([0]) == "statement"
    assert trim("foo\n", data, "statement") == "o"


def test_a_run_that_did_not_spell_the_healed_part_shows_nothing() -> None:
    data = at("foo|", healed="foo")
    assert trim("fo", data, "length") == ""
    assert trim("bar", data, "eos") == ""


def test_half_a_character_at_a_limit_is_not_shown() -> None:
    assert trim("a\ufffd", at("|"), "length") == "a"


def test_a_run_that_was_cut_off_shows_complete_lines_if_it_has_any() -> None:
    assert trim("\na\n  b = lon", at("|"), "length") == "\na"
    assert trim("\n  b = lon", at("|"), "timeout") == "\n  b = lon"
    assert trim("a\n  b = lon", at("|"), "") == "a\n  b = lon"


def test_legal_code_in_the_first_line_is_never_cut() -> None:
    for code in ("```", "// x", "t.Fatal(t)", "/src/", "a  # b", "})", "<file> = 1", "case x)"):
        assert run(at("|\n"), code) == (code, "eos")


def test_a_line_of_the_same_few_characters_is_a_loop() -> None:
    assert run(at("x = [|"), "1, " * 80) == ("1, ", "repetition")


@pytest.mark.slow
@pytest.mark.parametrize("piece", [" # ", " // ", '\\"', "function ", "if (a) ", "@a(b) ", "=`"])
def test_a_long_line_costs_what_its_length_costs(piece: str) -> None:
    """Each step is far under a second; in the square of the length it is ten."""
    line = 'x = "' + piece * (65_536 // len(piece)) + ")"
    started = time.process_time()
    for text in ("\nf(1)\ng\n", "\n\nf(1)\ng\n", " +\nf(1)\ng\n"):
        Reader(at(f"{line}|\n{line}\n")).feed(text)
    assert time.process_time() - started < 5


@pytest.mark.parametrize("language", ["shellscript", "markdown"])
def test_brackets_that_nobody_opened_are_legal_in_some_languages(language: str) -> None:
    data = rule(Cursor("1", "\n", language), healed="", stop_ids=[EOS])
    assert run(data, ") a\n") == (") a", "statement")


def test_a_person_who_asks_gets_more_than_a_statement() -> None:
    data = rule(Cursor("x = ", "\n"), healed="", stop_ids=[EOS], invoked=True)
    assert run(data, "1\ny = 2\n\nz") == ("1\ny = 2", "paragraph")
    data = rule(Cursor("def f():\n    ", "\n"), healed="", stop_ids=[EOS], invoked=True)
    assert run(data, "a\n\n    b\n\n\nc") == ("a\n\n    b", "dedent")


@pytest.mark.parametrize("name", STOPS)
def test_every_rule_can_be_left_out(name: str) -> None:
    """Each ends a text of its own, and only it does."""
    text, written = {
        "statement": ("x = |", "1\n2\n"),
        "paragraph": ("|", "a\n\n"),
        "dedent": ("|", "  a\nb\n"),
        "suffix": ("|\nb", "a\nb\n"),
        "bracket": ("{|}", "\n)\n"),
        "repetition": ("|", "a\n" * 5),
        "sentinel": ("|", "</fim_middle>"),
    }[name]
    cursor = Cursor(*text.split("|"))
    assert run(rule(cursor, healed="", stop_ids=[EOS]), written)[1] == name
    assert run(rule(cursor, healed="", stop_ids=[EOS], off=[name]), written)[1] == "eos"


@given(st.text("ab {}()\n\t", max_size=60), st.text("a })\n ", max_size=12))
@settings(max_examples=200, deadline=None)
def test_what_is_shown_is_a_beginning_of_what_was_written(written: str, after: str) -> None:
    data = at(f"  x|{after}")
    shown, reason = run(data, written)
    assert written.startswith(shown)
    assert reason in {"eos", "line", *STOPS}
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
    data = rule(Cursor("x = f(", "\nnext = 1\n", "", closers), healed="", stop_ids=[EOS])
    assert run(data, written) == (shown, reason)


@given(st.text('ab )("\n', max_size=40), st.sampled_from([")", '"', "\n}"]))
@settings(max_examples=200, deadline=None)
def test_what_is_shown_inside_a_pair_is_the_same_at_every_cut(written: str, closers: str) -> None:
    data = rule(Cursor("  x(", "\n", "", closers), healed="", stop_ids=[EOS])
    shown, reason = run(data, written)
    assert written.startswith(shown)
    whole = trim(written, data, reason or "")
    assert whole == shown
