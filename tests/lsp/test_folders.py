"""A workspace's folders come and go while a document is open."""

import asyncio
from typing import Any

import pytest
from fake_daemon import FakeDaemon
from lsp_editor import WAIT_S, Editor

pytestmark = pytest.mark.slow  # a real process

FILE = "file:///work/one/inner/a.py"
ONE = {"uri": "file:///work/one", "name": "one"}
TWO = {"uri": "file:///work/two", "name": "two"}


async def path_told(editor: Editor, daemon: FakeDaemon, version: int) -> str:
    """Type a key, and see what the daemon is told of the file."""
    editor.change(version, [{"text": f"x{version} = "}], uri=FILE)
    told = len(daemon.completes)
    async with asyncio.timeout(WAIT_S):
        while len(daemon.completes) == told:
            await editor.reply(editor.complete(0, 5, uri=FILE))
    return daemon.completes[-1].path


@pytest.mark.parametrize("first", [None, [], [TWO]])
async def test_a_file_is_named_by_the_folders_of_the_moment(endpoint: str, first: Any) -> None:
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        editor = Editor(endpoint=endpoint)
        editor.asks["workspaceFolders"] = first
        async with editor:
            editor.open("x = ", uri=FILE)
            assert await path_told(editor, daemon, 2) == "a.py"
            for version, event, path in (
                (3, {"added": [ONE], "removed": []}, "inner/a.py"),
                (4, {"added": [ONE, TWO], "removed": [ONE]}, "inner/a.py"),
                (5, {"added": [], "removed": [ONE]}, "a.py"),
            ):
                editor.notify("workspace/didChangeWorkspaceFolders", {"event": event})
                assert await path_told(editor, daemon, version) == path
