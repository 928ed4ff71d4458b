"""What a person sets, rightly or wrongly, and what the status bar and the messages say of it."""

from pathlib import Path

import pytest
from desk import Desk, desk
from scripted_text import MEAN, SCRIPT, head
from vscode_log import complaints, messages
from vscode_window import until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

GHOST = MEAN.rstrip("\n")[len("def ") :]


async def test_settings_of_the_wrong_type_warn_and_change_nothing(
    packed: None, tmp_path: Path
) -> None:
    wrong = {"maxTokens": "many", "enabled": 7, "disabledLanguages": [1], "context": {}}
    settings = {f"completiond.{name}": value for name, value in wrong.items()}
    async with desk(tmp_path, SCRIPT, settings=settings) as at:

        async def told() -> bool:
            heads = " ".join(complaints(at.log()))
            return all(f"completiond.{name}" in heads for name in wrong)

        await until(told, "a warning for each")
        await at.open("wrongly.py", head("mean"))
        await at.window.type("def ")
        await at.window.wait_for_ghost(GHOST)
        assert await at.window.notifications().count() == 0


async def test_turned_off_for_a_language_and_on_again(at: Desk) -> None:
    window = at.window
    await at.open("off.py", head("mean"))
    await window.command("completiond: Turn Off Here …")
    await window.page.locator(".quick-input-list .monaco-list-row", has_text="python").click()
    await window.wait_for_status("off for python")
    before = len(at.log())
    await window.type("def ")
    await _answered(at, before)
    assert await window.shown() == ""
    await window.command("completiond: Turn On")
    await window.wait_for_status("runs|ready")
    await window.type("\b ")
    await window.wait_for_ghost(GHOST)


async def _answered(at: Desk, since: int) -> None:
    """Until every request has its reply."""

    async def so() -> bool:
        log = at.log()[since:]
        method = "textDocument/inlineCompletion"
        asked = messages(log, "Sending", "request", method)
        return len(asked) > 0 and len(messages(log, "Received", "response", method)) == len(asked)

    await until(so, "a reply to every request")


async def test_a_restart_by_command_brings_suggestions_back(at: Desk) -> None:
    window = at.window
    await at.open("restart.py", head("mean"))
    before = len(at.log())
    await window.command("completiond: Restart")

    async def anew() -> bool:
        return bool(messages(at.log()[before:], "Received", "response", "initialize"))

    await until(anew, "another server")
    await window.wait_for_status("runs|ready")
    await window.type("def ")
    await window.wait_for_ghost(GHOST)


async def test_without_the_server_one_sentence_says_what_to_do(
    packed: None, tmp_path: Path
) -> None:
    settings = {"completiond.command": ""}
    async with desk(tmp_path, SCRIPT, settings=settings, path="/usr/bin:/bin") as at:
        said = at.window.notifications()
        await said.first.wait_for()
        assert await said.count() == 1
        text = await said.first.inner_text()
        assert "install completiond, or set completiond.command" in text
        assert "completiond.command" in await at.window.wait_for_status("not on the PATH")
        await at.window.focus("first.txt")
        await at.window.type("still a text", per_second=30)
        path = at.server.workspace / "first.txt"
        assert (await at.saved(path)).decode() == "still a text"
        await at.set(command=str(at.daemon.bridge()))
        await at.window.wait_for_status("runs|ready")


async def test_without_a_daemon_the_editor_works_and_at_most_one_message_comes(
    packed: None, tmp_path: Path
) -> None:
    settings = {"completiond.endpoint": f"ipc://{tmp_path}/nobody.sock"}
    async with desk(tmp_path, SCRIPT, settings=settings, ready="runs|answers|ready|daemon") as at:
        await at.window.focus("first.txt")
        await at.window.type("def nothing\n" * 3, per_second=30)
        path = at.server.workspace / "first.txt"
        assert (await at.saved(path)).decode() == "def nothing\n" * 3
        assert await at.window.notifications().count() <= 1
        assert not [head for head in complaints(at.log()) if "rror" in head]
