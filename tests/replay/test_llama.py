"""llama.vim's way of asking and remembering, as its sources have it."""

import pytest
import replay_llama as llama
from replay_traces import Moment


def moment(text: str) -> Moment:
    """`|` is the cursor."""
    at = text.index("|")
    return Moment("0", "a.py", "python", text.replace("|", ""), at)


def test_the_prompt_is_split_at_the_cursors_line() -> None:
    here = llama.local(moment("a\nb = |c\nd\n"))
    assert (here.prefix, here.middle, here.suffix) == ("a\n", "b = ", "c\nd\n\n")


def test_a_blank_line_is_left_out() -> None:
    here = llama.local(moment("a\n    |\nd"))
    assert (here.prefix, here.middle, here.suffix, here.indent) == ("a\n", "", "\nd\n", 0)


def test_windows_are_256_and_64_lines() -> None:
    here = llama.local(moment("x\n" * 300 + "|\n" + "y\n" * 100))
    assert (here.prefix.count("x"), here.suffix.count("y")) == (256, 64)


def test_the_second_request_is_for_behind_what_is_shown() -> None:
    here = llama.local(moment("a\nb = |\nd"), "1\nc = ")
    assert (here.prefix, here.middle, here.suffix) == ("a\nb = 1\n", "c = ", "\nd\n")


def test_an_answer_is_found_again_by_typing_through_it() -> None:
    memory, at = llama.Memory(), llama.local(moment("a\nreturn |\n"))
    memory.put(llama.keys_of(at), "value + 1")
    assert memory.find(at) == "value + 1"
    assert memory.find(llama.local(moment("a\nreturn val|\n"))) == "ue + 1"
    assert memory.find(llama.local(moment("a\nreturn vax|\n"))) is None
    assert memory.find(llama.local(moment("a\nreturn val|\nb"))) is None


def test_an_answer_is_found_where_the_window_has_moved_down_three_lines() -> None:
    memory, at = llama.Memory(), llama.local(moment("1\n2\n3\n4\nx = |\n"))
    memory.put(llama.keys_of(at), "5")
    assert memory.find(llama.local(moment("4\nx = |\n"))) == "5"
    assert memory.find(llama.local(moment("x = |\n"))) is None


def test_memory_is_bounded_and_forgets_what_was_not_used() -> None:
    memory = llama.Memory(2)
    memory.put(["a"], "1")
    memory.put(["b"], "2")
    assert memory.get("a") == "1"
    memory.put(["c"], "3")
    assert [memory.get(name) for name in "abc"] == ["1", None, "3"]


@pytest.mark.parametrize(
    "text, answer, shown",
    [
        ("x = |\n", "1\n\n", "1"),
        ("x = |\n", " \n", ""),
        ("x = f(|)\n", ")", ""),
        ("    |\n", "    return 1\n", "return 1"),
        ("a = |\na = 1\n", "1", ""),
        ("|\nb\nc", "\nb\nc", ""),
    ],
)
def test_what_repeats_the_text_behind_is_not_drawn(text: str, answer: str, shown: str) -> None:
    at = moment(text)
    assert llama.drawn(answer, llama.local(at), at) == shown
