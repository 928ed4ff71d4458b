"""Laws of an editor's settings at a real language server: whence they come and what they change."""

import asyncio
from typing import Any

import pytest
from fake_daemon import FakeDaemon
from lsp_editor import (
    INVALID_PARAMS,
    URI,
    WAIT_S,
    Editor,
    answered,
    inline,
    shown,
    span,
)

pytestmark = pytest.mark.slow  # real processes


async def test_settings_come_from_both_places_and_bad_ones_warn_once(endpoint: str) -> None:
    options = {"maxTokens": "x", "startDaemon": False, "maxMs": 5_000}
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        async with Editor(endpoint=endpoint, options=options, settings={"maxTokens": 9}) as editor:
            editor.open("x = ")
            await editor.until(lambda: bool(daemon.received))
            await answered(editor, 0, 4)
            assert (daemon.completes[-1].max_tokens, daemon.completes[-1].max_ms) == (9, 5_000)
            editor.settings = {"maxTokens": "x", "enabled": False}
            pushed: tuple[Any, ...] = (None, {"settings": {"python": {}}}, {"settings": None})
            for settings in pushed:
                editor.notify("workspace/didChangeConfiguration", settings)
            await editor.until(lambda: editor.configured == 4)
            assert (await editor.reply(editor.complete(0, 4)))["result"] == []
            assert len(shown(editor, "window/logMessage")) == 1
            assert shown(editor, "window/showMessage") == []


async def test_settings_can_be_pushed(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            settings = {"settings": {"completiond": {"maxTokens": 3}, "python": {}}}
            editor.notify("workspace/didChangeConfiguration", settings)
            await answered(editor, 0, 4)
            assert daemon.completes[-1].max_tokens == 3
            assert editor.notes == []


async def test_an_editor_without_ghost_text_gets_a_popup_item_if_it_wants_one(
    endpoint: str,
) -> None:
    options = {"fallbackCompletion": True, "startDaemon": False}
    with FakeDaemon(endpoint, lambda _: ["t(1)"]):
        async with Editor(endpoint=endpoint, options=options) as drawing:
            assert "completionProvider" not in drawing.capabilities
        async with Editor(endpoint=endpoint, options=options, name="Helix") as editor:
            assert "completionProvider" in editor.capabilities
            editor.open("x = prin")
            await answered(editor, 0, 8)
            reply = await editor.request("textDocument/completion", inline(0, 8, kind=1))
            (item,) = reply["result"]["items"]
            assert item["textEdit"] == {"range": span((0, 4), (0, 8)), "newText": "print(1)"}
            reply = await editor.request("textDocument/completion", inline(-1, 8))
            assert reply["error"]["code"] == INVALID_PARAMS


async def test_the_log_never_holds_a_document(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: ["answer"]):
        async with Editor(endpoint=endpoint, arguments=("--log-level", "debug")) as editor:
            editor.open("secret = ")
            await answered(editor, 0, 9)
            editor.edit(2, (0, 0), (0, 0), "hidden")
            await editor.request("shutdown")
    assert editor.stderr != b""
    assert not any(word in editor.stderr for word in (b"secret", b"hidden", b'"answer"'))


async def test_what_is_copied_goes_along_in_a_pause(endpoint: str) -> None:
    yanked = "def copied_from_elsewhere(first, second):\n    return first"
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        async with Editor(endpoint=endpoint, options={"context": True}) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            editor.notify("completiond/didYank", {"text": yanked})
            editor.notify("completiond/didYank", {"text": 3})
            editor.notify("textDocument/didFocus", {"textDocument": {"uri": URI}})
            editor.notify("textDocument/didSave", {"textDocument": {"uri": URI}})
            async with asyncio.timeout(WAIT_S):
                while not daemon.completes[-1].chunks:
                    await asyncio.sleep(0.01)
    (chunk,) = daemon.completes[-1].chunks
    assert (chunk.path, chunk.text) == ("clipboard", yanked)
