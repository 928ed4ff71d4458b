"""The recipes for Emacs of docs/editors.md in a real one: lsp-mode's ghost text, eglot's popup."""

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
START = """
(setq make-backup-files nil auto-save-default nil create-lockfiles nil ring-bell-function #'ignore
      native-comp-jit-compilation nil
      native-comp-enable-subr-trampolines nil inhibit-startup-screen t use-short-answers t)
(set-language-environment "UTF-8")
(add-hook 'kill-emacs-hook
          (lambda () (with-current-buffer "*Messages*" (write-region nil nil "{messages}"))))
"""
ALONE = """
(load "lsp-mode-autoloads" nil t)
(setq lsp-enabled-clients '(completiond) lsp-enable-snippet nil lsp-auto-guess-root t
      lsp-session-file "{home}/session")
"""
"""lsp-mode as a package manager leaves it, without servers that happen to be on this machine."""
LSP_MODE, EGLOT = 0, 1
"""Which block of the document."""


@pytest.fixture
def emacs() -> Path:
    found = editors() / "emacs" / "emacs"
    if not found.exists():
        pytest.skip("no Emacs here; scripts/get_editors emacs installs it")
    return found


def opened(world: World, program: Path, which: int, text: str) -> Terminal:
    """Emacs with a recipe, its own home, and a file of this text."""
    home = world.path / "home"
    home.mkdir()
    command = [sys.executable, "-m", "completiond_lsp.server", "--endpoint", world.endpoint]
    words = " ".join(map(json.dumps, command))
    init = START + (ALONE if which == LSP_MODE else "") + recipe("Emacs", which, words)
    init = init.replace("{home}", str(home)).replace("{messages}", str(home / "messages"))
    (home / "init.el").write_text(init)
    (world.path / "a.py").write_text(text, encoding="utf-8")
    start = [str(program), "-nw", "-Q", "-l", str(home / "init.el"), str(world.path / "a.py")]
    env = world.env | {"HOME": str(home), "TERM": "screen-256color", "LC_ALL": "C.UTF-8"}
    return Terminal(start, world.path, env)


def saved(world: World, terminal: Terminal) -> str:
    """Save, end, and say what the file has; Emacs must have complained of nothing."""
    terminal.keys("C-x", "C-s", "C-x", "C-c")
    messages = world.path / "home" / "messages"
    within(20, messages.exists)
    said = messages.read_text(encoding="utf-8")
    ours = [line for line in said.splitlines() if "/site-lisp/" not in line]
    assert not [line for line in ours if "rror" in line or "arning" in line], said
    return (world.path / "a.py").read_bytes().decode()


def test_lsp_mode_shows_ghost_text_and_tab_takes_it(world: World, emacs: Path) -> None:
    world.serve(answers=[ANSWER])
    with opened(world, emacs, LSP_MODE, "# above\n") as terminal:
        terminal.sees("# above", "initialized successfully")
        terminal.keys("M->")
        terminal.type("x = ")
        terminal.sees("x = area(width,", "        height) # é")
        terminal.keys("Tab")
        assert saved(world, terminal) == f"# above\nx = {ANSWER}\n"


def test_eglot_has_it_in_the_usual_completion(world: World, emacs: Path) -> None:
    world.serve(answers=[ANSWER])
    with opened(world, emacs, EGLOT, "# above\n") as terminal:
        terminal.sees("# above", "[eglot:")
        terminal.keys("M->")
        terminal.type("x = ")
        terminal.keys("C-M-i")
        terminal.sees("x = area(width,", "        height) # é")
        assert saved(world, terminal) == f"# above\nx = {ANSWER}\n"


def test_eglot_completes_here_by_a_code_action(world: World, emacs: Path) -> None:
    world.serve(answers=[ANSWER])
    with opened(world, emacs, EGLOT, "# above\nx = \n") as terminal:
        terminal.sees("# above", "[eglot:")
        terminal.keys("M->", "C-b")
        terminal.keys("M-x")
        terminal.type("eglot-code-actions\n")
        terminal.sees("Complete here")
        terminal.keys("Enter")
        terminal.sees("x = area(width,", "        height) # é")
        assert saved(world, terminal) == f"# above\nx = {ANSWER}\n"
