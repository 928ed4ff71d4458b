"""Laws of the dashboard that an editor opens: one process, a link, and an end with the bridge."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest
from fake_daemon import FakeDaemon
from lsp_editor import WAIT_S, Editor

from completiond_lsp.dashboard_process import DashboardProcess

pytestmark = pytest.mark.slow  # real processes

SERVES = """
import os, sys, time
open(sys.argv[1], "a").write(f"{os.getpid()} {sys.argv[2:]}\\n")
print("http://127.0.0.1:1/#token", flush=True)
print("more", flush=True)
time.sleep(60)
"""


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not true():
            await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def started(log: Path) -> list[int]:
    return [int(line.split()[0]) for line in log.read_text().splitlines()]


async def test_one_runs_at_a_time_for_one_daemon_and_its_end_is_told(tmp_path: Path) -> None:
    log, told = tmp_path / "log", list[str]()
    page = DashboardProcess(told.append, (sys.executable, "-c", SERVES, str(log)))
    link = ("http://127.0.0.1:1/#token", "")
    assert await asyncio.gather(page.link("ipc:///a"), page.link("ipc:///a")) == [link, link]
    assert len(started(log)) == 1
    assert await page.link("") == link
    first, second = started(log)
    await until(lambda: not lives(first))
    assert log.read_text().splitlines()[0].endswith("['--endpoint', 'ipc:///a']")
    os.kill(second, 15)
    await until(lambda: told == [link[0], "", link[0], ""])
    assert await page.link("") == link
    await page.end()
    await until(lambda: not any(map(lives, started(log))))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.exit('`dashboard` needs packages that are not installed.')", "packages"),
        ("print('no link')", "run `completiond dashboard` to see why"),
        ("raise ValueError('odd')", "ValueError: odd"),
    ],
)
async def test_without_a_link_one_sentence_says_why(program: str, said: str) -> None:
    told: list[str] = []
    page = DashboardProcess(told.append, (sys.executable, "-c", program))
    link, sentence = await page.link("")
    assert (link, told) == ("", []) and said in sentence and "\n" not in sentence


async def test_the_real_one_is_served_until_the_bridge_ends(endpoint: str) -> None:
    pytest.importorskip("uvicorn")
    with FakeDaemon(endpoint, lambda _: ["1"]):
        async with Editor(endpoint=endpoint) as editor:
            sent = {"command": "completiond.dashboard", "arguments": []}
            ident = editor.ask("workspace/executeCommand", sent)
            await until(lambda: bool(editor.replies[ident]))
            link = editor.replies[ident][0]["result"]["url"]
            await editor.until(lambda: editor.standings[-1].get("dashboard") == link)
            page = await asyncio.to_thread(_read, link)
            assert "completiond" in page
            editor.process.kill()
            await editor.process.wait()
        await until(lambda: not _answers(link))


def _read(link: str) -> str:
    with urlopen(link.partition("#")[0], timeout=WAIT_S) as answer:  # of the loopback
        return str(answer.read(), "utf-8")


def _answers(link: str) -> bool:
    try:
        return bool(_read(link))
    except OSError:
        return False
