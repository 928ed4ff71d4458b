"""A kept file is whole or as it was, and nothing is left beside it."""

from pathlib import Path

from completiond.keeping import keep


def test_a_file_is_replaced_as_a_whole_and_its_folder_made(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.json"
    for data in (b"one, which is longer", b"two"):
        keep(file, data)
        assert file.read_bytes() == data
        assert [path.name for path in file.parent.iterdir()] == ["a.json"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    keep(tmp_path / "a.json", b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    (tmp_path / "file").write_text("")
    keep(tmp_path / "file" / "a.json", b"one")
