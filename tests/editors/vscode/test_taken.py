"""What is in the file after a suggestion was taken, whole or in part: exact, and one undo."""

from typing import NamedTuple

import pytest
from desk import Desk
from scripted_text import MEAN, TEXTS, head
from vscode_log import Entry, messages
from vscode_window import until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

PART = "textDocument/didPartiallyAcceptCompletion"
TAKEN = [
    ("whole", "Tab", MEAN.rstrip("\n")),
    ("word", "Control+ArrowRight", "def mean"),
    ("line", "Alt+End", "def mean(values):\n"),
]


@pytest.mark.parametrize(("name", "key", "text"), TAKEN, ids=[case[0] for case in TAKEN])
async def test_what_is_taken_is_in_the_file_and_one_undo_takes_it_back(
    at: Desk, name: str, key: str, text: str
) -> None:
    window = at.window
    path = await at.open(f"{name}.py", head("mean"))
    await window.type("def ")
    await window.wait_for_ghost()
    before = len(at.log())
    await window.press(key)
    await window.wait_for_line(text.split("\n")[-1])
    if name == "whole":
        await _sent(at, before, "Sending", "request", "workspace/executeCommand")
    else:
        told = await _sent(at, before, "Sending", "notification", PART)
        assert told[0].content["acceptedLength"] == len(text) - len("def ")
    assert await at.saved(path) == (head("mean") + text).encode()
    await window.press("Control+Z")
    await window.wait_for_line("def ")
    assert await at.saved(path) == (head("mean") + "def ").encode()


async def _sent(at: Desk, since: int, *what: str) -> list[Entry]:
    async def found() -> list[Entry]:
        return messages(at.log()[since:], *what)

    return list(await until(found, " ".join(what)))


async def test_escape_hides_the_suggestion_and_says_so(at: Desk) -> None:
    window = at.window
    await at.open("escape.py", head("mean"))
    await window.type("def ")
    ghost = await window.wait_for_ghost()
    before = len(at.log())
    await window.press("Escape")
    await window.wait_for_none()
    told = await _sent(at, before, "Sending", "notification", "completiond/didReject")
    assert told[0].content["item"]["insertText"] == ghost


class Exact(NamedTuple):
    """A file up to the cursor and behind it, what is typed, and what comes of it."""

    file: str
    before: str
    typed: str
    becomes: str
    after: str = ""
    closed: str = ""
    """What the editor has put in by itself."""

    @property
    def line(self) -> str:
        """Where the cursor is then."""
        lines = self.becomes.split("\n")
        return lines[-1 - self.after.count("\n")]


def _text(name: str) -> str:
    return TEXTS[name].rstrip("\n")


EXACT = [
    Exact("accents.txt", head("accents"), "c", head("accents") + _text("accents")),
    Exact("faces.txt", head("faces") + "face = 😀 +", " ", head("faces") + _text("faces")),
    Exact("tabs.txt", head("tabs"), "t", head("tabs") + _text("tabs")),
    Exact(
        "crlf.txt",
        head("lines").replace("\n", "\r\n"),
        "l",
        (head("lines") + _text("lines")).replace("\n", "\r\n"),
    ),
    Exact(
        "closed.js",
        head("brackets"),
        "show(",
        head("brackets") + _text("brackets"),
        closed=")",
    ),
    Exact(
        "feed.txt",
        f"a\x0cb\n\x0c\n{head('feed')}",
        "f",
        f"a\x0cb\n\x0c\n{head('feed')}feed me now, said it",
    ),
    Exact(
        "right.py",
        head("right") + "print(",
        "total =",
        head("right") + "print(total = price * count)\nend = 1\n",
        ")\nend = 1\n",
    ),
]


@pytest.mark.parametrize("case", EXACT, ids=[case.file for case in EXACT])
async def test_the_file_is_exact_to_the_byte(at: Desk, case: Exact) -> None:
    window = at.window
    path = await at.open(case.file, case.before + case.after)
    for _ in case.after.split("\n")[1:]:
        await window.press("ArrowUp")
    if case.after:
        await window.press("End", *["ArrowLeft"] * len(case.after.split("\n")[0]))
    await window.type(case.typed)
    await window.wait_for_ghost()
    await window.press("Tab")
    await window.wait_for_line(case.line)
    assert (await at.saved(path)).decode() == case.becomes
    await window.press("Control+Z")
    taken_back = case.before + case.typed + case.closed + case.after
    assert (await at.saved(path)).decode() == taken_back, (
        "one undo takes all of it back, and nothing else"
    )
    assert case.becomes.count("\r") == case.before.count("\r") + (2 if "crlf" in case.file else 0)
