"""Laws of accepted items at a real language server: the daemon is told, nonsense is refused."""

import json
from typing import Any

import pytest
from fake_daemon import FakeDaemon
from lsp_editor import Editor, answered

from completiond.protocol import messages as m

pytestmark = pytest.mark.slow  # real processes


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
