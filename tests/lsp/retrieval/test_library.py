"""Which open buffers may be quoted, and what is held: over real folders, as the thread does it."""

import json
from pathlib import Path

import pytest

from completiond_lsp.retrieval.ask import Ask, Open
from completiond_lsp.retrieval.library import Library
from completiond_lsp.retrieval.recent import Past, Place

AWKWARD = Path(__file__).parents[4] / "shared/data/awkward"
HELPER = "def helper(value):\n    return value + 1\n"
HERE = "x = helper(1)\n"


def buffer(uri: str, text: str = HELPER, version: int = 1, language: str = "python") -> Open:
    return Open(uri, language, version, text)


def quoted(library: Library, here: Open, *others: Open) -> set[str]:
    return {piece.path for piece in library.answer(Ask(here, 0, others, Past()))}


def test_only_what_a_person_writes_in_the_workspace_is_quoted(tmp_path: Path) -> None:
    root, outside = tmp_path / "in", tmp_path / "out"
    (root / "lib").mkdir(parents=True)
    outside.mkdir()
    (root / ".gitignore").write_text("ignored.py\n")
    (outside / "far.py").write_text(HELPER)
    (root / "link.py").symlink_to(outside / "far.py")
    library = Library([root.as_uri()], pytest.fail)
    here = buffer((root / "a.py").as_uri(), HERE)
    allowed = {
        (root / "lib/unsaved.py").as_uri(): "lib/unsaved.py",
        "untitled:Untitled-1": "Untitled-1",
        f"vscode-notebook-cell:{root}/n.ipynb#W1": "n.ipynb#cells",
    }
    refused = [
        (root / "ignored.py").as_uri(),
        (root / "link.py").as_uri(),
        (outside / "far.py").as_uri(),
        (root / ".env").as_uri(),
        f"git:{root}/a.py?%7B%22ref%22%3A%22HEAD%22%7D",
        f"fugitive://{root}/.git//0/a.py",
        f"diffview://{root}/a.py",
        "output:extension",
        "file:///c%3A/elsewhere/b.py",
        "http://[broken",
        "",
    ]
    for uri, path in allowed.items():
        assert quoted(library, here, buffer(uri)) == {path}, uri
    for uri in refused:
        assert quoted(library, here, buffer(uri)) == set(), uri


def test_buffers_of_a_windows_workspace_are_quoted_by_their_place_in_it() -> None:
    library = Library(["file:///c%3A/work"], pytest.fail)
    here = buffer("file:///c%3A/work/src/a.py", HERE)
    for uri in ("file:///c%3A/work/src/b.py", "file:///C:/work/src/b.py"):
        assert quoted(library, here, buffer(uri)) == {"src/b.py"}
    for uri in ("file:///d%3A/work/src/b.py", "file:///c%3A/worksheet/b.py"):
        assert quoted(library, here, buffer(uri)) == set()


def test_a_workspace_that_is_reached_by_a_link_is_quoted_and_a_link_out_of_it_is_not(
    tmp_path: Path,
) -> None:
    real, outside, link = tmp_path / "real", tmp_path / "out", tmp_path / "link"
    real.mkdir()
    outside.mkdir()
    (outside / "c.py").write_text(HELPER)
    (real / "b.py").write_text(HELPER)
    (real / "c.py").symlink_to(outside / "c.py")
    (real / "sub").symlink_to(outside, target_is_directory=True)
    link.symlink_to(real, target_is_directory=True)
    library = Library([link.as_uri()], pytest.fail)
    here = buffer((link / "a.py").as_uri(), HERE)
    assert quoted(library, here, buffer((link / "b.py").as_uri())) == {"b.py"}
    for path in ("c.py", "sub/c.py"):
        assert quoted(library, here, buffer((link / path).as_uri())) == set()
    library.refresh()
    text = "from b import helper\nfrom c import helper as h\nx = helper(h(\n"
    named = buffer((link / "a.py").as_uri(), text, version=2)
    assert {piece.path for piece in library.answer(Ask(named, 2, [], Past()))} == {"b.py"}


def test_the_other_cells_of_a_notebook_are_one_text(tmp_path: Path) -> None:
    library = Library([tmp_path.as_uri()], pytest.fail)
    cell = f"vscode-notebook-cell:{tmp_path}/n.ipynb#W"
    here = buffer(cell + "3", "y = helper(other(1))\n")
    others = [buffer(cell + "1"), buffer(cell + "2", "def other(x):\n    return helper(x)\n")]
    pieces = library.answer(Ask(here, 0, others, Past()))
    text = "\n".join(piece.text for piece in pieces)
    assert "def helper" in text and "def other" in text
    assert {piece.path for piece in pieces} == {"n.ipynb#cells"}


def test_a_file_that_is_not_open_is_found_by_its_import_and_with_its_secrets_masked(
    tmp_path: Path,
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    (tmp_path / "cart.py").write_text(f"def cart(token='{secret}'):\n    return 1\n")
    library = Library([tmp_path.as_uri()], pytest.fail)
    here = buffer((tmp_path / "a.py").as_uri(), "from cart import cart\n\nx = cart(\n")
    assert library.answer(Ask(here, 2, [], Past())) == []
    library.refresh()
    (piece,) = library.answer(Ask(here, 2, [], Past()))
    assert piece.path == "cart.py" and secret not in piece.text and "*" * 40 in piece.text


def test_what_is_held_stays_until_its_text_says_something_else(tmp_path: Path) -> None:
    library = Library([tmp_path.as_uri()], pytest.fail)
    here = buffer((tmp_path / "a.py").as_uri(), HERE)
    uri = (tmp_path / "b.py").as_uri()
    held = library.answer(Ask(here, 0, [buffer(uri)], Past()))
    elsewhere = buffer(here.uri, "y = 1\n", 2)
    assert library.answer(Ask(elsewhere, 0, [buffer(uri)], Past(), held)) == held != []
    changed = buffer(uri, HELPER.replace("+ 1", "+ 2"), 2)
    (now,) = library.answer(Ask(here, 0, [changed], Past(), held))
    assert "+ 2" in now.text
    library.forget([uri])
    assert library.answer(Ask(elsewhere, 0, [], Past(), held)) == []


def test_a_link_to_a_file_of_secrets_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(HELPER)
    (tmp_path / "settings.py").symlink_to(".env")
    library = Library([tmp_path.as_uri()], pytest.fail)
    here = buffer((tmp_path / "a.py").as_uri(), HERE)
    assert quoted(library, here, buffer((tmp_path / "settings.py").as_uri())) == set()


@pytest.mark.parametrize("scheme", ["file", "vscode-notebook-cell"])
def test_of_a_notebook_that_is_open_as_a_text_only_its_code_is_quoted(
    tmp_path: Path, scheme: str
) -> None:
    library = Library([tmp_path.as_uri()], pytest.fail)
    here = buffer((tmp_path / "a.py").as_uri(), HERE)
    prose = json.dumps({"cells": [{"cell_type": "markdown", "source": ["helper(value)"]}]})
    for version, text in enumerate((prose, prose[:-3])):
        other = buffer(f"{scheme}://{tmp_path}/n.ipynb", text, version)
        is_cell = scheme == "vscode-notebook-cell"  # a dictionary, which is code like any other
        assert quoted(library, here, other) == ({"n.ipynb#cells"} if is_cell else set())


def test_an_edited_place_of_the_buffer_itself_is_quoted_as_it_is_now(tmp_path: Path) -> None:
    saved = "".join(f"line_{n} = {n}\n" for n in range(2_000))
    (tmp_path / "a.py").write_text(saved)
    library = Library([tmp_path.as_uri()], pytest.fail)
    library.refresh()
    here = buffer((tmp_path / "a.py").as_uri(), saved.replace("line_1000 =", "renamed ="))
    past = Past(changed=(Place("a.py", 1_000),))
    (piece,) = library.answer(Ask(here, 1_990, [], past))
    assert "renamed = 1000" in piece.text and "line_1000" not in piece.text


def test_a_buffer_that_is_opened_anew_at_its_old_version_is_read_anew(tmp_path: Path) -> None:
    library = Library([tmp_path.as_uri()], pytest.fail)
    here = buffer((tmp_path / "a.py").as_uri(), HERE)
    uri = (tmp_path / "b.py").as_uri()
    assert quoted(library, here, buffer(uri)) == {"b.py"}
    assert quoted(library, here, buffer(uri, "def other():\n    pass\n")) == set()


@pytest.mark.skipif(not AWKWARD.is_dir(), reason="the awkward files are not here")
def test_awkward_buffers_are_asked_about_and_quoted_without_an_error() -> None:
    library = Library([AWKWARD.as_uri()], pytest.fail)
    library.refresh()
    buffers = [
        buffer(path.as_uri(), path.read_bytes().decode("utf-8", "replace"), language="")
        for path in sorted(AWKWARD.iterdir())
    ]
    for here in buffers:
        lines = here.text.count("\n")
        for line in (0, lines // 2, lines):
            for piece in library.answer(Ask(here, line, buffers, Past())):
                piece.text.encode("utf-8")
                assert "\r" not in piece.text and "\0" not in piece.text
                assert not piece.path.startswith(("/", "file:"))
