"""Documents that are no plain file of a known language: cells, unsaved ones, diffs."""

from pathlib import Path

import pytest
from test_bridge import at, bridging

from completiond_lsp.documents import Position
from completiond_lsp.params import Change, Opened

CELL = "vscode-notebook-cell:/work/space/n.ipynb#W"
ODD = {
    "untitled:Untitled-1": "Untitled-1",
    "git:/work/space/a.py?%7B%22ref%22%3A%22HEAD%22%7D": "a.py",
    "fugitive:///work/space/.git//0/a.py": ".git/0/a.py",
    "diffview:///work/space/a.py": "a.py",
    "output:extension-output-1": "extension-output-1",
    "search-editor:///query": "query",
    "vscode-remote://ssh-remote%2Bhost/home/me/a.py": "a.py",
    "file:///c%3A/Users/me/a.py": "a.py",
    "file://server/share/a.py": "a.py",
    "file:///C:%5CUsers%5Cme%5Ca.py": "a.py",
    "http://[broken": "",
    "": "",
}


@pytest.mark.parametrize(
    ("language", "first", "second", "line"),
    [
        ("python", "import math\n", "x = 1\ny = ", "y = "),
        ("r", "library(stats)\n", "x <- 1\ny <- ", "y <- "),
        ("julia", "using Base\n", "x = 1\ny = ", "y = "),
    ],
)
async def test_each_cell_of_a_notebook_is_a_document(
    tmp_path: Path, language: str, first: str, second: str, line: str
) -> None:
    async with bridging(tmp_path, lambda _: ["2"]) as (bridge, daemon):
        bridge.open(Opened(f"{CELL}1", language, 1, first))
        bridge.open(Opened(f"{CELL}2", language, 7, second))
        here = at(1, len(line))._replace(uri=f"{CELL}2")
        assert [item.text for item in await bridge.complete(here)] == ["2"]
        asked = daemon.completes[0]
        assert (asked.before, asked.path, asked.language) == (second, "n.ipynb", language)
        start = Position(0, 0)
        bridge.change(f"{CELL}1", 2, [Change((start, start), "# one\n")])
        assert [item.text for item in await bridge.complete(here)] == ["2"]
        bridge.close(f"{CELL}1")
        bridge.change(f"{CELL}2", 8, [Change((Position(1, len(line)),) * 2, "3")])
        moved = at(1, len(line) + 1)._replace(uri=f"{CELL}2")
        assert [item.text for item in await bridge.complete(moved)] == ["2"]
        assert [(one.version, one.document) for one in daemon.completes][-1] == (8, f"{CELL}2")
        assert await bridge.complete(here._replace(uri=f"{CELL}1")) == []


@pytest.mark.parametrize("uri", ODD)
async def test_a_document_of_another_scheme_is_answered_and_tells_no_whole_path(
    tmp_path: Path, uri: str
) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.open(Opened(uri, "python", 1, "x = "))
        items = await bridge.complete(at(0, 4)._replace(uri=uri))
        assert [item.text for item in items] == ["1"]
        assert daemon.completes[0].path == ODD[uri]
        bridge.close(uri)


@pytest.mark.parametrize("language", ["", "klingon", "X" * 200, "py thon\n"])
async def test_a_language_that_nobody_knows_is_answered(tmp_path: Path, language: str) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.open(Opened("untitled:U", language, 1, "x = "))
        items = await bridge.complete(at(0, 4)._replace(uri="untitled:U"))
        assert [item.text for item in items] == ["1"]
        assert daemon.completes[0].language == language
