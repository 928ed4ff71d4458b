"""A session that was recorded with its text, exported by the dashboard, replayed by the script."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from lsp_editor import Editor
from shown import client, with_token

from completiond.endpoint import default_endpoint
from completiond.record import place
from completiond.record.writer import TICK_S
from scripted_daemon import daemon

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apart")]
ROOT = Path(__file__).resolve().parents[2]
TYPED = "total = len(rows)"


async def typing() -> None:
    async with Editor(endpoint=default_endpoint(), name="vim") as editor:
        editor.open("def f():\n    ")
        for column, char in enumerate(TYPED, 4):
            editor.edit(column, (1, column), (1, column), char)
            await editor.reply(editor.complete(1, column + 1))
            await asyncio.sleep(0.02)
        await asyncio.sleep(3 * TICK_S)


def test_an_exported_trace_is_typed_again_at_a_daemon(tmp_path: Path) -> None:
    with daemon("--record-text"):
        asyncio.run(typing())
    with client(place.directory()) as browser:
        browser.headers.update(with_token({}))
        path = browser.get("/api/keys").json()["keys"][0]["path"]
        answer = browser.get("/api/export", params={"form": "trace", "path": path})
    assert answer.status_code == 200, answer.text
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "mine.json").write_text(answer.text, encoding="utf-8")
    command = [sys.executable, str(ROOT / "scripts" / "replay.py"), "--folder", str(traces)]
    ran = subprocess.run(
        [*command, "--engine", "scripted"], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    before, after = (json.loads(answer.text)[name] for name in ("before_text", "after_text"))
    assert after == f"def f():\n    {TYPED}" and before == after[: len(before)]
    assert found["keys"] == len(after) - len(before) > 10, found
