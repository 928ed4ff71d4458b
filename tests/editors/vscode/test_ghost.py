"""Laws of ghost text in real VS Code: typed through, left, taken; never stale; exact to the byte."""

import pytest
from desk import Desk
from scripted_text import MEAN, head
from vscode_window import Frame

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

FIRST, SECOND = MEAN.rstrip("\n").split("\n")


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


def _kept(frames: list[Frame], wrong: str) -> list[Frame]:
    return [frame for frame in frames if wrong in frame.line and frame.suggestion]


async def test_a_wrong_letter_takes_the_suggestion_away_in_its_own_frame(at: Desk) -> None:
    window = at.window
    await at.open("wrong.py", head("mean"))
    await window.type("def")
    await window.wait_for_ghost()
    start = await window.now()
    await window.type("Q")
    await window.wait_for_none()
    assert _kept(await window.frames(start), "defQ") == []
