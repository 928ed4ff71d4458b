"""One run with the real small model: a person types, sees ghost text, and takes it."""

from pathlib import Path

import pytest
from desk import desk

from completiond.errors import ModelError
from completiond.model import store

pytestmark = [
    pytest.mark.editor,
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
]

MODEL = "qwen2.5-coder-0.5b"
TEXT = "def add(first, second):\n    return first + second\n\n\n"


async def test_the_real_model_suggests_and_what_is_taken_is_what_was_drawn(
    packed: None, tmp_path: Path
) -> None:
    try:
        store.resolve(MODEL)
    except ModelError as exc:
        pytest.skip(str(exc))
    async with desk(tmp_path, None, model=MODEL, files={"sums.py": TEXT}) as at:
        await at.window.focus("sums.py")
        await at.window.press("Control+End")
        await at.window.type("def subtract(first, second", per_second=8)
        await at.window.press("End")
        await at.window.type(":\n", per_second=8)
        ghost = await at.window.wait_for_ghost()
        await at.picture("real")
        await at.window.press("Tab")
        lines = f"    {ghost}".split("\n")
        await at.window.wait_for_line(lines[-1])
        text = (await at.saved(at.server.workspace / "sums.py")).decode()
        assert text.startswith(f"{TEXT}def subtract(first, second):\n") and ghost in text
