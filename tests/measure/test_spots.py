"""Spots are inside real code, the same every time, and what cannot be read is said."""

from pathlib import Path

import pytest

from completiond.errors import RequestError
from completiond.measure.spots import HOLE, LINES_BEFORE, TYPED, sources_in, spots_in

CODE = "".join(f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(40))


def folder(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def test_a_spot_is_a_cursor_in_a_line_with_text_before_it(tmp_path: Path) -> None:
    spots = spots_in([folder(tmp_path, a__py=CODE)], 30)
    assert len(spots) == 30 and len({spot.before for spot in spots}) == 30
    for spot in spots:
        assert CODE.startswith(spot.before + spot.typed) and len(spot.typed) == TYPED
        assert CODE.endswith(spot.after) and spot.after.startswith("\n")
        assert spot.before.count("\n") >= LINES_BEFORE and "\n" not in spot.typed
        hole = CODE[len(spot.before) : len(CODE) - len(spot.after)]
        assert hole.count("\n") <= HOLE and spot.language == "python"


def test_the_same_files_and_seed_give_the_same_spots(tmp_path: Path) -> None:
    where = [folder(tmp_path, a__py=CODE, b__py=CODE.replace("value", "other"))]
    assert spots_in(where, 9) == spots_in(where, 9)
    assert spots_in(where, 9) != spots_in(where, 9, seed=1)
    assert spots_in(where, 9)[:4] == spots_in(where, 4)


def test_files_take_turns(tmp_path: Path) -> None:
    where = [folder(tmp_path, a__py=CODE, b__rs=CODE)]
    assert {spot.path for spot in spots_in(where, 2)} == {"a.py", "b.rs"}


def test_without_files_the_spots_are_in_this_packages_source() -> None:
    assert {spot.language for spot in spots_in([], 5)} == {"python"}


def test_a_folder_is_searched_without_what_nobody_wrote(tmp_path: Path) -> None:
    folder(tmp_path, good__py=CODE, data__json=CODE, small__py="x = 1\n", none__xyz=CODE)
    folder(tmp_path, minified__js="x=1;" * 1000)
    folder(tmp_path / "node_modules", a__js=CODE)
    folder(tmp_path / ".git", a__py=CODE)
    (tmp_path / "bytes.py").write_bytes(b"\0" * 1000)
    (tmp_path / "latin.py").write_bytes(CODE.encode() + "é".encode("latin-1"))
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "link.py").symlink_to(tmp_path / "none.xyz")
    assert {spot.path for spot in spots_in([tmp_path], 50)} == {"good.py"}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", {"a.py"}),
        ("**/*.py", {"a.py", "b.py"}),
        ("**", {"a.py", "b.py", "c.js"}),
        ("s*", {"b.py", "c.js"}),
        ("node_modules/*", {"d.js"}),
    ],
)
def test_a_pattern_names_what_it_matches_once(
    tmp_path: Path, pattern: str, found: set[str]
) -> None:
    folder(tmp_path, a__py=CODE, data__json=CODE)
    folder(tmp_path / "src", b__py=CODE, c__js=CODE)
    folder(tmp_path / "node_modules", d__js=CODE)
    sources = list(sources_in([tmp_path / pattern, tmp_path / pattern]))
    assert sorted(source.path.name for source in sources) == sorted(found)


def test_a_pattern_that_matches_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"no source code that .*\*\.rs matches"):
        spots_in([tmp_path / "*.rs"], 3)


def test_text_with_other_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(CODE.replace("\n", "\r\n").encode())
    assert len(spots_in([tmp_path], 5)) == 5


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("none.py", None, "There is no file"),
        ("a.bin", b"a\0b" * 400, "NUL bytes"),
        ("a.py", "é".encode("latin-1") * 400, "is not UTF-8"),
        ("b.py", b"x = 1\n", "no text that is long enough"),
        ("empty.py", b"", "no text that is long enough"),
    ],
)
def test_a_named_file_that_does_not_do_is_told(
    tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RequestError, match=sentence) as told:
        spots_in([tmp_path / name], 3)
    assert str(told.value).endswith(".") and "--encoding" not in str(told.value)


def test_an_empty_folder_and_no_spots_are_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="There is no source code in"):
        spots_in([tmp_path], 3)
    with pytest.raises(RequestError, match="At least one"):
        spots_in([], 0)
