"""Ghost text in a real Neovim, key by key: drawn, followed, left, taken, undone; byte-exact."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from nvim_process import Nvim
from world import ROOT, World, began, ghost, shows

pytestmark = pytest.mark.editor

DOCUMENT = "def area(width, height):\n    return width * height\n\n\nprint(area(3, 4))\n"
HEAD = "def area(width, height):\n"
WINDOWS = """local found = {}
for _, win in ipairs(vim.api.nvim_list_wins()) do
  vim.list_extend(found, vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false))
end
return table.concat(found, '\\n')"""
PAIRS = "vim.keymap.set('i', '(', '()<C-g>U<Left>')"


def test_typing_through_keeps_the_ghost_in_each_frame_and_asks_no_model(
    world: World, program: Path
) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", HEAD, "Go")
        shows(nvim, "return width * height")
        runs = world.runs()
        nvim.lua("_G.frames = {}")
        nvim.type("return wid")
        shows(nvim, "th * height")
        frames = nvim.lua("return _G.frames")
        assert len(frames) >= 10
        for frame in frames:
            drawn = frame["before"] + frame["ghost"]
            assert drawn == HEAD + "    return width * height", "none without, none with another"
            assert (frame["ghost_row"], frame["ghost_col"]) == (frame["row"], frame["col"])
        assert world.runs() == runs
        assert World.log(nvim) == ""


@pytest.mark.parametrize("key", ["x", "<BS>", "<CR>", "<Left>", "<Esc>", "<C-]>"])
def test_another_key_takes_the_ghost_away_in_the_same_frame(
    world: World, program: Path, key: str
) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", HEAD, "Go")
        nvim.type("ret")
        shows(nvim, "urn width * height")
        nvim.lua("_G.frames = {}")
        nvim.keys(key)
        nvim.until(lambda: nvim.lua("return #_G.frames > 0") or key == "<C-]>")
        for frame in nvim.lua("return _G.frames"):
            fits = (frame["before"] + frame["ghost"]) in DOCUMENT
            assert frame["ghost"] == "" or (key == "<BS>" and fits)


def test_all_a_word_and_a_line_are_taken_and_each_is_one_undo(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", HEAD, "Go")
        nvim.type("re")
        shows(nvim, "turn width * height")
        nvim.keys("<M-Right>")
        assert nvim.lines()[-1] == "    return"
        shows(nvim, " width * height")
        nvim.keys("<M-Right>")
        assert nvim.lines()[-1] == "    return width"
        shows(nvim, " * height")
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines()[-1] == "    return width * height")
        assert nvim.lua("return vim.api.nvim_win_get_cursor(0)") == [
            2,
            len("    return width * height"),
        ]
        nvim.keys("<Esc>")
        for expected in ("    return width", "    return", "    re"):
            nvim.keys("u")
            assert nvim.lines()[-1] == expected
        nvim.keys("<C-r>", "<C-r>", "<C-r>")
        assert nvim.lines()[-1] == "    return width * height"
        nvim.until(lambda: world.status()["engine"].get("daemon feedback accepted", 0) >= 3)


def test_a_line_at_a_time(world: World, program: Path) -> None:
    text = "if ready:\n    first()\n    second()\n"
    world.serve(answers=["first()\n    second()"])
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "if ready:\n", "Go")
        shows(nvim, "first()\n    second()")
        nvim.keys("<M-Down>")
        assert nvim.lines() == ["if ready:", "    first()"]
        shows(nvim, "\n    second()")
        nvim.keys("<M-Down>")
        assert nvim.lines() == text.splitlines()
        nvim.keys("<Esc>", "u")
        assert nvim.lines() == ["if ready:", "    first()"]


EXACT: list[tuple[str, str, str, str, str]] = [
    ("letters", "name = \n", "A", "'é😀' + x", "name = 'é😀' + x\n"),
    ("behind letters", "'é😀', \n", "A", "'ü', 1", "'é😀', 'ü', 1\n"),
    ("tabs", "if x:\n\ty = \n", "jA", "f(1,\n\t\t2)", "if x:\n\ty = f(1,\n\t\t2)\n"),
    (
        "CRLF",
        "a = 1\r\nb = \r\nc = 3\r\n",
        "jA",
        "f(1,\n    2)",
        "a = 1\r\nb = f(1,\r\n    2)\r\nc = 3\r\n",
    ),
    ("form feed", "a = 1\n\x0c\nb = \n", "jjA", "a + 1", "a = 1\n\x0c\nb = a + 1\n"),
    ("text to the right", "f(1, )\n", "$i", "2", "f(1, 2)\n"),
    ("replaced", "f(1, )  # é\n", "f)i", "2)", "f(1, 2)  # é\n"),
]


@pytest.mark.parametrize(
    ("text", "keys", "answer", "expected"),
    [case[1:] for case in EXACT],
    ids=[case[0] for case in EXACT],
)
def test_the_file_is_exact_to_the_byte(
    world: World, program: Path, text: str, keys: str, answer: str, expected: str
) -> None:
    world.serve(answers=[answer])
    with world.nvim(program) as nvim:
        path = world.path / "a.py"
        began(nvim, path, text, *keys)
        nvim.until(lambda: ghost(nvim))
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.call("nvim_buf_get_option", 0, "modified"))
        nvim.keys("<Esc>", ":write<CR>")
        assert path.read_bytes() == expected.encode()
        nvim.keys("u", ":write<CR>")
        assert path.read_bytes() == text.encode(), "one undo"
        assert World.log(nvim) == ""


def test_a_pair_that_is_closed_by_itself_is_not_closed_twice(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program, init=PAIRS) as nvim:
        began(nvim, world.path / "a.py", "\n", "i")
        nvim.type("print(")
        assert nvim.lines()[0] == "print()"
        shows(nvim, "area(3, 4)")
        nvim.type("area(")
        assert nvim.lines()[0] == "print(area())"
        shows(nvim, "3, 4")
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines()[0] == "print(area(3, 4))")


def test_it_is_drawn_while_the_popup_menu_is_open(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program, init="vim.o.completeopt = 'menuone,noinsert'") as nvim:
        began(nvim, world.path / "a.py", HEAD + "returning = reticent = 1\n", "ggo")
        nvim.type("re")
        nvim.keys("<C-n>")
        nvim.until(lambda: nvim.call("nvim_call_function", "pumvisible", []))
        shows(nvim, "turn width * height")
        nvim.type("t")
        assert nvim.call("nvim_call_function", "pumvisible", [])
        shows(nvim, "urn width * height")
        nvim.keys("<C-e>", "<Tab>")
        nvim.until(lambda: nvim.lines()[1] == "    return width * height")


def test_several_are_shown_in_turn_when_asked_for(world: World, program: Path) -> None:
    answers = ["first()", "second()", "third()"]
    world.serve(answers=answers)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", "x = \n", "A")
        shows(nvim, "first()")
        nvim.keys("<M-Bslash>")
        nvim.until(lambda: "daemon feedback shown" in world.status()["engine"])
        seen = {ghost(nvim)}

        def another() -> bool:
            nvim.keys("<M-]>")
            seen.add(ghost(nvim))
            return len(seen) > 1

        nvim.until(another)
        assert seen <= set(answers)
        last = ghost(nvim)
        nvim.keys("<M-[>", "<M-]>")
        shows(nvim, last)
        nvim.keys("<Tab>")
        nvim.until(lambda: nvim.lines() == [f"x = {last}"])


def test_keys_do_what_they_did_where_there_is_no_ghost(world: World, program: Path) -> None:
    old = "vim.keymap.set('i', '<C-]>', 'old', {})"
    world.serve(answers=[""])
    with world.nvim(program, init=old) as nvim:
        began(nvim, world.path / "a.txt", "\n", "i")
        nvim.keys("a", "<Tab>", "<C-]>", "b")
        nvim.until(lambda: nvim.lines() == ["a\toldb"])


def test_switched_off_nothing_is_asked_and_on_again_it_is(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", HEAD, "Go")
        shows(nvim, "return width * height")
        nvim.command("Completiond toggle")
        assert ghost(nvim) == "" and line(nvim) == "completiond off"
        asked = world.status()["engine"]["daemon requests"]
        nvim.type("ret")
        assert world.status()["engine"]["daemon requests"] == asked and ghost(nvim) == ""
        nvim.command("Completiond toggle")
        shows(nvim, "urn width * height")
        nvim.command("Completiond here")
        assert ghost(nvim) == ""
        nvim.command("Completiond here")
        shows(nvim, "urn width * height")
        nvim.until(lambda: line(nvim).startswith("completiond "))


def line(nvim: Nvim) -> str:
    found: Any = nvim.lua("return require('completiond').statusline()")
    return str(found)


def test_health_and_why_tell_how_it_stands(world: World, program: Path) -> None:
    world.serve(document=DOCUMENT)
    with world.nvim(program) as nvim:
        began(nvim, world.path / "a.py", HEAD, "Go")
        shows(nvim, "return width * height")
        nvim.keys("<Esc>")
        nvim.command("Completiond why")
        nvim.until(lambda: "An answer was shown." in nvim.lua(WINDOWS))
        nvim.command("checkhealth completiond")
        nvim.until(lambda: any("scripted is ready" in each for each in nvim.lines()))
        assert not any("ERROR" in each or "WARN" in each for each in nvim.lines())
        shutil.copytree(ROOT / "editors" / "nvim" / "doc", world.path / "help" / "doc")
        nvim.command(f"helptags {world.path}/help/doc")
        nvim.command(f"set rtp+={world.path}/help")
        nvim.command("help :Completiond")
