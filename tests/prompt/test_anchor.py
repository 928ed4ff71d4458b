"""An anchor stays while one types on, and moves when staying would cost or mislead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_builder import at, builder, said

from completiond.prompt.anchor import split_at
from completiond.prompt.builder import Built, Kept, PromptBuilder
from completiond.prompt.tokenizer import ByteTokenizer

TOP = "import os\n" * 8
HEAD = TOP + "\n" * 3 + "def f(a):\n"
TAIL = "\n\nprint(f(1))\n"


def build(on: PromptBuilder, before: str, kept: str | None = None) -> Built:
    return on.build(at(before + TAIL, len(before)), max_tokens=8, kept=Kept(kept))


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
    assert build(on, HEAD + lines + "    y", HEAD).prefix == HEAD + lines[: -4 * 10]
    assert build(on, HEAD + lines[:60], HEAD).prefix == HEAD


def test_the_layout_line_moves_at_every_line() -> None:
    on = builder(ByteTokenizer(), layout="line")
    assert build(on, HEAD + "    x = 1\n    y", HEAD).prefix == HEAD + "    x = 1\n"


def test_an_indentation_on_a_later_line_keeps_all_but_its_last_blank() -> None:
    split = split_at(HEAD + "    x = 1\n    ", len(HEAD))
    assert (split.typed, split.healed) == ("    x = 1\n   ", " ")


def test_a_new_anchor_leaves_as_many_lines_above_it_as_below() -> None:
    on = builder(ByteTokenizer(), layout="long")
    assert build(on, "a\n" * 8 + "b").prefix == "a\n" * 4
    assert build(on, "a\n" * 7 + "b").prefix == "a\n" * 5
    assert build(on, "a\n" * 3 + "b").prefix == "a\n" * 3


LONG = "".join(f"def name_{i}(a, b):\n    return a + {i}\n\n\n" for i in range(200))


def jumped(on: PromptBuilder, cursor: int, last: Built | None = None) -> Built:
    """The prompt where the cursor has just come, or (`last`) come from there."""
    kept = last.kept._replace(prefix=None) if last is not None else Kept()
    return on.build(at(LONG, cursor), max_tokens=8, kept=kept)


def first(tokenizer: ByteTokenizer, built: Built) -> str:
    return said(tokenizer, built, "prefix")[:80]


def test_a_jump_nearby_leaves_the_beginning_of_the_prefix_where_it_was() -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout="long")
    here = jumped(on, 5_000)
    for cursor in (5_050, 4_700, 4_990):
        there = jumped(on, cursor, here)
        assert first(tokenizer, there) == first(tokenizer, here)
        assert len(said(tokenizer, there, "prefix")) <= 1_536
    assert first(tokenizer, jumped(on, 4_100, here)) != first(tokenizer, here)  # too little is left
    assert first(tokenizer, jumped(on, 6_500, here)) != first(tokenizer, here)  # too much would be


def test_an_edit_at_the_beginning_of_the_prefix_moves_it() -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout="long")
    here = jumped(on, 5_000)
    at_edge = LONG.index(first(tokenizer, here)) + 20
    text = LONG[:at_edge] + "#" + LONG[at_edge:]
    there = on.build(at(text, 5_001), max_tokens=8, kept=here.kept)
    assert text[:5_001].endswith(said(tokenizer, there, "prefix") + there.typed + there.healed)


def test_who_has_just_come_gets_the_near_suffix_and_who_types_on_all_of_it() -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout="long")
    last, lengths = jumped(on, 5_000), []
    for typed in range(0, 900, 30):
        text = LONG[:5_000] + ("x = 1\n" * 200)[:typed]
        snapshot = at(text + LONG[5_000:], len(text))
        last = on.build(snapshot, max_tokens=8, kept=last.kept)
        lengths.append(len(said(tokenizer, last, "suffix")))
    near = lengths.count(lengths[0])
    assert lengths[0] <= 128 < 400 < lengths[-1] <= 512
    assert lengths == [lengths[0]] * near + [lengths[-1]] * (30 - near)  # one step, at one key
    assert 0 < near < 15


@pytest.mark.parametrize("layout", ["suffix_first", "cursor"])
def test_other_layouts_always_have_all_of_the_suffix(layout: str) -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout=layout)
    assert len(said(tokenizer, jumped(on, 5_000), "suffix")) > 400


def test_a_split_that_moves_at_each_line_has_the_near_part_of_the_suffix() -> None:
    tokenizer = ByteTokenizer()
    on = builder(tokenizer, layout="line")
    last = jumped(on, 5_000)
    for lines in range(12):
        text = LONG[:5_000] + "x = 1\n" * lines
        last = on.build(at(text + LONG[5_000:], len(text)), max_tokens=8, kept=last.kept)
        assert 100 < len(said(tokenizer, last, "suffix")) <= 128
