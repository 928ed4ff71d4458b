"""Two hundred keys at fifteen a second in a real Neovim: what is drawn, asked, answered, logged."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from world import World, began, ghost, within

from completiond_lsp import params as read
from completiond_lsp.documents import Document, Position

pytestmark = pytest.mark.editor

KEYS, A_SECOND = 200, 15
CANCELLED = -32800
DOCUMENT = (
    "def area(width, height):\n    return width * height\n\n\n"
    "def volume(width, height, depth):\n    return area(width, height) * depth\n\n\n"
    "class Box:\n    def __init__(self, width, height, depth):\n        self.width = width\n"
    "        self.height = height\n        self.depth = depth\n\n"
    "    def volume(self):\n        return volume(self.width, self.height, self.depth)\n"
)


def typed() -> list[str]:
    """The document's text with slips: a wrong letter and its removal, a jump and back."""
    dice, keys = random.Random(11), []
    for letter in DOCUMENT:
        if dice.random() < 0.06:
            keys += [dice.choice("xqz"), "<BS>"]
        if dice.random() < 0.02:
            keys += ["<Left>", "<Right>"]
        keys.append("<CR>" if letter == "\n" else letter)
    return keys[:KEYS]


def test_no_stale_ghost_one_reply_per_request_and_a_clean_log(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    log, tap = world.path / "traffic", str(Path(__file__).with_name("tap.py"))
    command = [sys.executable, tap, str(log), "--endpoint", world.endpoint]
    with world.nvim(program, cmd=command) as nvim:
        began(nvim, world.path / "a.txt", "\n", "i")
        for key in typed():
            started = time.monotonic()
            nvim.keys(key)
            time.sleep(max(0.0, 1 / A_SECOND - (time.monotonic() - started)))
        time.sleep(0.3)
        frames = nvim.lua("return _G.frames")
        assert World.log(nvim) == ""
        replies, offers = traffic(log)  # as long as the editor lives: nobody answers its last one
    drawn = [frame for frame in frames if frame["ghost"]]
    assert len(drawn) > KEYS / 2, "it was there most of the time"
    assert len(replies) > KEYS / 2 and set(replies.values()) == {1}
    for frame in drawn:
        before, ghost = frame["before"], frame["ghost"]
        assert any((before[:cut], before[cut:] + ghost) in offers for cut in range(len(before) + 1))
        assert (frame["ghost_row"], frame["ghost_col"]) == (frame["row"], frame["col"])


def traffic(log: Path) -> tuple[Counter[int], set[tuple[str, str]]]:
    """How many replies each request got; the answers, each with the text before its cursor."""
    replies: Counter[int] = Counter()
    befores: dict[int, str] = {}
    offers: set[tuple[str, str]] = set()
    text = Document("", "", encoding="utf-8")
    for line in log.read_bytes().splitlines():
        message: dict[str, Any] = json.loads(line[1:])
        method, ident, params = message.get("method"), message.get("id"), message.get("params")
        if line[:1] == b">" and ident is not None and method:
            replies[ident] += 0
        if method == "textDocument/didOpen":
            text.replace(params["textDocument"]["text"])
        elif method == "textDocument/didChange":
            for change in read.changes(params):
                assert change.span is not None
                text.change(*change.span, change.text)
        elif method == "textDocument/inlineCompletion":
            assert ident is not None
            befores[ident] = text.text[: text.offset_at(Position(**params["position"]))]
        elif line[:1] == b"<" and ident is not None and not method:
            replies[ident] += 1
            assert message.get("error", {}).get("code", CANCELLED) == CANCELLED
            for item in message.get("result") or [] if ident in befores else []:
                offers.add((befores[ident], item["insertText"]))
    return replies, offers


def tmux(*arguments: str, name: str) -> str:
    command = ["tmux", "-L", name, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_as_a_person_sees_it_in_a_terminal(world: World, program: Path) -> None:
    try:
        tmux("-V", name="completiond-test")
    except FileNotFoundError:
        pytest.skip("no tmux here")
    world.serve(answers=["f(1,\n    2)"])
    name = f"completiond-test-{os.getpid()}"
    with world.nvim(program) as nvim:
        init = nvim.home / "init.lua"
    (world.path / "a.py").write_text("# above\n")
    command = f"{program} -n -i NONE -u {init} {world.path / 'a.py'}"
    env = [part for pair in world.env.items() for part in ("-e", "=".join(pair))]
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "20", *env, command, name=name)
    try:
        screen = lambda: tmux("capture-pane", "-p", name=name)  # noqa: E731
        within(20, lambda: "# above" in screen())
        tmux("send-keys", "G", "o", "x = ", name=name)
        within(20, lambda: "x = f(1," in screen() and "    2)" in screen())
        tmux("send-keys", "Tab", "Escape", ":wq", "Enter", name=name)
        within(20, lambda: (world.path / "a.py").read_text() == "# above\nx = f(1,\n    2)\n")
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], capture_output=True)


def test_typing_ahead_of_a_slow_daemon_is_not_held_up(world: World, program: Path) -> None:
    world.serve(answers=["a" * 400], pass_ms=20.0)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        started = time.monotonic()
        nvim.type("b" * 40)
        assert time.monotonic() - started < 4
        assert nvim.lines() == ["x = " + "b" * 40]
        nvim.until(lambda: ghost(nvim))
