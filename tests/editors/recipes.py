"""The recipes of docs/editors.md, with this checkout's language server in them."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "editors.md"
PROGRAM = '"completiond-lsp"'


def recipe(heading: str, number: int, program: str) -> str:
    """A block of code under a heading; the program's name in it becomes `program`."""
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found: str = re.findall(r"^```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[number]
    assert PROGRAM in found, "a recipe that starts no server of ours"
    return found.replace(PROGRAM, program)
