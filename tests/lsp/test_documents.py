"""Laws of the line model, against a model that keeps one string of code units."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond_lsp.documents import Document, Encoding, Position

AWKWARD = Path(__file__).parents[3] / "shared/data/awkward"
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
ODD = "a\t é\u0301😀\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x00\ufeff"

places = st.builds(Position, st.integers(0, 9), st.integers(0, 12))
words = st.text(st.sampled_from(ODD), max_size=12)
encodings = st.sampled_from(ENCODINGS)


def units(char: str, encoding: Encoding) -> int:
    return {
        "utf-8": len(char.encode("utf-8", "surrogatepass")),
        "utf-16": 2 if ord(char) > 0xFFFF else 1,
        "utf-32": 1,
    }[encoding]


def naive_offset(text: str, place: Position, encoding: Encoding) -> int:
    """By the letter of LSP, one character at a time."""
    at = line = 0
    while line < place.line and at < len(text):
        ends = text[at] == "\n" or (text[at] == "\r" and text[at + 1 : at + 2] != "\n")
        line, at = line + ends, at + 1
    if line < place.line:
        return len(text)
    left = place.character
    while at < len(text) and text[at] not in "\r\n" and left >= units(text[at], encoding):
        left -= units(text[at], encoding)
        at += 1
    return at


@settings(max_examples=150, deadline=None)
@given(words, st.lists(st.tuples(places, places, words), max_size=8), encodings)
def test_edits_equal_those_of_the_naive_model(
    text: str, edits: list[tuple[Position, Position, str]], encoding: Encoding
) -> None:
    document = Document("u", text, encoding=encoding)
    for start, end, new in edits:
        a, b = sorted(naive_offset(text, place, encoding) for place in (start, end))
        edit = document.change(start, end, new)
        assert edit == (a, b - a, new)
        text = text[:a] + new + text[b:]
        assert document.text == text
        assert document.offset_at(end) == naive_offset(text, end, encoding)


@settings(max_examples=150, deadline=None)
@given(words, encodings)
def test_every_offset_has_a_position_and_comes_back(text: str, encoding: Encoding) -> None:
    document = Document("u", text, encoding=encoding)
    for offset in range(len(text) + 1):
        back = document.offset_at(document.position_at(offset))
        inside_line_end = text[offset - 1 : offset + 1] == "\r\n"
        assert back == (offset - 1 if inside_line_end else offset)


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028"])
def test_only_lsp_line_ends_end_lines(odd: str) -> None:
    document = Document("u", f"a{odd}b\nc", encoding="utf-16")
    document.change(Position(1, 0), Position(1, 1), "X")
    assert document.text == f"a{odd}b\nX"


def test_a_position_past_the_last_line_without_newline_is_its_end() -> None:
    document = Document("u", "ab\ncd", encoding="utf-16")
    assert document.offset_at(Position(1, 99)) == 5
    assert document.offset_at(Position(99, 0)) == 5
    assert document.offset_at(Position(0, 99)) == 2


def test_a_position_inside_a_character_is_its_start() -> None:
    assert Document("u", "a😀b", encoding="utf-16").offset_at(Position(0, 2)) == 1
    for inside in (2, 3, 4):
        assert Document("u", "a😀b", encoding="utf-8").offset_at(Position(0, inside)) == 1


def test_a_position_inside_a_line_end_is_the_end_of_the_line() -> None:
    document = Document("u", "ab\r\ncd", encoding="utf-16")
    assert document.offset_at(Position(0, 3)) == 2
    assert document.position_at(3) == Position(0, 2)


def test_a_line_feed_typed_after_a_carriage_return_joins_it() -> None:
    document = Document("u", "a\rb", encoding="utf-16")
    document.change(Position(1, 0), Position(1, 0), "\n")
    assert document.offset_at(Position(1, 0)) == 3


def test_lone_surrogates_read_as_replacement_characters_and_pairs_are_joined() -> None:
    document = Document("u", "a\ud83db", encoding="utf-16")
    assert document.text == "a\ufffdb"
    document.change(Position(0, 2), Position(0, 2), "\ude00")
    assert document.text == "a😀b"
    assert document.offset_at(Position(0, 3)) == 2


def test_a_reversed_range_is_the_same_range() -> None:
    document = Document("u", "abc", encoding="utf-16")
    document.change(Position(0, 2), Position(0, 1), "")
    assert document.text == "ac"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ""])
def test_a_megabyte_in_one_line_or_in_empty_lines_costs_no_more_than_its_size(end: str) -> None:
    started = time.perf_counter()
    Document("u", "x" * 1_000_000 + end, encoding="utf-16")
    Document("u", end * 500_000, encoding="utf-16")
    assert time.perf_counter() - started < 2.0


def awkward_files() -> list[Path]:
    return sorted(path for path in AWKWARD.glob("*") if path.name != "index.json")


@pytest.mark.skipif(not AWKWARD.is_dir(), reason=f"{AWKWARD} is not there")
def test_awkward_files_survive_an_edit_at_every_tenth_of_them() -> None:
    for path in awkward_files():
        text = path.read_bytes()[:200_000].decode("utf-8", "replace")
        for encoding in ENCODINGS:
            document, expected = Document("u", text, encoding=encoding), text
            for tenth in range(11):
                at = len(expected) * tenth // 10
                at -= expected[at - 1 : at + 1] == "\r\n"
                *above, head = re.split(r"\r\n|\r|\n", expected[:at])
                place = Position(len(above), sum(units(char, encoding) for char in head))
                assert document.position_at(at) == place, path.name
                document.change(place, place, "😀\r\n")
                expected = expected[:at] + "😀\r\n" + expected[at:]
                assert document.text == expected, path.name


@pytest.mark.slow  # it measures: not beside others
@pytest.mark.skipif(not AWKWARD.is_dir(), reason=f"{AWKWARD} is not there")
def test_an_edit_of_a_file_of_28_000_lines_is_far_below_5_ms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (AWKWARD / "28k_lines.d.ts").read_text(encoding="utf-8")
    document = Document("u", text, encoding="utf-16")
    costs = []
    for i in range(200):
        place = Position(27_000 - i * 50, 2)
        started = time.perf_counter()
        document.change(place, place, "x")
        costs.append(time.perf_counter() - started)
    costs.sort()
    with capsys.disabled():
        print(f"\n  edit at {text.count(chr(10))} lines: median {costs[100] * 1e6:.0f} µs")  # noqa: T201
    assert costs[100] < 0.005


@pytest.mark.parametrize(
    ("text", "end"),
    [("", "\n"), ("a", "\n"), ("a\nb\r\n", "\n"), ("a\r\nb\n", "\r\n"), ("a\rb", "\r")],
)
def test_the_line_end_is_that_of_the_first_line(text: str, end: str) -> None:
    assert Document("file:///a", text, encoding="utf-16").line_end == end
