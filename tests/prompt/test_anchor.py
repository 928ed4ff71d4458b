"""An anchor stays while one types on, and moves when staying would cost or mislead."""

from hypothesis import given
from hypothesis import strategies as st
from test_builder import at, builder, said

from completiond.prompt.anchor import split_at
from completiond.prompt.builder import Built, PromptBuilder
from completiond.prompt.tokenizer import ByteTokenizer

TOP = "import os\n" * 8
HEAD = TOP + "\n" * 7 + "def f(a):\n"
TAIL = "\n\nprint(f(1))\n"


def build(on: PromptBuilder, before: str, kept: str | None = None) -> Built:
    return on.build(at(before + TAIL, len(before)), max_tokens=8, kept=kept)


@given(st.text("ab \n\t", max_size=30), st.integers(0, 30))
def test_the_parts_of_a_split_are_the_text_wherever_the_anchor_is(text: str, anchor: int) -> None:
    split = split_at(text, min(anchor, len(text)))
    assert split.prefix + split.typed + split.healed == text
    assert "\n" not in split.healed


def test_typing_on_over_lines_keeps_the_long_anchor_and_changes_the_end_only() -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout="long")
    first = build(on, HEAD + "    x = a")
    later = build(on, HEAD + "    x = a + 1\n    return x", first.prefix)
    assert first.prefix == later.prefix == TOP
    assert said(tokenizer, later, "typed").endswith("    x = a + 1\n    return")
    shared = len(first.prompt.ids) - 2  # the last word of the first was not typed out
    assert later.prompt.ids[:shared] == first.prompt.ids[:shared]


def test_the_anchor_moves_when_the_text_before_it_changed() -> None:
    on = builder(ByteTokenizer(), layout="long")
    assert build(on, HEAD + "    x", "import sys\n").prefix == TOP


def test_the_anchor_moves_when_the_typed_part_grows_too_long() -> None:
    on = builder(ByteTokenizer(), layout="long")
    lines = "    x = 1\n" * 40
    assert build(on, HEAD + lines + "    y", HEAD).prefix == HEAD + lines[: -8 * 10]
    assert build(on, HEAD + lines[:60], HEAD).prefix == HEAD


def test_the_layout_line_moves_at_every_line() -> None:
    on = builder(ByteTokenizer(), layout="line")
    assert build(on, HEAD + "    x = 1\n    y", HEAD).prefix == HEAD + "    x = 1\n"


def test_an_indentation_on_a_later_line_keeps_all_but_its_last_blank() -> None:
    split = split_at(HEAD + "    x = 1\n    ", len(HEAD))
    assert (split.typed, split.healed) == ("    x = 1\n   ", " ")


def test_a_new_anchor_leaves_as_many_lines_above_it_as_below() -> None:
    on = builder(ByteTokenizer(), layout="long")
    assert build(on, "a\n" * 16 + "b").prefix == "a\n" * 8
    assert build(on, "a\n" * 15 + "b").prefix == "a\n" * 11
    assert build(on, "a\n" * 3 + "b").prefix == "a\n" * 3
