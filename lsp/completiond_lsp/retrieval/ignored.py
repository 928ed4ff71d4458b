"""What a workspace's .gitignore files leave out. Knows their rules by pathspec; walks nothing.

A line that is no pattern is said once and left out; the other lines hold.
"""

import codecs
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

FILE = ".gitignore"
MAX_BYTES = 262_144
MAX_STARS = 4
"""Of one name in a pattern, and of whole names: the time to match grows by a power of it."""
KEPT = 64
"""Files whose patterns are kept: one of 10,000 lines takes a second to understand."""
_STARS = re.compile(r"(?<!\\)\*{2,}")
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


def _patterns(path: Path, warn: Callable[[str], None]) -> tuple[GitIgnoreSpecPattern, ...]:
    try:
        if path.is_symlink() or not path.is_file():
            return ()
        with path.open("rb") as file:
            text = file.read(MAX_BYTES)
    except OSError as exc:
        warn(f"{path} cannot be read ({exc.strerror}); what it would ignore is not known.")
        return ()
    patterns, bad = _understood(text)
    if bad:
        shown = ", ".join(map(str, bad[:5]))
        warn(f"{path}: not understood and left out: line {shown}; the other lines hold.")
    return patterns


@lru_cache(maxsize=KEPT)
def _understood(text: bytes) -> tuple[tuple[GitIgnoreSpecPattern, ...], tuple[int, ...]]:
    """The patterns, and the numbers of the lines that are none."""
    patterns: list[GitIgnoreSpecPattern] = []
    bad: list[int] = []
    plain = text.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    for number, line in enumerate(plain.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith("#"):
            continue
        try:
            pattern = GitIgnoreSpecPattern(_plainly(line))
        except (ValueError, re.error):
            bad.append(number)
        else:
            if pattern.include is not None:
                patterns.append(pattern)
            elif line.strip(" /"):
                bad.append(number)
    return tuple(patterns), tuple(bad)


def _plainly(line: str) -> str:
    """The same with one star for several that mean one. Raises ValueError for too many of them."""
    steps = [step if step == "**" else _STARS.sub("*", step) for step in line.split("/")]
    if max(steps.count("**"), *(step.count("*") for step in steps)) > MAX_STARS:
        raise ValueError("too many stars")
    return "/".join(steps)
