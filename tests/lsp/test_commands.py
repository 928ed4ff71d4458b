"""Laws of what an editor can ask for by name, on a real language server and a fake daemon."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import HOLD, FakeDaemon
from lsp_editor import URI, WAIT_S, Editor, inline, span, texts
from rows_made import DAEMON, full

from completiond.protocol import messages as m
from completiond.record.store import Store
from completiond_lsp.pulling import Puller

pytestmark = pytest.mark.slow  # real processes


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[FakeDaemon]:
    tmp_path.chmod(0o700)
    with FakeDaemon(f"ipc://{tmp_path}/d.sock", lambda _: ["f(\n1)", "2"]) as daemon:
        yield daemon


async def run(editor: Editor, command: str, *arguments: Any) -> dict[str, Any]:
    params = {"command": command, "arguments": list(arguments)}
    return await editor.request("workspace/executeCommand", params)


def here(line: int, character: int) -> dict[str, Any]:
    return {
        "textDocument": {"uri": URI},
        "position": {"line": line, "character": character},
    }


async def test_complete_here_puts_the_answer_in_with_the_documents_line_ends(
    daemon: FakeDaemon,
) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("x = \r\ny")
        reply = await run(editor, "completiond.completeHere", here(0, 4))
        assert reply["result"] == {"applied": True}
        (asked,) = editor.asked
        edit = {"range": span((0, 4), (0, 4)), "newText": "f(\r\n1)"}
        assert asked["params"]["edit"] == {"changes": {URI: [edit]}}
        assert (daemon.completes[0].trigger, daemon.completes[0].n) == ("invoked", 1)
        await editor.until(lambda: bool(daemon.of(m.Feedback)))
        assert daemon.of(m.Feedback) == [m.Feedback(daemon.completes[0].id, "accepted", 0, 5)]
        daemon.answer = lambda _: []
        reply = await run(editor, "completiond.completeHere", here(1, 1))
        assert reply["result"]["applied"] is False and reply["result"]["message"]
        assert len(editor.asked) == 1
        assert (await run(editor, "completiond.completeHere"))["error"]["code"] == -32602
    assert editor.stderr == b""


@pytest.mark.parametrize(
    ("context", "offered"),
    [
        ({}, True),
        ({"diagnostics": [], "triggerKind": 1}, True),
        ({"triggerKind": 2}, False),
        ({"triggerKind": 2, "only": ["refactor"]}, True),
        ({"only": ["refactor.inline"]}, True),
        ({"only": ["quickfix"]}, False),
    ],
)
async def test_the_code_action_is_for_who_looks_for_it_and_asks_nobody(
    daemon: FakeDaemon, context: dict[str, Any], offered: bool
) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("x = ")
        params = {"textDocument": {"uri": URI}, "range": span((0, 1), (0, 4)), "context": context}
        (*found,) = (await editor.request("textDocument/codeAction", params))["result"]
        assert bool(found) is offered and daemon.completes == []
        if offered:
            assert found[0]["command"]["arguments"] == [here(0, 4)]
            params["range"] = span((0, 0), (1 << 70, 1 << 31))
            (*found,) = (await editor.request("textDocument/codeAction", params))["result"]
            last = (1 << 31) - 1
            assert found[0]["command"]["arguments"] == [here(last, last)]


async def test_the_status_is_sent_when_it_changes_and_answered_when_it_is_asked_for(
    daemon: FakeDaemon,
) -> None:
    daemon.state = "loading"
    async with Editor(endpoint=daemon.endpoint, progress=True) as editor:
        editor.open("x = ")
        early = editor.complete(0, 4)
        await editor.until(lambda: any(each["state"] == "loading" for each in editor.standings))
        await editor.until(lambda: bool(editor.notes))
        daemon.state = "ready"
        assert texts(await editor.reply(early)) == ["f(\n1)", "2"], "it waited for the model"
        await editor.until(lambda: editor.standings[-1].get("last", {}).get("source") is not None)
        assert editor.standings[-1]["state"] == "ready"
        assert (editor.standings[-1]["model"], editor.asked[0]["method"]) == (
            "fake",
            "window/workDoneProgress/create",
        )
        await editor.until(lambda: editor.notes[-1]["params"]["value"]["kind"] == "end")
        assert editor.notes[0]["params"]["value"]["title"] == "completiond"
        found = (await editor.request("completiond/status", {}))["result"]
        assert found == editor.standings[-1]
        await editor.request("textDocument/inlineCompletion", inline(0, 4))
        found = (await editor.request("completiond/status", {}))["result"]
        assert found["last"] == {"id": daemon.completes[0].id, "source": "typed"}


async def test_the_status_follows_the_endpoint_though_nobody_types(
    daemon: FakeDaemon,
) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        for value, state in ((None, "ready"), (f"{daemon.endpoint}2", "unreachable")) * 2:
            settings = {"completiond": {"endpoint": value}}
            editor.notify("workspace/didChangeConfiguration", {"settings": settings})
            found = (await editor.request("completiond/status"))["result"]
            async with asyncio.timeout(WAIT_S):
                while found["state"] != state:
                    assert found["state"] == "starting", "the last daemon says nothing of it"
                    found = (await editor.request("completiond/status"))["result"]
    assert editor.stderr == b""


async def test_a_client_that_warns_of_what_it_does_not_know_is_told_nothing(
    daemon: FakeDaemon,
) -> None:
    async with Editor(endpoint=daemon.endpoint, name="Eglot") as editor:
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        assert (await editor.request("completiond/status"))["result"]["state"] == "ready"
        assert editor.standings == []


async def test_what_copilots_clients_tell_is_understood(daemon: FakeDaemon) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("x = ")
        reply = await editor.reply(editor.complete(0, 4, kind=1))
        first, second = reply["result"]
        editor.notify("textDocument/didFocus", {})
        editor.notify("textDocument/didShowCompletion", {"item": second})
        editor.notify("textDocument/didShowCompletion", {"item": {"insertText": "x"}})
        editor.notify(
            "textDocument/didPartiallyAcceptCompletion", {"item": first, "acceptedLength": 2}
        )
        editor.notify("completiond/didReject", {"item": first})
        await run(editor, "completiond.accept", first["command"]["arguments"][0])
        await editor.until(lambda: len(daemon.of(m.Feedback)) == 3)
        ident = daemon.completes[0].id
        assert daemon.of(m.Feedback) == [
            m.Feedback(ident, "shown", 1),
            m.Feedback(ident, "accepted", 0, 2),
            m.Feedback(ident, "accepted", 0, 5),
        ]
        assert editor.notes == []


FACTS = {"request": 2, "trigger": "automatic", "ago_s": 1.0, "path": "a.py", "language": ""}
FACTS |= {"position": 4, "why": "blank", "reason": "empty", "total_ms": 3.0, "kind": "reuse"}


async def test_why_tells_what_the_command_line_does(daemon: FakeDaemon) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        nothing = await run(editor, "completiond.why")
        assert "Nothing has been asked yet" in nothing["result"]["text"]
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        unknown = await run(editor, "completiond.why", "last")
        ident = daemon.completes[0].id
        assert f"Nobody remembers request {ident}" in unknown["result"]["text"]
        assert [asked.request for asked in daemon.of(m.AskWhy)] == [0, ident]
        daemon.facts = FACTS
        text = (await run(editor, "completiond.why", 2))["result"]["text"]
        assert "nothing but white space" in text and "from an earlier answer" in text
        for wrong in ({}, 1 << 70, -1, None):
            assert (await run(editor, "completiond.why", wrong))["error"]["code"] == -32602


async def test_why_is_answered_from_the_record_when_the_daemon_has_forgotten(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    store = Store(tmp_path / "record-1.db", DAEMON)
    store.write({1: full(request=41, path="far/a.py", outcome="accepted", taken=20)})
    store.close()
    for endpoint in (daemon.endpoint, f"{daemon.endpoint}-of-nobody"):
        env = {"COMPLETIOND_STATE": str(tmp_path)}
        async with Editor(endpoint=endpoint, env=env) as editor:
            text = (await run(editor, "completiond.why", 41))["result"]["text"]
            assert "far/a.py" in text and "It was accepted: 20 characters" in text
    (tmp_path / "record-1.db").write_bytes(b"rubbish" * 2000)
    async with Editor(endpoint=daemon.endpoint, env=env) as editor:
        assert "cannot be read" in (await run(editor, "completiond.why", 41))["result"]["text"]


async def test_why_knows_what_this_server_refused_and_that_there_is_no_daemon(
    daemon: FakeDaemon,
) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("A=1\n", uri="file:///work/space/.env", language="dotenv")
        await editor.reply(editor.complete(1, 0, uri="file:///work/space/.env"))
        text = (await run(editor, "completiond.why"))["result"]["text"]
        assert ".env (dotenv), character 4." in text and "keeps secrets by its name" in text
    async with Editor(endpoint=f"{daemon.endpoint}-of-nobody") as editor:
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        text = (await run(editor, "completiond.why"))["result"]["text"]
        assert "No completion daemon runs" in text or "No daemon answers" in text


async def test_a_restart_greets_the_daemon_anew(daemon: FakeDaemon) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("x = ")
        await editor.reply(editor.complete(0, 4))
        greeted = len(daemon.of(m.Hello))
        assert (await run(editor, "completiond.restart"))["result"] is None
        await editor.until(lambda: len(daemon.of(m.Hello)) > greeted)
        assert await editor.reply(editor.complete(0, 4))
    assert editor.stderr == b""


async def test_a_restart_ends_what_waits(daemon: FakeDaemon) -> None:
    daemon.answer = lambda _: HOLD
    async with Editor(endpoint=daemon.endpoint) as editor:
        editor.open("x = ")
        waiting = editor.complete(0, 4)
        await editor.until(lambda: bool(daemon.completes))
        await run(editor, "completiond.restart")
        assert (await editor.reply(waiting))["result"] == []


PULLING = r"""
import json, sys
for percent in (1, 50):
    print(json.dumps({"what": "part 1 of 2", "percent": percent}), flush=True)
print(json.dumps({"what": "joining"}), flush=True)
print("It is in the cache." if sys.argv[-1] == "small" else "")
sys.exit(f"{sys.argv[1:]}:\n\x1b[1mNo such\nmodel." if sys.argv[-1] != "small" else 0)
"""


async def test_a_pull_tells_how_far_it_is_and_ends_in_a_sentence() -> None:
    told: list[tuple[str, int | None]] = []
    puller = Puller(
        lambda what, percent: told.append((what, percent)), (sys.executable, "-c", PULLING)
    )
    assert await puller.pull("small") == "It is in the cache."
    assert told[1:3] == [("part 1 of 2", 1), ("part 1 of 2", 50)]
    assert told[-1] == ("", None)
    assert await puller.pull("--help") == "['--', '--help']: [1mNo such model."
    gone = Puller(lambda *_: None, ("/no/such/program",))
    assert "No such file" in await gone.pull("")


async def test_a_model_that_does_not_exist_is_pulled_in_vain(daemon: FakeDaemon) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        reply = await run(editor, "completiond.pullModel", "no-such-model")
        assert "no-such-model" in reply["result"]["text"]


@pytest.mark.parametrize("name", [5, None, {}, "a\0b", "\ud800", "a\nb", "x" * 201])
async def test_what_is_no_name_of_a_model_is_refused_and_not_fetched(
    daemon: FakeDaemon, name: Any
) -> None:
    async with Editor(endpoint=daemon.endpoint) as editor:
        reply = await run(editor, "completiond.pullModel", name)
        assert reply["error"]["code"] == -32602 and "traceback" not in str(reply)
