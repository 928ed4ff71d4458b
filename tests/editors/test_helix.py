"""The recipe for Helix of docs/editors.md in a real Helix: its popup and the code action."""

import json
import sys
from pathlib import Path

import pytest
from recipes import recipe
from terminal import Terminal
from vscode_server import editors
from world import World, within

pytestmark = pytest.mark.editor

ANSWER = "area(width,\n        height) # é😀"


@pytest.fixture
def helix() -> Path:
    found = editors() / "helix" / "hx"
    if not found.exists():
        pytest.skip("no Helix here; scripts/get_editors helix installs it")
    return found


def opened(world: World, program: Path, text: str) -> Terminal:
    """Helix with the recipe, its own directories, and a file of this text."""
    folder = world.path / "config" / "helix"
    folder.mkdir(parents=True)
    command, *args = sys.executable, "-m", "completiond_lsp.server", "--endpoint", world.endpoint
    languages = recipe("Helix", 0, f"{json.dumps(command)}\nargs = {json.dumps(args)}")
    (folder / "languages.toml").write_text(languages.replace('"pylsp", ', ""))
    (folder / "config.toml").write_text("")
    (world.path / "a.py").write_text(text, encoding="utf-8")
    env = {f"XDG_{name}_HOME": str(world.path / name.lower()) for name in ("CONFIG", "CACHE")}
    env |= world.env | {"HOME": str(world.path), "TERM": "screen-256color", "LC_ALL": "C.UTF-8"}
    return Terminal([str(program), str(world.path / "a.py")], world.path, env)


def saved(world: World, terminal: Terminal) -> str:
    """Save, and say what the file has; the log must have nothing."""

    def content() -> bytes:  # Helix moves the old file away before it writes the new one
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return b""

    file = world.path / "a.py"
    before = content()
    terminal.asks(["Escape"], " NOR ")
    terminal.type(":w\r")
    within(20, lambda: content() not in (before, b""))
    log = world.path / "cache" / "helix" / "helix.log"
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    assert "ERROR" not in said and "WARN" not in said, said
    return content().decode()


def test_its_popup_has_the_answer_and_enter_takes_it(world: World, helix: Path) -> None:
    world.serve(answers=[ANSWER])
    with opened(world, helix, "# above\n    y = 1\n") as terminal:
        terminal.sees("# above")
        terminal.keys("g", "e", "o")
        terminal.type("x = wi")
        terminal.asks(["C-x"], "area(width,")
        terminal.keys("Tab")
        terminal.sees("height) # é")
        terminal.keys("Enter")
        assert saved(world, terminal) == f"# above\n    y = 1\n    x = wi{ANSWER}\n"


def test_the_code_action_puts_it_in_as_it_is(world: World, helix: Path) -> None:
    world.serve(answers=[ANSWER])
    with opened(world, helix, "# above\nx = \n") as terminal:
        terminal.sees("# above")
        terminal.keys("j", "g", "l", "l")
        terminal.asks(["Space", "a"], "Complete here")
        terminal.keys("Enter")
        terminal.sees("x = area(width,", "height) # é")
        assert saved(world, terminal) == f"# above\nx = {ANSWER}\n"
