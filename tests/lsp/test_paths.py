"""A path that the daemon is told is short, relative and decoded."""

import pytest

from completiond_lsp.paths import relative_path


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:///work/space/src/a%20b.py", "src/a b.py"),
        ("file:///work/space/sub/deep/x.py", "deep/x.py"),
        ("file:///elsewhere/a.py", "a.py"),
        ("file:///work/spaceship/a.py", "a.py"),
        ("file:///c%3A/code/src/a.ts", "src/a.ts"),
        ("file:///C:/code/src/a.ts", "src/a.ts"),
        ("file:///c:/code/src%5Cdeep%5Ca.ts", "src/deep/a.ts"),
        ("file:///d%3A/code/src/a.ts", "a.ts"),
        ("file:///work/space/%2e%2e/x/m.py", "m.py"),
        ("file:///work/space/src/../b.py", "b.py"),
        ("untitled:Untitled-1", "Untitled-1"),
        ("vscode-notebook-cell:/work/space/n.ipynb#W0", "n.ipynb"),
        ("output:x", "x"),
        ("http://[broken", ""),
        ("", ""),
    ],
)
def test_paths(uri: str, expected: str) -> None:
    folders = ["file:///work/space", "file:///work/space/sub", "file:///c%3A/code"]
    assert relative_path(uri, folders) == expected
