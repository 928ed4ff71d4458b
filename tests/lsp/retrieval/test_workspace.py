"""The workspace's files: ignored ones, links, secrets and large ones are as if they were not."""

import os
import threading
import time
from pathlib import Path

import pytest

from completiond_lsp.retrieval.sources import MAX_SOURCE
from completiond_lsp.retrieval.workspace import MAX_FILES, Workspace, _bytes

AWKWARD = Path(__file__).parents[4] / "shared/data/awkward"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def names(workspace: Workspace) -> set[str]:
    workspace.refresh(pause=0)
    return set(workspace._root_of)


def test_rules_of_every_directory_hold_and_the_nearest_decides(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "build/\n*_gen.py\n!keep_gen.py\n/top.py\n",
            "sub/.gitignore": "local.py\n!x_gen.py\n",
            "build/a.py": "a",
            "top.py": "a",
            "sub/top.py": "a",
            "sub/local.py": "a",
            "sub/x_gen.py": "a",
            "y_gen.py": "a",
            "keep_gen.py": "a",
            "node_modules/m/index.js": "a",
            ".git/hooks/x.py": "a",
            ".git/info/exclude": "mine.py\n",
            "mine.py": "a",
            "picture.png": "a",
        },
    )
    assert names(Workspace([str(tmp_path)])) == {"sub/top.py", "sub/x_gen.py", "keep_gen.py"}


def test_a_gitignore_with_errors_is_said_once_and_the_rest_of_it_holds(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a", "b.py": "b", "c.py": "c", "sub/a.py": "a"})
    (tmp_path / ".gitignore").write_bytes(b"a.py\n[z-a]\n!\n\\\n[\n\xff\xfe\n\x00\nb.py\n")
    said: list[str] = []
    workspace = Workspace([str(tmp_path)], said.append)
    assert names(workspace) == {"c.py"}
    os.utime(tmp_path / ".gitignore", ns=(1, 1))
    assert names(workspace) == {"c.py"} and workspace.ignores(str(tmp_path / "sub/a.py"))
    (sentence,) = said
    assert ".gitignore" in sentence and "line 2, 3, 4, 5" in sentence


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        (b"\xef\xbb\xbfa.py\r\nb.py\r\n", {"sub/c.py"}),
        (b"***/a.py\n" + b"**" * 99 + b".py\n!sub/*.py\n", {"sub/c.py"}),
        (b"*a" * 99 + b"\n" + b"**/a/" * 99 + b"\na.py\n", {"b.py", "sub/c.py"}),
        (b"# * * * * *\n\\**.py", {"a.py", "b.py", "sub/c.py"}),
    ],
)
def test_a_gitignore_of_any_editor_and_of_many_stars_holds_and_is_read_at_once(
    tmp_path: Path, rules: bytes, left: set[str]
) -> None:
    write(tmp_path, {"a.py": "a", "b.py": "b", "sub/c.py": "c", "c" * 200 + "/" + "a" * 200: ""})
    (tmp_path / ".gitignore").write_bytes(rules)
    began = time.process_time()
    said: list[str] = []
    assert names(Workspace([str(tmp_path)], said.append)) == left
    assert bool(said) == (b"*a*a" in rules)
    assert time.process_time() - began < 1.0


def test_the_rules_of_a_workspace_are_understood_once_for_all_its_buffers(tmp_path: Path) -> None:
    rules = "".join(f"/build/{n}/*.o\n" for n in range(2_000))
    write(tmp_path, {".gitignore": rules + "a.py\n", "b.py": "b"})
    workspace = Workspace([str(tmp_path)])
    assert workspace.ignores(str(tmp_path / "a.py"))
    began = time.process_time()
    assert not any(workspace.ignores(str(tmp_path / "b.py")) for _ in range(20))
    assert time.process_time() - began < 1.0


def test_a_folder_that_no_file_can_be_named_as_is_left_out_and_said_once(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a"})
    said: list[str] = []
    workspace = Workspace(["/none\0such", str(tmp_path), "/none\0such", "/\ud800"], said.append)
    assert names(workspace) == names(workspace) == {"a.py"}
    assert len(said) == 2 and "folder" in said[0]
    assert workspace.inside("/none\0such/a.py") is None
    assert not workspace.ignores("/none\0such/a.py")


def test_links_are_not_followed_and_loops_end(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    write(inside, {"a.py": "a"})
    write(outside, {"secret.py": "x", "lib/b.py": "b"})
    (inside / "loop").symlink_to(inside)
    (inside / "up").symlink_to(tmp_path)
    (inside / "lib").symlink_to(outside / "lib")
    (inside / "secret.py").symlink_to(outside / "secret.py")
    (inside / "gone.py").symlink_to("nowhere.py")
    (inside / "self").symlink_to("self")
    workspace = Workspace([str(inside)])
    assert names(workspace) == {"a.py"}
    assert workspace.inside(str(inside / "secret.py")) is None
    assert workspace.inside(str(inside / "lib" / "b.py")) is None
    assert workspace.inside(str(inside / "loop" / "a.py")) == "a.py"


def test_a_directory_that_becomes_a_link_is_not_read_any_more(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    write(inside, {"lib/b.py": "inside = 1\n"})
    write(outside, {"b.py": "outside = 1\n"})
    workspace = Workspace([str(inside)])
    assert names(workspace) == {"lib/b.py"}
    (inside / "lib" / "b.py").unlink()
    (inside / "lib").rmdir()
    (inside / "lib").symlink_to(outside)
    assert workspace.source("lib/b.py") is None


def test_a_second_look_sees_what_has_changed(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a = 1\n", "sub/b.py": "b"})
    workspace = Workspace([str(tmp_path)])
    assert names(workspace) == {"a.py", "sub/b.py"}
    write(tmp_path, {"sub/c.py": "c", "a.py": "a = 2\n", "sub/deep/d.py": "d"})
    (tmp_path / "sub/b.py").unlink()
    os.utime(tmp_path / "sub", ns=(5, 5))
    assert names(workspace) == {"a.py", "sub/c.py", "sub/deep/d.py"}
    found = workspace.source("a.py")
    assert found is not None and found.text == "a = 2\n"
    write(tmp_path, {".gitignore": "sub/\n"})
    assert names(workspace) == {"a.py"}


def test_what_cannot_or_may_not_be_quoted_has_no_text(tmp_path: Path) -> None:
    write(tmp_path, {"big.py": "x = 1\n" * MAX_SOURCE, "long.js": "x" * 9_000, "empty.py": "\n"})
    write(
        tmp_path, {"nul.c": "a\0b\n", "secrets.json": "{}", "ok.py": "T = 'ghp_" + "a1" * 20 + "'"}
    )
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    workspace = Workspace([str(tmp_path)])
    found = {name: workspace.source(name) for name in names(workspace)}
    assert {name for name, text in found.items() if text is not None} == {"ok.py"}
    assert found["ok.py"] is not None and "a1a1" not in found["ok.py"].text
    assert workspace.source("../ok.py") is None and workspace.source(".env") is None


def test_what_is_kept_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("completiond_lsp.retrieval.workspace.MAX_HELD", 10_000)
    monkeypatch.setattr("completiond_lsp.retrieval.workspace.MAX_FILES", 30)
    write(tmp_path, {f"{i}.py": "x = 1\n" * 200 for i in range(40)})
    workspace = Workspace([str(tmp_path)])
    assert len(names(workspace)) == 30
    for name in names(workspace):
        assert workspace.source(name) is not None
        assert workspace._held <= 10_000
    assert len(workspace._texts) == 8


@pytest.mark.skipif(not AWKWARD.is_dir(), reason="the awkward files are not here")
def test_awkward_files_are_read_clean_or_not_at_all() -> None:
    workspace = Workspace([str(AWKWARD)])
    for name in names(workspace):
        found = workspace.source(name)
        if found is not None:
            found.text.encode("utf-8")
            assert not set("\r\0\ufeff") & set(found.text), name
    refused = {"latin1.lua", "utf16le.ts", "minified.js", "empty.py", "bad_utf8.rs"}
    assert all(workspace.source(name) is None for name in refused)
    notebook = workspace.source("notebook.ipynb")
    assert notebook is not None and notebook.language == "python"
    assert '"cell_type"' not in notebook.text
    assert workspace.source("notebook_broken.ipynb") is None


@pytest.mark.slow  # it makes a hundred thousand files
def test_of_a_hundred_thousand_files_a_bounded_part_is_known(tmp_path: Path) -> None:
    for folder in range(400):
        (tmp_path / f"d{folder}").mkdir()
        for number in range(250):
            (tmp_path / f"d{folder}" / f"m{number}.py").touch()
    workspace = Workspace([str(tmp_path)])
    assert len(names(workspace)) == MAX_FILES == workspace.files
    assert len(workspace.named("m7")) == MAX_FILES // 250
    assert len(names(workspace)) == MAX_FILES, "the same ones at a second look"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a = 1\n"})
    os.mkfifo(tmp_path / "b.py")
    workspace = Workspace([str(tmp_path)])
    assert names(workspace) == {"a.py"}
    (tmp_path / "a.py").unlink()
    os.mkfifo(tmp_path / "a.py")
    found: list[object] = []
    reads = threading.Thread(target=lambda: found.append(workspace.source("a.py")), daemon=True)
    reads.start()
    reads.join(10)
    assert found == [None]


def test_a_file_that_grows_while_it_is_read_is_not_quoted_in_part(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "a = 1\nb = 2\n"})
    assert _bytes(str(tmp_path / "a.py"), 12) == b"a = 1\nb = 2\n"
    assert _bytes(str(tmp_path / "a.py"), 11) == b""


@pytest.mark.parametrize(
    "name", ["new\nline.py", "\U0001f600.py", "n" * 252 + ".py", "-rf $(x);'.py"]
)
def test_a_file_with_an_odd_name_is_one_like_any_other(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "a = 1\n", "d.py/b.py": "b = 2\n"})
    os.close(os.open(os.fsencode(tmp_path) + b"/\xff.py", os.O_CREAT))
    workspace = Workspace([str(tmp_path)])
    assert names(workspace) == {name, "d.py/b.py"}
    text = workspace.source(name)
    assert text is not None and text.text == "a = 1\n"
    assert workspace.source("d.py") is None
