"""Neovim's own inline completion with the plug-in's guard: what it draws fits, and it is taken."""

import json
import sys
from pathlib import Path

import pytest
from nvim_process import Nvim
from world import FRAMES, World, began, ghost, shows

pytestmark = pytest.mark.editor

DOCUMENT = "def area(width, height):\n    return width * height\n"
HEAD = "def area(width, height):\n"


def test_neovims_own_drawing_is_guarded_and_taken_by_the_same_keys(
    world: World, program: Path
) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program, builtin=True) as nvim:
        if not nvim.lua("return vim.lsp.inline_completion ~= nil"):
            pytest.skip("this Neovim has no vim.lsp.inline_completion")
        began(nvim, world.path / "a.py", HEAD, "Go")
        shows(nvim, "return width * height")
        nvim.lua("_G.frames = {}")
        nvim.type("ret")
        shows(nvim, "urn width * height")
        nvim.type("x")
        assert ghost(nvim) == ""
        nvim.keys("<BS>")
        shows(nvim, "urn width * height")
        for frame in nvim.lua("return _G.frames"):
            drawn = frame["before"] + frame["ghost"]
            assert not frame["ghost"] or drawn == HEAD + "    return width * height"
        nvim.keys("<M-Right>")
        nvim.until(lambda: nvim.lines()[-1] == "    return")
        shows(nvim, " width * height")
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines()[-1] == "    return width * height")
        nvim.keys("<Esc>", "u")
        assert nvim.lines()[-1] == "    return"
        assert World.log(nvim) == ""


ALONE = """
vim.o.swapfile = false
vim.o.shortmess = vim.o.shortmess .. 'I'
dofile([[{frames}]])
local command = vim.json.decode([==[{command}]==])
if not vim.lsp.inline_completion then return end
vim.lsp.config.completiond = {{ cmd = command, filetypes = {{ 'python' }} }}
vim.lsp.enable('completiond')
vim.lsp.inline_completion.enable(true)
"""


def test_without_the_guard_neovim_draws_what_does_not_fit_and_waits_200_ms(
    world: World, program: Path
) -> None:
    """Why the plug-in draws by itself on 0.12 too. When this fails, Neovim has become better."""
    world.serve(document=DOCUMENT)
    command = [sys.executable, "-m", "completiond_lsp.server", "--endpoint", world.endpoint]
    init = ALONE.format(frames=FRAMES, command=json.dumps(command))
    with Nvim(program, world.path / "alone", init, env=world.env) as nvim:
        if not nvim.lua("return vim.lsp.inline_completion ~= nil"):
            pytest.skip("this Neovim has no vim.lsp.inline_completion")
        (world.path / "a.py").write_text(HEAD)
        nvim.open(world.path / "a.py")
        nvim.until(lambda: nvim.lua("return #vim.lsp.get_clients({ bufnr = 0 })"))
        nvim.keys("Go")
        nvim.until(lambda: ghost(nvim), 30)
        nvim.lua("_G.frames = {}")
        nvim.keys("x")
        stale = [frame for frame in nvim.lua("return _G.frames") if frame["ghost"]]
        assert stale and stale[0]["before"].endswith("    x"), "behind a letter that it has not"
        nvim.keys("<Esc>", "A")  # which takes it away
        pressed = nvim.lua("_G.frames = {} return vim.uv.hrtime()")
        nvim.keys("<BS>")
        shows(nvim, "return width * height")
        drawn = [frame for frame in nvim.lua("return _G.frames") if frame["ghost"]]
        assert drawn[0]["at"] - pressed > 200e6, "not before 200 ms are over"
