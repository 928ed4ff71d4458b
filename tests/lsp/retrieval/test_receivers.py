"""What stands before a dot: of which type it is, and that all that can follow the dot is quoted."""

import time

import pytest

from completiond_lsp.retrieval.definitions import by_lines, heads, members
from completiond_lsp.retrieval.gather import Gatherer, Material, gather
from completiond_lsp.retrieval.receivers import bases, receivers, typed
from completiond_lsp.retrieval.sources import Question, Source


class Disk:
    """Files by path."""

    def __init__(self, **texts: str) -> None:
        paths = {name.replace("__", "/", 1) + ".py": text for name, text in texts.items()}
        self._sources = {path: Source(path, "python", text) for path, text in paths.items()}

    def named(self, stem: str) -> list[str]:
        return [p for p in self._sources if p.rpartition("/")[2].split(".")[0] == stem]

    def source(self, path: str) -> Source | None:
        return self._sources.get(path)


def asked(text: str, path: str = "app/main.py", language: str = "python") -> Question:
    """The cursor is at `|`."""
    before = text[: text.index("|")]
    return Question(path, language, text.replace("|", ""), before.count("\n"))


LONG_BODY = "".join(f"        step_{i} = {i}\n" for i in range(20))
ENGINE = f"""class Engine(Machine):
    # What turns.
    speed: int = 0

    def __init__(self, fuel):
        self.tank = fuel
{LONG_BODY}
    def start_up(self, gently=True):
        self.speed = 1
{LONG_BODY}
    def _inject(self):
{LONG_BODY}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("motor = Engine(fuel)\n", {"Engine"}),
        ("self.motor = parts.engine.Engine(fuel)\n", {"Engine"}),
        ("motor: Optional[Engine] = None\n", {"Optional", "Engine"}),
        ("def f(motor: 'Engine'):\n", {"Engine"}),
        ("async with x:\n    motor = await open_engine(fuel)\n", {"open_engine"}),
        ("const motor = new Engine(fuel);\n", {"Engine"}),
        ("let motor: Engine = make(fuel);\n", {"Engine", "make"}),
        ("private motor?: Engine;\n", {"Engine"}),
        ("motor := parts.NewEngine(fuel)\n", {"NewEngine", "Engine"}),
        ("let mut motor = Engine::new(fuel);\n", {"Engine", "new"}),
        ("fn run(motor: &mut Engine) {\n", {"Engine"}),
        ("final Engine motor = factory.get();\n", {"Engine", "get"}),
        ("Map<String, Engine> motor;\n", {"Map"}),
        ("struct engine_t *motor = NULL;\n", {"engine_t"}),
        ("  uv_engine_t* motor;\n", {"uv_engine_t"}),
        ("return motor;\nmotor + 1\nif (motor) {\n", set()),
    ],
)
def test_the_type_of_a_name_is_told_by_what_gives_it_one(text: str, expected: set[str]) -> None:
    assert typed(text, ["motor", "absent"]).get("motor", set()) == expected


def test_receivers_are_what_stands_before_dots_and_the_nearest_count_most() -> None:
    found = receivers(
        asked("far.x\n\n\n\nself.motor.start()\nlist[0].y; p->z; T::new(); q?.r\n|\n")
    )
    assert set(found) == {"far", "self", "motor", "start", "list", "p", "T", "q"} - {"start"}
    assert found["far"].weight < found["motor"].weight < found["list"].weight
    assert found["motor"].attribute and not found["self"].attribute


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("class Engine(Machine, abc.Moving):", {"Machine", "Moving"}),
        ("export class Engine extends Machine implements Moving {", {"Machine", "Moving"}),
        ("public final class Engine extends Machine<Fuel> {", {"Machine", "Fuel"}),
        ("impl Moving for Engine {", {"Moving"}),
        ("class Engine : public Machine {", {"Machine"}),
        ("class Engine:", set()),
    ],
)
def test_parents_are_read_from_the_head_of_a_class(head: str, expected: set[str]) -> None:
    assert bases([head, "    x = 1"], "Engine") == expected
    assert bases([head, "    def f(self):", "        self."]) == expected | {"Engine"}
    assert bases([head, "    x = 1", "", "y = 2", "self."]) == set()


def test_members_are_fields_heads_and_attributes_and_of_too_much_the_private_goes_first() -> None:
    lines = ENGINE.split("\n")
    (engine, *_) = by_lines(ENGINE, "python")
    whole = members(lines, engine, 2_000).split("\n")
    assert whole == [
        "class Engine(Machine):",
        "    speed: int = 0",
        "    def __init__(self, fuel):",
        "    def start_up(self, gently=True):",
        "    def _inject(self):",
        "        self.tank = fuel",
    ]
    less = members(lines, engine, 110)
    assert "start_up" in less and "_inject" not in less and len(less) <= 110
    assert members(lines, engine, 30) == "class Engine(Machine):"


def test_heads_of_a_file_are_the_first_lines_of_what_it_defines() -> None:
    text = (
        "@cached\ndef one(\n    a,\n):\n    return a\n\ndef _two():\n    1\n\nclass C:\n  x = 1\n"
    )
    assert (
        heads(text.split("\n"), by_lines(text, "python"), 500) == "def one(\n    a,\n):\nclass C:"
    )


MAKES = "from lib.engine import Engine\n\nmotor = Engine(fuel)\n\n\ndef go():\n    motor.|\n"


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        (MAKES, {"lib__engine": ENGINE}, "def start_up"),
        ("from lib import engine\n\nengine.|\n", {"lib__engine": ENGINE}, "class Engine"),
        ("import lib.engine as e\n\ne.|\n", {"lib__engine": ENGINE}, "class Engine"),
        ("from lib import engine as e\n\ne.|\n", {"lib__engine": ENGINE}, "class Engine"),
        (  # a parent's, in a file that only the type's own file imports
            MAKES,
            {
                "lib__engine": "from lib.machine import Machine\n\n\n" + ENGINE,
                "lib__machine": ENGINE.replace("Engine(Machine)", "Machine").replace("up", "off"),
            },
            "def start_off",
        ),
        (  # an attribute that the class has from its parent
            "from lib.car import Car\n\nclass Taxi(Car):\n  def go(self):\n    self.motor.|\n",
            {
                "lib__car": "from lib.engine import Engine\n\n\nclass Car:\n    motor: Engine\n",
                "lib__engine": ENGINE,
            },
            "def start_up",
        ),
        (  # a name that a package only passes on
            "import lib\n\nlib.|\n",
            {"lib____init__": "from .engine import Engine, cool_down\n"},
            "cool_down",
        ),
    ],
)
def test_what_can_follow_a_dot_is_quoted(text: str, files: dict[str, str], expected: str) -> None:
    chunks = gather(asked(text), Material(files=Disk(**files)))
    assert any(expected in chunk.text for chunk in chunks), chunks


BODY = "".join(f"    step({i});\n" for i in range(20))
LANGUAGES = {
    "typescript": (
        "web/main.ts",
        "import { Engine } from './engine';\n\nconst motor = new Engine(1);\nmotor.|\n",
        "web/engine.ts",
        f"export class Engine {{\n  fuel = 1;\n  startUp(n: number) {{\n{BODY}  }}\n}}\n",
    ),
    "java": (
        "shop/Main.java",
        "import shop.Engine;\n\nclass Main {\n  Engine motor;\n  void f() {\n    motor.|\n",
        "shop/Engine.java",
        f"public class Engine {{\n  int fuel;\n  void startUp(int n) {{\n{BODY}  }}\n}}\n",
    ),
    "rust": (
        "src/main.rs",
        "mod engine;\n\nfn main() {\n    let motor = engine::Engine::new(1);\n    motor.|\n",
        "src/engine.rs",
        "pub struct Engine {\n  fuel: i32,\n}\n"
        f"impl Engine {{\n  fn startUp() {{\n{BODY}  }}\n}}\n",
    ),
    "c": (
        "src/main.c",
        '#include "engine.h"\n\nvoid f(void) {\n    engine_t *motor = make();\n    motor->|\n',
        "src/engine.h",
        "typedef struct engine_s {\n  int fuel;\n  void (*startUp)(int);\n} engine_t;\n",
    ),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_members_of_a_type_are_quoted_in_every_language_of_classes(language: str) -> None:
    path, text, other, defined = LANGUAGES[language]

    class One:
        def named(self, stem: str) -> list[str]:
            return [other] if other.rpartition("/")[2].split(".")[0] == stem else []

        def source(self, path: str) -> Source | None:
            return Source(other, language, defined) if path == other else None

    found = gather(asked(text, path, language), Material(files=One()))
    text = "".join(chunk.text for chunk in found)
    assert "fuel" in text and "startUp" in text, found


def test_a_local_name_has_no_type_from_another_file() -> None:
    other = "import x\n\nitem = Engine(1)\n\n\n" + ENGINE
    text = "from lib.other import thing\n\n\ndef f(item):\n    item.|\n"
    chunks = gather(asked(text), Material(files=Disk(lib__other=other)))
    assert not any("start_up" in chunk.text for chunk in chunks)


def test_a_kind_without_a_share_is_not_quoted() -> None:
    material = Material(files=Disk(lib__engine=ENGINE))
    found = Gatherer({"similar": 0.6}).pieces(asked(MAKES), material)
    assert {piece.kind for piece in found} <= {"similar"}
    assert {piece.kind for piece in Gatherer().pieces(asked(MAKES), material)} >= {"definition"}


@pytest.mark.parametrize("bad", ["." * 5_000, "a." * 5_000, "((((" * 999 + ".x", "x = " * 3_000])
def test_a_strange_line_is_no_error_and_costs_little(bad: str) -> None:
    question = asked(f"import os\n{bad}\nx.|\n")
    assert isinstance(gather(question, Material(files=Disk(lib__engine=ENGINE))), list)


@pytest.mark.parametrize("line", ["x: A, " * 40_000, "x_t x " * 40_000, "a" * 200_000])
def test_a_text_of_one_name_is_read_at_once(line: str) -> None:
    began = time.process_time()
    typed("\n".join([line] * 2), ["x", "a"])
    receivers(Question("a.py", "python", "\n".join([line] * 40), 30))
    assert time.process_time() - began < 1.0


def test_of_a_text_of_dots_some_names_are_looked_for_and_the_nearest_ones() -> None:
    names = [f"{letter}{number}" for number in range(100) for letter in "abcdefgh"]
    text = "\n".join(".".join(names[n : n + 80]) + "." for n in range(0, 800, 80))
    found = receivers(Question("a.py", "python", text, 9))
    assert set(found) == set(names[720:784])
