"""What may die or be missing beside a real Neovim: daemon, language server, editor, model, file."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from nvim_process import Nvim
from world import World, began, children, ghost, gone, shows, within

pytestmark = pytest.mark.editor

ANSWER = "f(1, 2)"
BACK_S = 3.0
GONE_S = 2.0
QUIET = """
if not pcall(function() vim.o.messagesopt = 'wait:0,history:500' end) then
  vim.o.cmdheight = 12
end
"""
"""Neovim itself tells of a server that ends, in more than a line, and 0.10 asks a person then."""
SLOW = {"answers": ["a" * 4000], "pass_ms": 5.0}


def state(nvim: Nvim) -> str:
    return str(nvim.lua("return require('completiond').status().state"))


def messages(nvim: Nvim) -> str:
    return str(nvim.lua("return vim.fn.execute('messages')"))


def bridge_of(nvim: Nvim) -> int:
    (found,) = nvim.until(lambda: children(nvim.process.pid))
    return int(found)


def test_a_daemon_killed_while_typing_costs_one_message_and_it_comes_back(
    world: World, program: Path
) -> None:
    world.serve(answers=[ANSWER])
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, ANSWER)
        world.kill()
        nvim.type("something else ", 0.02)
        nvim.until(lambda: state(nvim) == "unreachable")
        nvim.type("and more")
        assert nvim.lines() == ["x = something else and more"]
        assert messages(nvim).count("has gone") == 1
        world.serve(answers=[ANSWER])
        within(BACK_S, lambda: ghost(nvim) == ANSWER)
        assert messages(nvim).count("completion daemon") == 1
        assert World.log(nvim) == ""


def test_a_killed_language_server_is_started_again(world: World, program: Path) -> None:
    world.serve(answers=[ANSWER])
    with world.nvim(program, init=QUIET) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, ANSWER)
        os.kill(bridge_of(nvim), signal.SIGKILL)
        nvim.until(
            lambda: state(nvim) == "ready" and nvim.lua("return #vim.lsp.get_clients()") == 1
        )
        nvim.type("y")
        shows(nvim, ANSWER)
        nvim.command("Completiond restart")
        nvim.type("z")
        shows(nvim, ANSWER)


def test_a_server_that_keeps_ending_is_given_up_with_one_message(
    world: World, program: Path
) -> None:
    with world.nvim(program, server=["--no-such-flag"], init=QUIET) as nvim:
        nvim.open(world.path / "a.py")
        nvim.until(lambda: "keeps ending" in messages(nvim))
        nvim.keys("i")
        nvim.type("text")
        assert nvim.lines() == ["text"] and messages(nvim).count("keeps ending") == 1


def test_with_a_killed_editor_the_server_goes_and_the_run_ends(world: World, program: Path) -> None:
    world.serve(**SLOW)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        bridge = bridge_of(nvim)
        nvim.until(lambda: world.status()["running"])
        nvim.kill()
        within(GONE_S, lambda: gone(bridge))
        within(GONE_S, lambda: not world.status()["running"] and not world.status()["waiting"])


def test_two_windows_share_one_daemon_and_a_file_without_disturbing_each_other(
    world: World, program: Path
) -> None:
    script = '{"answers": ["f(1, 2)"]}'
    command = (sys.executable, "-m", "completiond", "serve", "--scripted", script)
    options: dict[str, Any] = {
        "settings": {"startDaemon": True},
        "server": ["--endpoint", world.endpoint, "--daemon-command", *command],
    }
    with world.nvim(program, "one", **options) as one, world.nvim(program, "two", **options) as two:
        for nvim in (one, two):
            nvim.open(world.path / "a.py")
        try:
            for nvim in (one, two):
                nvim.keys("i")
                nvim.type("x = ")
            for nvim in (one, two):
                shows(nvim, ANSWER)
            daemons = world.status()["engine"]["pid"]
            one.type("f(")
            two.keys("<BS>", "<BS>")
            two.type("g")
            for nvim in (one, two):
                nvim.keys("<M-Right>")
            shows(one, ", 2)")
            assert one.lines() == ["x = f(1"] and two.lines()[0].startswith("x g")
            assert world.status()["engine"]["pid"] == daemons
            assert messages(one) == messages(two)
        finally:
            os.kill(world.status()["engine"]["pid"], signal.SIGTERM)


def test_a_model_that_still_loads_answers_soon_after_it_is_ready(
    world: World, program: Path
) -> None:
    with world.nvim(program) as nvim:
        nvim.open(world.path / "a.py")
        nvim.keys("i")
        nvim.type("x = ")
        nvim.until(lambda: state(nvim) == "unreachable")
        world.serve(answers=[ANSWER])
        within(BACK_S, lambda: ghost(nvim) == ANSWER)
        assert nvim.lines() == ["x = "]


def test_settings_of_the_wrong_type_are_warnings(world: World, program: Path) -> None:
    world.serve(answers=[ANSWER])
    settings = {"maxTokens": "many", "enabled": "yes", "nonsense": 1}
    with world.nvim(program, settings=settings) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, ANSWER)
        log = World.log(nvim)
        assert all(log.count(f"completiond.{name}`") == 1 for name in settings)
        assert "ERROR" not in log


def test_without_the_program_there_is_one_message_and_typing_works(
    world: World, program: Path
) -> None:
    with world.nvim(program, cmd=["/no/such/completiond-lsp"]) as nvim:
        for name in ("a.py", "b.py"):
            nvim.open(world.path / name)
        nvim.keys("i")
        nvim.type("text")
        nvim.keys("<Tab>")
        assert nvim.lines()[0].rstrip() == "text"
        assert messages(nvim).count("is not there") == 1
        nvim.keys("<Esc>")
        nvim.command("checkhealth completiond")
        nvim.until(lambda: any("is not on the PATH" in each for each in nvim.lines()))


def test_a_daemon_that_cannot_be_started_is_told_once_with_its_reason(
    world: World, program: Path
) -> None:
    server = [
        "--endpoint",
        world.endpoint,
        "--daemon-command",
        sys.executable,
        "-c",
        "exit('No luck.')",
    ]
    with world.nvim(program, server=server, settings={"startDaemon": True}) as nvim:
        nvim.open(world.path / "a.py")
        nvim.keys("i")
        nvim.type("x = ", 0.05)
        nvim.until(lambda: "No luck." in messages(nvim))
        nvim.type("1")
        assert nvim.lines() == ["x = 1"] and messages(nvim).count("No luck.") == 1


BUFFERS = ["untitled", "scheme", "readonly", "long"]


@pytest.mark.parametrize("kind", BUFFERS)
def test_every_kind_of_buffer_can_be_typed_in(world: World, program: Path, kind: str) -> None:
    world.serve(answers=[ANSWER])
    with world.nvim(program) as nvim:
        path, row = world.path / "a.py", 1
        if kind == "untitled":
            nvim.command("enew")
        elif kind == "scheme":
            nvim.command("file remote://host/a.py")
            nvim.command("doautocmd BufEnter")
        elif kind == "readonly":
            path.write_text("\n")
            path.chmod(0o400)
            nvim.open(path)
        else:
            row = 28_000
            path.write_text("value = 1\n" * row)
            nvim.open(path)
        nvim.until(lambda: state(nvim) == "ready")
        nvim.keys("G", "o")
        nvim.type("x = ")
        shows(nvim, ANSWER)
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines()[row] == f"x = {ANSWER}")
        assert World.log(nvim) == ""


def test_buffers_that_are_no_code_are_left_alone(world: World, program: Path) -> None:
    with world.nvim(program) as nvim:
        for command in ("help", "terminal true", "enew | setlocal buftype=nofile"):
            nvim.command(command)
        nvim.command("enew | set nomodifiable")
        assert nvim.lua("return #vim.lsp.get_clients()") == 0


def test_the_status_says_that_suggestions_are_off(world: World, program: Path) -> None:
    world.serve(answers=[ANSWER])
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, ANSWER)
        nvim.keys("<Esc>")
        nvim.command("Completiond toggle")
        assert nvim.lua("return require('completiond').status().state") == "off"
        nvim.command("Completiond toggle")
        assert nvim.lua("return require('completiond').status().state") == "ready"


def test_the_ghost_is_in_the_window_where_one_types(world: World, program: Path) -> None:
    world.serve(answers=[ANSWER])
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", ":vsplit<CR>", "A")
        shows(nvim, ANSWER)
        nvim.keys("<Esc>", "<C-w>w")
        assert ghost(nvim) == ""
        nvim.keys("A")
        shows(nvim, ANSWER)
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines() == [f"x = {ANSWER}"])
        nvim.keys("<Esc>", ":new<CR>", "i")
        assert nvim.lua("return #vim.api.nvim_list_wins()") == 3
