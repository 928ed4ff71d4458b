"""Laws of the language server's life: daemons that come and go, editors that end, its own end."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import HOLD, FakeDaemon
from lsp_editor import CANCELLED, Editor, answered, shown

INVALID_REQUEST = -32600
CI_FACTOR = 6
"""How much slower than a quiet machine a shared one may be."""
GONE_S = 2 * CI_FACTOR

pytestmark = pytest.mark.slow  # real processes


async def test_without_a_daemon_the_answer_is_empty_and_never_null(endpoint: str) -> None:
    async with Editor(endpoint=endpoint) as editor:
        early = editor.complete(0, 0)
        editor.open("x = ")
        replies = [await editor.reply(ident) for ident in (early, editor.complete(0, 4))]
        assert [reply["result"] for reply in replies] == [[], []]
        assert editor.notes == []
        with FakeDaemon(endpoint, lambda _: ["1"]):
            assert await answered(editor, 0, 4) == ["1"]
    assert editor.stderr == b""


async def test_a_daemon_that_goes_away_ends_the_request_and_the_next_daemon_answers(
    endpoint: str,
) -> None:
    async with Editor(endpoint=endpoint) as editor:
        editor.open("x = ")
        with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
            await editor.until(lambda: bool(daemon.received))
            ident = editor.complete(0, 4)
            await editor.until(lambda: bool(daemon.completes))
        assert (await editor.reply(ident))["result"] == []
        with FakeDaemon(endpoint, lambda _: ["1"]):
            assert await answered(editor, 0, 4) == ["1"]


async def test_a_shutdown_cancels_what_is_asked_and_refuses_what_follows(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            ident = editor.complete(0, 4)
            await editor.until(lambda: bool(daemon.completes))
            assert (await editor.request("shutdown"))["result"] is None
            assert (await editor.reply(ident))["error"]["code"] == CANCELLED
            reply = await editor.reply(editor.complete(0, 4))
            assert reply["error"]["code"] == INVALID_REQUEST
            editor.notify("exit", None)
            await asyncio.wait_for(editor.process.wait(), GONE_S)
    assert editor.stderr == b""


def serving(log: Path) -> list[int]:
    words = log.read_text().split() if log.exists() else []
    return [int(pid) for word, pid in zip(words, words[1:], strict=False) if word == "serving"]


async def test_two_windows_start_one_daemon_and_it_outlives_them(
    endpoint: str, tmp_path: Path
) -> None:
    command = (sys.executable, str(Path(__file__).with_name("fake_daemon.py")))
    how: dict[str, Any] = {
        "endpoint": endpoint,
        "arguments": ("--daemon-command", *command),
        "options": {},
        "env": {"COMPLETIOND_STATE": str(tmp_path / "state")},
    }
    log = tmp_path / "state" / "daemon.log"
    try:
        async with Editor(**how) as one, Editor(**how) as two:
            for editor in (one, two):
                editor.open("x = ")
            await asyncio.gather(*(answered(editor, 0, 4) for editor in (one, two)))
            assert one.notes == two.notes == []
        (daemon,) = serving(log)
        assert os.getsid(daemon) == daemon
        async with Editor(**how) as three:
            three.open("x = ")
            assert await answered(three, 0, 4) == ["started"]
        assert serving(log) == [daemon]
    finally:
        for process in serving(log):
            os.kill(process, signal.SIGKILL)


async def test_a_daemon_that_cannot_start_is_told_once(endpoint: str, tmp_path: Path) -> None:
    async with Editor(
        endpoint=endpoint,
        arguments=("--daemon-command", "/no/such/program"),
        options={},
        env={"COMPLETIOND_STATE": str(tmp_path / "state")},
    ) as editor:
        editor.open("x = ")
        for _ in range(4):
            assert (await editor.reply(editor.complete(0, 4)))["result"] == []
        await editor.until(lambda: bool(editor.notes))
        assert len(shown(editor, "window/showMessage")) == 1


async def test_the_bridge_ends_with_its_editor(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
        editor = await Editor(endpoint=endpoint).__aenter__()
        editor.open("x = ")
        editor.complete(0, 4)
        await editor.until(lambda: bool(daemon.completes))
        closed = time.monotonic()
        await editor.close()
        assert time.monotonic() - closed < GONE_S
        assert editor.stderr == b""


async def test_the_bridge_ends_with_its_editor_though_its_pipe_stays_open(endpoint: str) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "20")
    async with Editor(endpoint=endpoint, process_id=other.pid) as editor:
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        other.kill()
        await other.wait()
        await asyncio.wait_for(editor.process.wait(), GONE_S)


async def test_a_message_larger_than_memory_ends_the_bridge_with_one_sentence() -> None:
    async with Editor(endpoint="ipc:///nowhere/d.sock") as editor:
        assert editor.process.stdin is not None
        editor.process.stdin.write(b"Content-Length: 99999999999999\r\n\r\n{")
        assert await asyncio.wait_for(editor.process.wait(), GONE_S) == 1
    assert editor.stderr.count(b"\n") == 1 and b"larger than memory" in editor.stderr
