"""Several cursors: an answer is meant for one place, so none is shown, and none can be taken."""

import pytest
from desk import Desk
from scripted_text import MEAN, head
from vscode_log import complaints, messages
from vscode_window import until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

GHOST = MEAN.rstrip("\n")[len("def ") :]
ASK = "textDocument/inlineCompletion"
TEXT = head("mean") + "\n" * 3


async def lines(at: Desk, name: str) -> list[str]:
    return (await at.saved(at.server.workspace / name)).decode().split("\n")[1:]


async def answered(at: Desk, since: int) -> list[int]:
    """How many cursors each request named, once all have their replies."""

    async def so() -> list[int]:
        log = at.log()[since:]
        asked = messages(log, "Sending", "request", ASK)
        replies = messages(log, "Received", "response", ASK)
        return [each.content.get("cursors", 1) for each in asked if len(replies) == len(asked)]

    return list(await until(so, "a reply to every request"))


async def test_with_several_nothing_is_suggested_and_tab_is_a_tab_in_each_place(at: Desk) -> None:
    window, before = at.window, len(at.log())
    await at.open("several.txt", TEXT)
    await window.press("Control+Home", "ArrowDown")
    await window.press(*["Shift+Alt+ArrowDown"] * 2)
    await window.type("def ")
    assert set(await answered(at, before)) == {3}
    assert await window.shown() == ""
    await window.press("Tab")
    assert await lines(at, "several.txt") == ["def     "] * 3 + [""]
    await window.press("Control+Z")
    assert await lines(at, "several.txt") == ["def "] * 3 + [""]
    assert complaints(at.log()[before:]) == []


async def test_with_one_again_it_is_suggested_and_taken_there_alone(at: Desk) -> None:
    window = at.window
    await at.open("one.txt", TEXT)
    await window.press("Control+Home", "ArrowDown")
    await window.press(*["Shift+Alt+ArrowDown"] * 2)
    await window.type("def")
    await window.press("Escape", "Escape")  # the popup of words, then the other cursors
    await window.type(" ")
    await window.wait_for_ghost(GHOST)
    await window.press("Tab")
    await window.wait_for_line(GHOST.split("\n")[-1])
    assert await lines(at, "one.txt") == [*f"def {GHOST}".split("\n"), "def", "def", ""]
    await window.press("Control+Z")
    assert await lines(at, "one.txt") == ["def ", "def", "def", ""]


async def test_what_is_drawn_goes_when_a_second_cursor_comes(at: Desk) -> None:
    window = at.window
    await at.open("second.txt", TEXT)
    await window.press("Control+Home", "ArrowDown")
    await window.type("def ")
    await window.wait_for_ghost(GHOST)
    await window.press("Shift+Alt+ArrowDown")
    await window.wait_for_none()
    await window.press("Tab")
    assert await lines(at, "second.txt") == ["def     ", "    ", "", ""]
