"""What the documents say is what the code is: files, settings, commands, messages."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer.main

from completiond import __main__ as cli
from completiond import config
from completiond.protocol.messages import FROM_CLIENT, FROM_DAEMON
from completiond.version import __version__

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONFIGURATION = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
LISTED = ("completiond", "lsp", "scripts", "editors")


def rows(text: str) -> dict[str, str]:
    """First cell, which is `code`, to the last cell of each table row."""
    found = re.findall(r"^\| `([^`]+)` \|(.*)\|$", text, re.MULTILINE)
    return {name: cells.split("|")[-1].strip() for name, cells in found}


def tracked() -> set[str]:
    """Files of the packages, the bridge, the scripts and the editors, as git would list them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *LISTED]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if ran.returncode:
        pytest.skip("this is no git checkout")
    return {name for name in ran.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_readme_has_one_line_for_every_file() -> None:
    ours = {name for name in tracked() if not name.endswith("__init__.py")}
    listed = {name for name in rows(README) if name.startswith(tuple(f"{d}/" for d in LISTED))}
    assert sorted(ours - listed) == [], "without a line in README.md"
    assert sorted(listed - ours) == [], "in README.md only"


def test_every_setting_is_documented_with_its_default() -> None:
    documented = re.findall(r"^\| `(\w+\.\w+)` \| `([^`]*)` \| \S", CONFIGURATION, re.MULTILINE)
    actual = [
        (f"{section.name}.{key.name}", repr(key.default).replace("'", '"').lower())
        for section in fields(config.Config)
        for key in fields(section.type)  # type: ignore[arg-type]
    ]
    assert [(name, default.lower()) for name, default in documented] == actual


def commands() -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    root = typer.main.get_command(cli.app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found += [(name, sub) for sub in inner] if inner else [(name,)]
    return found


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_documented_and_has_help(command: tuple[str, ...]) -> None:
    assert f"completiond {' '.join(command)}" in README
    group = typer.main.get_command(cli.app)
    for name in command:
        group = group.commands[name]  # type: ignore[attr-defined]
    assert group.help and group.help.strip().endswith(".")
    for option in group.params:
        hidden = getattr(option, "hidden", False)
        assert hidden or getattr(option, "help", None), f"{option.name} has no help"


def test_help_works_as_a_process() -> None:
    command = [sys.executable, "-m", "completiond", "--help"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "models pull" in ran.stdout


def test_every_message_is_specified() -> None:
    wire = (ROOT / "completiond" / "protocol" / "README.md").read_text(encoding="utf-8")
    for tag, kind in (FROM_CLIENT | FROM_DAEMON).items():
        assert f"`{tag}`" in wire
        for field in fields(kind):
            assert re.search(rf"\b{field.name}\b", wire), f"{tag}.{field.name}"


def test_the_changelog_has_this_version_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    first = re.search(r"^## (\S+)", text, re.MULTILINE)
    assert first and first[1] in (__version__, "Unreleased")


def test_every_test_that_the_documents_name_is_there() -> None:
    text = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)
    assert len(named) > 40
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


def test_the_documents_name_no_machine() -> None:
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"/work/|/root/|/home/(?!you\b)|index-url", text), path


def test_the_example_has_the_cursor_that_is_completed_first() -> None:
    start = (ROOT / "scripts" / "start").read_text(encoding="utf-8")
    (place,) = set(re.findall(r"docs/example\.py:(\d+:\d+)", start + README))
    line, column = map(int, place.split(":"))
    text = (ROOT / "docs" / "example.py").read_text(encoding="utf-8").split("\n")[line - 1]
    assert len(text) == column - 1 and text.endswith(" ")
