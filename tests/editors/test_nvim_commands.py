"""What a person asks for by `:Completiond` in real Neovim: why nothing is shown, the dashboard."""

from pathlib import Path
from urllib.request import urlopen

import pytest
from test_nvim_typing import WINDOWS
from world import World, began, ghost, shows, within

pytestmark = pytest.mark.editor

SLOW_S = 60.0
REASON = "return (require('completiond').status().last or {}).reason or ''"
OPENS = "vim.ui.open = function(link) _G.opened = link end"


def test_the_dashboard_is_opened_in_the_browser_and_ends_with_neovim(
    world: World, program: Path
) -> None:
    pytest.importorskip("uvicorn")
    world.serve(answers=["f(1, 2)"])
    with world.nvim(program, init=OPENS) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, "f(1, 2)")
        nvim.keys("<Esc>")
        nvim.command("Completiond dashboard")
        link = nvim.until(lambda: nvim.lua("return _G.opened or ''"), SLOW_S)
        page, _, token = str(link).partition("#")
        assert page.startswith("http://127.0.0.1:") and len(token) > 20
        assert answers(page)
    within(SLOW_S, lambda: not answers(page))


def answers(page: str) -> bool:
    try:
        with urlopen(page, timeout=SLOW_S) as answer:  # of the loopback
            return bool(answer.status == 200)
    except OSError:
        return False


def test_why_says_what_the_language_server_refused(world: World, program: Path) -> None:
    world.serve(answers=["f(1, 2)"])
    with world.nvim(program) as nvim:
        began(nvim, world.path / ".env", "A=1\n", "o")
        nvim.type("B=")
        nvim.until(lambda: "secrets" in str(nvim.lua(REASON)))
        assert ghost(nvim) == ""
        nvim.keys("<Esc>")
        nvim.command("Completiond why")
        nvim.until(lambda: "keeps secrets by its name" in nvim.lua(WINDOWS))
        assert World.log(nvim) == ""
