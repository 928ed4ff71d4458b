"""What a workspace's .gitignore files leave out. Knows their rules by pathspec; walks nothing.

A line that is no pattern is said once and left out; the other lines hold.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

FILE = ".gitignore"
MAX_BYTES = 262_144
ALWAYS = frozenset(
    """.git .hg .svn .jj node_modules bower_components __pycache__ .venv venv .tox .nox .mypy_cache
    .ruff_cache .pytest_cache .cache .gradle .idea .vs .next .nuxt .terraform .eggs""".split()
)
"""Directories that nobody writes by hand, whatever .gitignore says."""


class Rules(NamedTuple):
    """The patterns of one file; they hold for paths below `directory` (empty: the root)."""

    directory: str
    spec: GitIgnoreSpec


Chain = tuple[Rules, ...]
"""From the root down."""


def ignored(chain: Chain, path: str, *, is_directory: bool = False) -> bool:
    """Whether the nearest rule that says anything of `path` leaves it out."""
    if any(step in ALWAYS for step in path.split("/")):
        return True
    for rules in reversed(chain):
        inside = path[len(rules.directory) + 1 :] if rules.directory else path
        verdict = rules.spec.check_file(inside + "/" if is_directory else inside).include
        if verdict is not None:
            return verdict
    return False


def read_rules(root: Path, directory: str, warn: Callable[[str], None]) -> Rules | None:
    """The rules of a directory, None where there are none; at the root git's own exclude too."""
    patterns = list(_patterns(root / directory / FILE, warn))
    if not directory:
        patterns = [*_patterns(root / ".git" / "info" / "exclude", warn), *patterns]
    return Rules(directory, GitIgnoreSpec(patterns)) if patterns else None


def _patterns(path: Path, warn: Callable[[str], None]) -> Iterator[GitIgnoreSpecPattern]:
    try:
        if path.is_symlink() or not path.is_file():
            return
        with path.open("rb") as file:
            text = file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError as exc:
        warn(f"{path} cannot be read ({exc.strerror}); what it would ignore is not known.")
        return
    bad: list[int] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        try:
            pattern = GitIgnoreSpecPattern(line)
        except (ValueError, re.error):
            bad.append(number)
        else:
            if pattern.include is not None:
                yield pattern
            elif line.strip(" /") and not line.startswith("#"):
                bad.append(number)
    if bad:
        shown = ", ".join(map(str, bad[:5]))
        warn(f"{path}: not understood and left out: line {shown}; the other lines hold.")
