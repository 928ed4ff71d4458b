"""One look at the real model through a real Neovim."""

from pathlib import Path

import pytest
from world import World, began, ghost

from completiond.errors import ModelError
from completiond.model import store

pytestmark = [pytest.mark.editor, pytest.mark.model]

MODEL = "qwen2.5-coder-0.5b"
TEXT = "import math\n\n\ndef circle_area(radius):\n"


def test_the_default_model_writes_a_line_and_it_is_taken(world: World, program: Path) -> None:
    try:
        store.resolve(MODEL)
    except ModelError as exc:
        pytest.skip(str(exc))
    world.launch("--model", MODEL)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "circle.py", TEXT, "Go")
        nvim.type("ret")
        text = nvim.until(lambda: ghost(nvim), seconds=45)
        assert text.startswith("urn math.pi * radius")
        nvim.keys("<M-Down>")
        nvim.until(lambda: nvim.lines()[4].startswith("    return math.pi * radius"))
        assert World.log(nvim) == ""
