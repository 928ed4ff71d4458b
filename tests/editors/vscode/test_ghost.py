"""Laws of ghost text in real VS Code: typed through, left, never stale, one reply each."""

import pytest
from desk import Desk
from scripted_text import LONG, MEAN, head
from vscode_log import complaints, replies
from vscode_window import Frame

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

FIRST, SECOND = MEAN.rstrip("\n").split("\n")
WRONG = "Q"
"""A letter that no scripted text has."""


async def test_typing_through_a_suggestion_keeps_it_in_every_frame_and_asks_no_model(
    at: Desk,
) -> None:
    window = at.window
    await at.open("through.py", head("mean"))
    await window.type("d")
    assert await window.wait_for_ghost() == f"{FIRST[1:]}\n{SECOND}"
    before, start = await at.daemon.idle(), await window.now()
    await window.type("ef mean", per_second=8)
    end = await window.now()
    frames = [frame for frame in await window.frames(start) if frame.at <= end]
    assert frames[-1].before == "def mean"
    for frame in frames:
        assert frame.before + frame.ghost == FIRST, "it never moves and never goes away"
        assert frame.more == (SECOND,)
    after = await at.daemon.idle()
    assert after["daemon requests"] == before["daemon requests"]
    assert after["passes"] == before["passes"]


async def test_a_wrong_letter_takes_the_suggestion_away_in_its_own_frame(at: Desk) -> None:
    window = at.window
    await at.open("wrong.py", head("mean"))
    await window.type("def")
    await window.wait_for_ghost()
    start = await window.now()
    await window.type(WRONG)
    await window.wait_for_none()
    frames = [frame for frame in await window.frames(start) if WRONG in frame.line]
    assert frames and not any(frame.suggestion for frame in frames)


async def test_two_hundred_keys_at_fifteen_a_second_show_nothing_stale(at: Desk) -> None:
    window = at.window
    await at.open("long.txt", head("long"))
    start, before = await window.now(), len(at.log())
    await window.type(_keys(), per_second=15)
    await window.wait_for_ghost()
    frames = await window.frames(start)
    shown = [frame for frame in frames if frame.suggestion]
    assert len(shown) > 100, "most keys leave something to show"
    assert [frame for frame in shown if not _fits(frame)] == []
    log = at.log()[before:]
    counts = replies(log, "textDocument/inlineCompletion")
    assert len(counts) >= 100 and set(counts.values()) == {1}
    assert complaints(log) == []


def _keys() -> str:
    """200 keys and more: every tenth is wrong and is taken back at once."""
    typed = LONG[:180]
    wrong = [typed[i : i + 18] + f"{WRONG}\b" for i in range(0, len(typed), 18)]
    return "".join(wrong)


def _fits(frame: Frame) -> bool:
    """Whether text and suggestion together are what the script says."""
    return WRONG not in frame.line and f"\n{frame.before}{frame.suggestion}" in f"\n{LONG}"


async def test_a_new_line_is_completed_with_the_indentation_that_the_editor_made(
    at: Desk,
) -> None:
    window = at.window
    path = await at.open("newline.py", head("mean"))
    await window.type("def mean(values):", per_second=30)
    await window.press("Enter")
    assert await window.wait_for_ghost("return sum(values) / len(values)")
    await window.press("Tab")
    await window.wait_for_line(SECOND)
    assert await at.saved(path) == (head("mean") + MEAN.rstrip("\n")).encode()
