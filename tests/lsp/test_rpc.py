"""Laws of JSON-RPC on a real language server: a reply to each request, no noise for a mistake."""

from typing import Any

import pytest
from lsp_editor import INVALID_PARAMS, Editor

UNINITIALIZED = -32002
INVALID_REQUEST = -32600
OPTIONS = {"fallbackCompletion": True, "startDaemon": False}

pytestmark = pytest.mark.slow  # real processes


async def test_a_bad_notification_is_no_incident(endpoint: str) -> None:
    async with Editor(endpoint=endpoint) as editor:
        for method in (
            "textDocument/didOpen",
            "textDocument/didChange",
            "textDocument/didShowCompletion",
            "textDocument/didFocus",
            "completiond/didYank",
        ):
            editor.notify(method, {"textDocument": 5})
        await editor.request("completiond/status")
    assert editor.stderr == b""


async def test_a_second_initialize_is_refused(endpoint: str) -> None:
    async with Editor(endpoint=endpoint, options=OPTIONS, name="Helix") as editor:
        again = {"processId": None, "rootUri": None, "capabilities": {}}
        reply = await editor.request("initialize", again | {"initializationOptions": OPTIONS})
        assert reply["error"]["code"] == INVALID_REQUEST
        assert "result" in await editor.request("completiond/status")
    assert editor.stderr == b""


@pytest.mark.parametrize("method", ["initialized", "$/setTrace", "$/cancelRequest"])
async def test_a_notification_that_asks_for_a_reply_is_refused(endpoint: str, method: str) -> None:
    async with Editor(endpoint=endpoint) as editor:
        for params in ({}, None, 5):
            reply = await editor.request(method, params)
            assert reply["error"]["code"] == INVALID_REQUEST


async def test_before_initialize_is_accepted_one_sentence_says_so(endpoint: str) -> None:
    class Refused(Editor):
        async def request(self, method: str, *params: Any) -> dict[str, Any]:
            if method != "initialize":
                return await super().request(method, *params)
            reply = await super().request(method, {"processId": "x", "capabilities": 3})
            assert reply["error"]["code"] == INVALID_PARAMS
            return {"result": {"capabilities": {}}}

    async with Refused(endpoint=endpoint) as editor:
        editor.open("x = ")
        for method in ("completiond/status", "textDocument/inlineCompletion", "shutdown"):
            assert (await editor.request(method, {}))["error"]["code"] == UNINITIALIZED
        assert "result" in await Editor.request(editor, "initialize", editor.asks)
        assert "result" in await editor.request("completiond/status")
    assert editor.stderr.count(b"\n") == 1 and b"initialize` has not been accepted" in editor.stderr


async def test_a_root_that_is_no_uri_is_none(endpoint: str) -> None:
    class Rooted(Editor):
        def ask(self, method: str, *params: Any) -> int:
            if method == "initialize":
                params[0].update(rootUri="file://[x", workspaceFolders=None)
            return super().ask(method, *params)

    async with Rooted(endpoint=endpoint) as editor:
        assert "inlineCompletionProvider" in editor.capabilities
    assert editor.stderr == b""
