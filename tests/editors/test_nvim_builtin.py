"""Neovim's own inline completion with the plug-in's guard: what it draws fits, and it is taken."""

from pathlib import Path

import pytest
from world import World, began, ghost, shows

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
