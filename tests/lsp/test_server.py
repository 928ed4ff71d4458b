"""Laws of the language server, on a real process and a real socket with a fake daemon behind."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import HOLD, Answer, FakeDaemon
from lsp_editor import CANCELLED, INVALID_PARAMS, URI, Editor, answered, inline, shown, span, texts

from completiond.protocol import messages as m
from completiond_lsp.server import main

INVALID_REQUEST, NO_METHOD = -32600, -32601
CI_FACTOR = 6
"""How much slower than a quiet machine a shared one may be."""

pytestmark = pytest.mark.slow  # real processes


async def test_initialize_is_quick_small_and_advertises_inline_completion(
    endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeDaemon(endpoint, lambda _: ["1"]):
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            status = Path(f"/proc/{editor.process.pid}/status").read_text()
    mib = int(status.split("VmRSS:")[1].split()[0]) / 1024
    with capsys.disabled():
        print(f"\n  initialize {editor.initialize_s:.2f} s, {mib:.0f} MiB")  # noqa: T201
    assert editor.capabilities["inlineCompletionProvider"] == {}
    # Cells of notebooks come as documents: who takes them in another way is not asked about them.
    assert "notebookDocumentSync" not in editor.capabilities
    assert editor.initialize_s < 0.6 * CI_FACTOR
    assert mib <= 60


def test_the_bridge_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "typer", "rich", "tokenizers", "transformers", "safetensors")
    program = f"import sys, completiond_lsp.server; print(set({heavy}) & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"set()"


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_help_and_version_are_answered(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([flag])
    assert ended.value.code == 0
    assert "completiond-lsp" in capsys.readouterr().out


async def test_every_request_gets_exactly_one_reply_in_any_order_of_messages(
    endpoint: str,
) -> None:
    dice = random.Random(7)
    with FakeDaemon(endpoint, lambda _: dice.choice([HOLD, ["1"], []])):
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            asked: list[int] = []
            version = 1
            for _ in range(30):
                asked.append(editor.complete(0, 4, dice.choice([1, 2])))
                match dice.randrange(5):
                    case 0:
                        editor.cancel(asked[-1])
                    case 1:
                        editor.cancel(dice.choice(asked))
                    case 2:
                        version += 1
                        editor.edit(version, (0, 4), (0, 4), "f")
                    case 3:
                        await editor.reply(editor.ask("completiond/unknown"))
            editor.cancel(asked[-1])
            for ident in asked:
                reply = await editor.reply(ident)
                assert isinstance(reply.get("result"), list) or reply["error"]["code"] == CANCELLED
            await editor.request("shutdown")
            assert all(len(replies) == 1 for replies in editor.replies.values())
    assert editor.stderr == b""


async def test_a_storm_of_changes_leaves_no_stale_answer(endpoint: str) -> None:
    """An editor that never cancels, as Neovim 0.12: only the last request may be answered."""

    def answer(asked: m.Complete) -> Answer:
        return ["answer"] if asked.before.endswith("f" * 20) else HOLD

    with FakeDaemon(endpoint, answer) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("")
            asked = []
            for i in range(20):
                editor.edit(2 + i, (0, i), (0, i), "f")
                asked.append(editor.complete(0, i + 1))
            last = await editor.reply(asked[-1])
            codes = {(await editor.reply(ident))["error"]["code"] for ident in asked[:-1]}
            assert codes == {CANCELLED}
            assert last["result"][0]["range"] == span((0, 20), (0, 20))
            assert all(reason == "superseded" for _, reason in daemon.cancels)
            assert daemon.completes[-1].version == 21


MALFORMED: list[Any] = [
    [],
    [None],
    [{}],
    [{"textDocument": None, "position": None, "context": None}],
    [{"textDocument": {"uri": 7}, "position": {"line": 0, "character": 0}}],
    [{"textDocument": {"uri": URI}}],
    [inline(-1, 0)],
    [inline(0, -1)],
    [inline(0, 0) | {"position": {"line": "0", "character": 0.5}}],
    [[1, 2]],
    ["text"],
]
ODD_BUT_CLEAR = [
    inline(0, 4, kind=0),
    inline(0, 4, kind=9),
    inline(0, 4) | {"context": None},
    inline(0, 4) | {"context": {"triggerKind": "x", "selectedCompletionInfo": 3}},
    {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 4}},
    inline(10**9, 10**9),
    inline(0, 4) | {"textDocument": {"uri": URI, "version": 1}, "formattingOptions": {}},
]


async def test_malformed_and_odd_messages_get_a_reply_and_no_popup(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: ["1"]) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            method = "textDocument/inlineCompletion"
            for params in MALFORMED:
                reply = await editor.request(method, *params)
                assert reply["error"]["code"] == INVALID_PARAMS, params
            for odd in ODD_BUT_CLEAR:
                assert texts(await editor.request(method, odd)) == ["1"], odd
            assert daemon.completes[1].n == 3, "triggerKind 0 is a person who asks"
            editor.send({"id": 900, "method": method, "params": inline(0, 4), "jsonrpc": "1.0"})
            assert (await editor.reply(900))["error"]["code"] == INVALID_REQUEST
            reply = await editor.request("textDocument/hover", {"position": 5})
            assert reply["error"]["code"] == NO_METHOD
            assert (await editor.request("x/y", {"a b": 1}))["error"]["code"] == NO_METHOD
            reply = await editor.request("workspace/executeCommand", {"command": "x"})
            assert reply["error"]["code"] == INVALID_PARAMS
            reply = await editor.request("workspace/executeCommand", {"command": 3})
            assert reply["error"]["code"] == INVALID_PARAMS
            editor.notify("$/cancelRequest", {"id": 4711})
            editor.notify("window/unknown", 5)
            assert texts(await editor.request(method, inline(0, 4))) == ["1"]
            assert shown(editor, "window/showMessage") == []
    assert editor.stderr == b""


async def test_an_unreadable_change_hides_the_document_until_it_is_opened_again(
    endpoint: str,
) -> None:
    with FakeDaemon(endpoint, lambda _: ["1"]):
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            editor.notify("textDocument/didOpen", {"textDocument": 5})
            editor.notify("textDocument/didClose", None)
            editor.change(2, [{"range": {"start": 1}, "text": "x"}])
            editor.change(3, [])
            assert (await editor.reply(editor.complete(0, 4)))["result"] == []
            editor.open("x = ", version=4)
            editor.change(5, [{"text": "whole"}])
            assert await answered(editor, 0, 5) == ["1"]
            assert shown(editor, "window/showMessage") == []


@pytest.mark.parametrize(("encoding", "width"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
async def test_positions_are_in_the_units_that_were_agreed(
    endpoint: str, encoding: str, width: int
) -> None:
    text = "a\x0cb\u2028\r\n😀 = (1)\r\nend"
    with FakeDaemon(endpoint, lambda _: ["f(\r\n)"]) as daemon:
        async with Editor(endpoint=endpoint, encodings=["utf-7", encoding, "utf-16"]) as editor:
            assert editor.capabilities["positionEncoding"] == encoding
            editor.open(text)
            editor.edit(2, (1, width + 3), (1, width + 6), "😀")
            reply: dict[str, Any] = {"result": []}
            while not reply["result"]:
                reply = await editor.reply(editor.complete(1, 2 * width + 3))
            (item,) = reply["result"]
            assert item["insertText"] == "f(\n)"
            assert item["range"] == span((1, 2 * width + 3), (1, 2 * width + 3))
            asked = daemon.completes[-1]
            assert asked.before == "a\x0cb\u2028\r\n😀 = 😀"
            assert asked.after == "\r\nend"
