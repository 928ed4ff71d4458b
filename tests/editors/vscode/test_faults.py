"""What dies, and what a person notices of it: daemon, bridge, editor; and who shares a daemon."""

import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from desk import Desk, desk
from scripted_text import MEAN, SCRIPT, head
from vscode_server import descendants
from vscode_window import Window, until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

FIRST = MEAN.split("\n")[0]
CI_FACTOR = 6
"""How much slower than a quiet machine a shared one may be."""
BACK_S = 3.0 * CI_FACTOR
GONE_S = 2.0 * CI_FACTOR
LOOKS = 20
"""How many pairs of frames a person looks before the next try."""


def bridges(at: Desk) -> list[int]:
    found = descendants(at.server.pid)
    return [pid for pid, line in found.items() if "completiond_lsp.server" in line]


async def no_bridge_but(at: Desk, wanted: int) -> None:
    async def so() -> bool:
        return len(bridges(at)) == wanted

    await until(so, f"{wanted} bridges")


async def suggests_again(window: Window) -> None:
    """As a person who tries: one letter, and away with it."""

    async def ghost() -> bool:
        await window.type("d")
        for _ in range(LOOKS):
            if await window.shown():
                return True
        await window.press("Backspace")
        return False

    await until(ghost, "a suggestion")


async def test_a_daemon_that_is_killed_disturbs_nobody_and_is_used_again_when_it_is_back(
    at: Desk,
) -> None:
    window = at.window
    path = await at.open("killed.py", head("mean"))
    await window.type("def m")
    await window.wait_for_ghost()
    at.daemon.kill()
    await window.type("Qx = 1\nstill = here\n", per_second=15)
    assert await at.saved(path) == (head("mean") + "def mQx = 1\nstill = here\n").encode()
    gone = window.notifications().filter(has_text="has gone")
    await gone.first.wait_for()
    assert await gone.count() == 1
    await at.daemon.start()
    back = time.monotonic()
    await window.insert(f"\n{head('mean')}")
    await suggests_again(window)
    assert time.monotonic() - back < BACK_S


async def test_a_bridge_that_is_killed_is_started_again_by_the_editor(at: Desk) -> None:
    window = at.window
    await at.open("bridge.py", head("mean"))
    (old,) = bridges(at)
    os.kill(old, signal.SIGKILL)

    async def another() -> bool:
        return len(bridges(at)) == 1 and bridges(at) != [old]

    await until(another, "a new bridge")
    await window.wait_for_status("runs|ready")
    await suggests_again(window)
    assert await window.notifications().count() <= 1


async def test_two_windows_in_one_file_do_not_disturb_each_other(at: Desk) -> None:
    first = at.window
    await at.open("shared.py", head("mean"))
    second = await Window.at(at.browser, at.server.url("shared.py"))
    await second.wait_for_status("runs|ready")
    await no_bridge_but(at, 2)
    await second.focus("shared.py")
    await second.press("Control+End")
    await first.type("def mean")
    ghost = await first.wait_for_ghost()
    await suggests_again(second)
    assert await second.shown() == MEAN.rstrip("\n")[1:]
    assert await first.shown() == ghost, "what the other window asks takes nothing away here"
    await second.page.close()


async def test_an_editor_that_is_killed_takes_its_bridge_along_and_frees_the_daemon(
    packed: None, tmp_path: Path
) -> None:
    slow = {"answers": ["a" * 4000], "pass_ms": 5.0}
    async with desk(tmp_path, slow) as at:
        await at.open("slow.py", head("mean"))
        (bridge,) = bridges(at)
        await at.window.type("def ")

        async def runs() -> bool:
            return bool((await at.daemon.status())["running"])

        await until(runs, "a run of this editor")
        _kill_tree(at.server.pid, spare=bridge)
        died = time.monotonic()
        await until(_all(lambda: not Path(f"/proc/{bridge}").exists()), "the bridge is gone")
        assert time.monotonic() - died < GONE_S
        await until(_none_runs(at), "nothing runs", GONE_S)


def _kill_tree(pid: int, spare: int) -> None:
    """An editor that crashes: all of it but the bridge, which nobody kills."""
    for victim in [pid, *descendants(pid)]:
        if victim != spare:
            os.kill(victim, signal.SIGKILL)


def _all(true: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return true()

    return ask


def _none_runs(at: Desk) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return not (await at.daemon.status())["running"]

    return ask


async def test_a_second_window_starts_no_second_daemon(packed: None, tmp_path: Path) -> None:
    files = {"first.txt": head("mean"), "second.txt": head("mean")}
    async with desk(tmp_path, SCRIPT, files=files, starts_daemon=True) as at:
        await suggests_in(at.window, "first.txt")
        first = at.daemon.pids()
        second = await Window.at(at.browser, at.server.url("second.txt"))
        await second.wait_for_status("runs|ready")
        await no_bridge_but(at, 2)
        await suggests_in(second, "second.txt")
        assert len(first) == 1 and at.daemon.pids() == first


async def suggests_in(window: Window, name: str) -> None:
    await window.focus(name)
    await window.press("Control+End")
    await suggests_again(window)
