"""A daemon that is not there yet: the status bar says so, and ghost text comes without a key."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from desk import Desk, desk
from scripted_text import MEAN, SCRIPT, head
from vscode_log import complaints
from vscode_server import descendants
from vscode_window import until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

GHOST = MEAN.rstrip("\n")[len("def ") :]


async def engine_of(at: Desk) -> int:
    """The engine's process, as soon as the daemon has one."""

    async def found() -> int:
        below = descendants(at.daemon.pid) if at.daemon.pid else {}
        return next((pid for pid, line in below.items() if "engine_process" in line), 0)

    return int(await until(found, "an engine"))


async def test_while_a_model_loads_the_status_says_so_and_then_ghost_text_comes_by_itself(
    at: Desk,
) -> None:
    window = at.window
    await at.open("loading.py", head("mean"))
    at.daemon.kill()
    await window.wait_for_status("gone|no completion daemon|No completion daemon")
    starting = asyncio.ensure_future(at.daemon.start())
    engine = await engine_of(at)
    os.kill(engine, signal.SIGSTOP)
    try:
        await window.wait_for_status("being loaded")
        await window.type("def ")
        assert await window.shown() == ""
    finally:
        os.kill(engine, signal.SIGCONT)
    await starting
    await window.wait_for_ghost(GHOST)
    await window.wait_for_status("ready")
    await window.press("Tab")
    await window.wait_for_line(GHOST.split("\n")[-1])


async def test_what_was_asked_in_vain_is_asked_again_when_a_daemon_comes(at: Desk) -> None:
    window = at.window
    await at.open("later.py", head("mean"))
    at.daemon.kill()
    await window.wait_for_status("gone|No completion daemon")
    await window.type("def ")
    assert await window.shown() == ""
    await at.daemon.start()
    await window.wait_for_ghost(GHOST)


async def test_a_daemon_that_cannot_be_started_is_told_once_with_its_reason(
    packed: None, tmp_path: Path
) -> None:
    nowhere = ("--daemon-command", "/no/such/completiond", "serve")
    async with desk(
        tmp_path, SCRIPT, starts_daemon=True, start=nowhere, ready="cannot be started"
    ) as at:
        window = at.window
        said = window.notifications()
        await said.first.wait_for()
        assert "/no/such/completiond" in await said.first.inner_text()
        await window.focus("first.txt")
        await window.type("still a text\n" * 2, per_second=30)
        path = at.server.workspace / "first.txt"
        assert (await at.saved(path)).decode() == "still a text\n" * 2
        assert await said.count() == 1
        assert not [line for line in complaints(at.log()) if "rror" in line]
