"""Odd documents and odd input: no folder, no name, remote, huge, locked, two folders, an IME."""

import json

import pytest
from desk import Desk
from scripted_text import MEAN, head
from vscode_log import complaints, messages
from vscode_window import Window

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

GHOST = MEAN.rstrip("\n")[len("def ") :]
LAST = GHOST.split("\n")[-1]
ASK = "textDocument/inlineCompletion"


async def untitled(window: Window) -> None:
    await window.command("New Untitled Text File")
    await window.focus("Untitled-1")
    await window.insert(head("mean"))
    await window.type("def ")
    await window.wait_for_ghost(GHOST)
    await window.press("Tab")
    await window.wait_for_line(LAST)


async def test_an_untitled_document_gets_suggestions(at: Desk) -> None:
    await untitled(at.window)


async def test_a_window_without_a_folder_gets_suggestions(at: Desk) -> None:
    window = await Window.at(at.browser, at.server.url(workspace=False))
    await window.wait_for_status("runs|ready")
    await untitled(window)
    await window.page.close()


async def test_a_file_of_any_folder_of_a_workspace_is_named_by_its_place_in_it(at: Desk) -> None:
    space = at.server.workspace.parent
    for name in ("one", "two"):
        (space / name / "inner").mkdir(parents=True)
        (space / name / "inner" / f"{name}.py").write_text(head("mean"))
    file = space / "both.code-workspace"
    file.write_text(json.dumps({"folders": [{"path": "one"}, {"path": "two"}]}))
    window = await Window.at(at.browser, at.server.url(of=file))
    await window.wait_for_status("ready")
    for name in ("one", "two"):
        await window.open(space / name / "inner" / f"{name}.py")
        await at.opened(f"inner/{name}.py")
        await at.in_workspace(name)
        await window.type("def ")
        await window.wait_for_ghost(GHOST)
        assert (await at.daemon.why())["path"] == f"inner/{name}.py"
    await window.page.close()


async def test_a_file_of_a_remote_scheme_gets_suggestions(at: Desk) -> None:
    window = at.window
    await window.command("Open a Remote File")
    await window.focus("remote.py")
    await at.opened("remote.py")
    await window.press("Control+End")
    await window.type("def ")
    await window.wait_for_ghost(GHOST)
    await window.press("Tab")
    await window.wait_for_line(LAST)
    await window.save()
    await window.press("Control+Z")
    await window.wait_for_line("def ")


async def test_at_the_end_of_28000_lines_suggestions_come_as_elsewhere(at: Desk) -> None:
    lines = "".join(f"value_{i} = {i}\n" for i in range(28_000))
    path = await at.open("huge.py", lines + head("mean"))
    await at.window.type("def ")
    await at.window.wait_for_ghost(GHOST)
    await at.window.press("Tab")
    await at.window.wait_for_line(LAST)
    assert (await at.saved(path)).decode() == lines + head("mean") + MEAN.rstrip("\n")


async def test_a_read_only_file_is_left_alone(at: Desk) -> None:
    before = len(at.log())
    path = await at.open("locked.py", head("mean"))
    await at.window.type("def ")
    assert await at.window.shown() == ""
    assert path.read_text() == head("mean")
    asked = messages(at.log()[before:], "Sending", "request", ASK)
    assert not [entry for entry in asked if "locked.py" in entry.body]


async def test_an_input_method_composes_without_a_stale_ghost(at: Desk) -> None:
    window, before = at.window, len(at.log())
    path = await at.open("ime.txt", head("mean"))
    await window.type("def ")
    await window.wait_for_ghost(GHOST)
    start = await window.now()
    protocol = await window.page.context.new_cdp_session(window.page)
    for text in ("k", "か", "かn", "かな"):
        await protocol.send(
            "Input.imeSetComposition",
            {"text": text, "selectionStart": len(text), "selectionEnd": len(text)},
        )
        await window.now()
    await protocol.send("Input.insertText", {"text": "仮名"})
    await window.now()
    frames = [frame for frame in await window.frames(start) if frame.line != "def "]
    assert frames and not any(frame.suggestion for frame in frames)
    assert (await at.saved(path)).decode() == head("mean") + "def 仮名"
    assert complaints(at.log()[before:]) == []
