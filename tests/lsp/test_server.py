"""Laws of the language server, on a real process and a real socket with a fake daemon behind."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import HOLD, Answer, FakeDaemon
from lsp_editor import CANCELLED, URI, Editor, inline, span, texts

from completiond.protocol import messages as m
from completiond_lsp.server import main

INVALID_PARAMS, INVALID_REQUEST, NO_METHOD = -32602, -32600, -32601
CI_FACTOR = 6
"""How much slower than a quiet machine a shared one may be."""
GONE_S = 2 * CI_FACTOR


pytestmark = pytest.mark.slow  # real processes


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return f"ipc://{tmp_path}/d.sock"


async def answered(editor: Editor, line: int, character: int) -> list[str]:
    """Ask as a typing person does, until there is something."""
    async with asyncio.timeout(10):
        while True:
            reply = await editor.reply(editor.complete(line, character))
            if reply["result"]:
                return texts(reply)


def shown(editor: Editor, method: str) -> list[str]:
    return [note["params"]["message"] for note in editor.notes if note["method"] == method]


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


async def test_without_a_daemon_the_answer_is_empty_and_never_null(endpoint: str) -> None:
    async with Editor(endpoint=endpoint) as editor:
        early = editor.complete(0, 0)
        editor.open("x = ")
        replies = [await editor.reply(ident) for ident in (early, editor.complete(0, 4))]
        assert [reply["result"] for reply in replies] == [[], []]
        assert editor.notes == []
        with FakeDaemon(endpoint, lambda _: ["1"]):
            assert await answered(editor, 0, 4) == ["1"]
    assert editor.stderr == b""


async def test_a_daemon_that_goes_away_ends_the_request_and_the_next_daemon_answers(
    endpoint: str,
) -> None:
    async with Editor(endpoint=endpoint) as editor:
        editor.open("x = ")
        with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
            await editor.until(lambda: bool(daemon.received))
            ident = editor.complete(0, 4)
            await editor.until(lambda: bool(daemon.completes))
        assert (await editor.reply(ident))["result"] == []
        with FakeDaemon(endpoint, lambda _: ["1"]):
            assert await answered(editor, 0, 4) == ["1"]


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


async def test_a_shutdown_cancels_what_is_asked_and_refuses_what_follows(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            ident = editor.complete(0, 4)
            await editor.until(lambda: bool(daemon.completes))
            assert (await editor.request("shutdown"))["result"] is None
            assert (await editor.reply(ident))["error"]["code"] == CANCELLED
            reply = await editor.reply(editor.complete(0, 4))
            assert reply["error"]["code"] == INVALID_REQUEST
            editor.notify("exit", None)
            await asyncio.wait_for(editor.process.wait(), GONE_S)
    assert editor.stderr == b""


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


async def test_the_log_never_holds_a_document(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: ["answer"]):
        async with Editor(endpoint=endpoint, arguments=("--log-level", "debug")) as editor:
            editor.open("secret = ")
            await answered(editor, 0, 9)
            editor.edit(2, (0, 0), (0, 0), "hidden")
            await editor.request("shutdown")
    assert editor.stderr != b""
    assert not any(word in editor.stderr for word in (b"secret", b"hidden", b'"answer"'))


async def test_an_accepted_item_is_told_to_the_daemon(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: ["foo"]) as daemon:
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            reply = await editor.reply(editor.complete(0, 4))
            command = reply["result"][0]["command"]
            sent = {"command": command["command"], "arguments": command["arguments"]}
            assert (await editor.request("workspace/executeCommand", sent))["result"] is None
            await editor.until(lambda: len(daemon.of(m.Feedback)) == 2)
            ident = daemon.completes[0].id
            assert daemon.of(m.Feedback)[1:] == [m.Feedback(ident, "accepted", 0, 3)]


def serving(log: Path) -> list[int]:
    words = log.read_text().split() if log.exists() else []
    return [int(pid) for word, pid in zip(words, words[1:], strict=False) if word == "serving"]


async def test_two_windows_start_one_daemon_and_it_outlives_them(
    endpoint: str, tmp_path: Path
) -> None:
    command = (sys.executable, str(Path(__file__).with_name("fake_daemon.py")))
    how: dict[str, Any] = {
        "endpoint": endpoint,
        "arguments": ("--daemon-command", *command),
        "options": {},
        "env": {"XDG_STATE_HOME": str(tmp_path)},
    }
    log = tmp_path / "completiond" / "daemon.log"
    try:
        async with Editor(**how) as one, Editor(**how) as two:
            for editor in (one, two):
                editor.open("x = ")
            await asyncio.gather(*(answered(editor, 0, 4) for editor in (one, two)))
            assert one.notes == two.notes == []
        (daemon,) = serving(log)
        assert os.getsid(daemon) == daemon
        async with Editor(**how) as three:
            three.open("x = ")
            assert await answered(three, 0, 4) == ["started"]
        assert serving(log) == [daemon]
    finally:
        for process in serving(log):
            os.kill(process, signal.SIGKILL)


async def test_a_daemon_that_cannot_start_is_told_once(endpoint: str, tmp_path: Path) -> None:
    async with Editor(
        endpoint=endpoint,
        arguments=("--daemon-command", "/no/such/program"),
        options={},
        env={"XDG_STATE_HOME": str(tmp_path)},
    ) as editor:
        editor.open("x = ")
        for _ in range(4):
            assert (await editor.reply(editor.complete(0, 4)))["result"] == []
        await editor.until(lambda: bool(editor.notes))
        assert len(shown(editor, "window/showMessage")) == 1


async def test_the_bridge_ends_with_its_editor(endpoint: str) -> None:
    with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
        editor = await Editor(endpoint=endpoint).__aenter__()
        editor.open("x = ")
        editor.complete(0, 4)
        await editor.until(lambda: bool(daemon.completes))
        closed = time.monotonic()
        await editor.close()
        assert time.monotonic() - closed < GONE_S
        assert editor.stderr == b""


async def test_the_bridge_ends_with_its_editor_though_its_pipe_stays_open(endpoint: str) -> None:
    other = await asyncio.create_subprocess_exec("sleep", "20")
    async with Editor(endpoint=endpoint, process_id=other.pid) as editor:
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        other.kill()
        await other.wait()
        await asyncio.wait_for(editor.process.wait(), GONE_S)


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_help_and_version_are_answered(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([flag])
    assert ended.value.code == 0
    assert "completiond-lsp" in capsys.readouterr().out


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


@pytest.mark.parametrize("arguments", [None, ["a"], [[1]], [True], [1, 2, 3, 4]])
async def test_an_acceptance_that_makes_no_sense_is_refused_without_a_traceback(
    endpoint: str, arguments: Any
) -> None:
    with FakeDaemon(endpoint, lambda _: ["foo"]):
        async with Editor(endpoint=endpoint) as editor:
            editor.open("x = ")
            await answered(editor, 0, 4)
            sent = {"command": "completiond.accept", "arguments": arguments}
            reply = await editor.request("workspace/executeCommand", sent)
            assert "traceback" not in json.dumps(reply)
    assert editor.stderr == b""


async def test_a_message_larger_than_memory_ends_the_bridge_with_one_sentence() -> None:
    async with Editor(endpoint="ipc:///nowhere/d.sock") as editor:
        assert editor.process.stdin is not None
        editor.process.stdin.write(b"Content-Length: 99999999999999\r\n\r\n{")
        assert await asyncio.wait_for(editor.process.wait(), GONE_S) == 1
    assert editor.stderr.count(b"\n") == 1 and b"larger than memory" in editor.stderr


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
            async with asyncio.timeout(10):
                while not daemon.completes[-1].chunks:
                    await asyncio.sleep(0.01)
    (chunk,) = daemon.completes[-1].chunks
    assert (chunk.path, chunk.text) == ("clipboard", yanked)
