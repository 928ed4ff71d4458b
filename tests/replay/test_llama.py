"""llama.vim's way of asking and remembering, as its sources have it."""

import asyncio
import threading

import pytest
import replay_llama_text as llama
from replay_llama import LlamaVim
from replay_llama_server import Reply
from replay_traces import Desk, Moment, Opened, Step

from completiond.errors import EngineDied


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


class Instant:
    """A server that answers what follows the cursor in a document, and counts."""

    def __init__(self, document: str) -> None:
        self.document = document
        self.asked: list[tuple[str, int]] = []
        self.open = threading.Event()
        self.open.set()

    def infill(self, here: llama.Local, predict_ms: int) -> Reply:
        self.asked.append((here.prefix + here.middle, predict_ms))
        assert self.open.wait(5)
        before = (here.prefix + here.middle).removeprefix("\n")
        _, found, rest = self.document.partition(before)
        return Reply(rest[:12] if found else "", 3)


async def typed_at(server: Instant, text: str, keys: str, every_s: float = 0.05) -> LlamaVim:
    seat, here = LlamaVim(server), Desk()
    here.open("0", Opened("a.py", "python", text))
    await seat.open("t", here)
    for number, key in enumerate(keys):
        at = len(text) + number
        step = Step(0.0, "0", at, "", key, at + 1, True)
        old, new = here.moments["0"], here.apply(step)
        seat.screen.step(number, step, old, new, float(number))
        seat.before()
        seat.after(old, step, new)
        await asyncio.sleep(every_s)
    return seat


async def test_an_answer_is_followed_by_a_request_for_what_comes_behind_it() -> None:
    server = Instant("a = 1\nb = 2\nc = 3\nd = 4\n")
    seat = await typed_at(server, "a = 1\n", "b = 2")
    assert [ms for _, ms in server.asked[:2]] == [250, 1000]
    assert server.asked[1][0].endswith("b = 2\nc = 3\nd")
    assert [key.shows[0].suggestion.origin for key in seat.screen.keys] == ["pass"] + ["cache"] * 4
    await seat.close()


async def test_one_request_is_on_its_way_and_the_newest_follows_it_later() -> None:
    server = Instant("a = 1\nb = 2\n")
    server.open.clear()
    seat = await typed_at(server, "a = 1\n", "xyz", every_s=0.01)
    assert len(server.asked) == 1
    server.open.set()
    async with asyncio.timeout(5):
        while len(server.asked) < 2:
            await asyncio.sleep(0.005)
    assert server.asked[1][0].endswith("xyz")
    await seat.close()


async def test_a_server_that_fails_ends_the_replay() -> None:
    class Broken(Instant):
        def infill(self, here: llama.Local, predict_ms: int) -> Reply:
            raise EngineDied("llama-server does not answer.")

    seat = await typed_at(Broken(""), "a", "b")
    with pytest.raises(EngineDied):
        await seat.close()
