"""Imports and definitions, language by language; what nobody knows is no error."""

import json
import re
import time
from pathlib import Path

import pytest

from completiond_lsp.retrieval.definitions import (
    _ASSIGNED,
    _KEYWORD,
    _METHOD,
    _TYPED,
    by_lines,
    outline,
)
from completiond_lsp.retrieval.grammars import by_tree
from completiond_lsp.retrieval.imports import imports, resolve
from completiond_lsp.retrieval.languages import family, language_of
from completiond_lsp.retrieval.notebooks import code_of

AWKWARD = Path(__file__).parents[4] / "shared/data/awkward"
FILES = """src/app/cart.py src/app/__init__.py src/app/sub/deep.py web/cart.ts web/index.ts
web/ui/button.tsx java/com/shop/Cart.java rs/src/cart.rs rs/src/shop/mod.rs c/cart.h c/cart.c
go/shop/cart.go lib/cart.rb other/cart.py""".split()


def named(stem: str) -> list[str]:
    return [path for path in FILES if path.rpartition("/")[2].split(".")[0] == stem]


@pytest.mark.parametrize(
    ("asking", "text", "expected"),
    [
        ("src/app/main.py", "from app.cart import Cart", ["src/app/cart.py"]),
        ("src/app/main.py", "from . import cart", ["src/app/cart.py", "src/app/__init__.py"]),
        ("src/app/sub/x.py", "from ..cart import (\n  A,\n  B)", ["src/app/cart.py"]),
        ("src/app/main.py", "import app.sub.deep as d", ["src/app/sub/deep.py"]),
        ("src/x.py", "from .....app.cart import A", []),
        ("web/main.ts", 'import { Cart } from "./cart";', ["web/cart.ts"]),
        ("web/ui/x.tsx", "import C, { D } from '../cart'", ["web/cart.ts"]),
        ("web/main.ts", "import B from '@/ui/button'", ["web/ui/button.tsx"]),
        ("web/main.ts", "const x = require('./ui/button.tsx')", ["web/ui/button.tsx"]),
        ("java/com/shop/Main.java", "import com.shop.Cart;", ["java/com/shop/Cart.java"]),
        ("rs/src/main.rs", "mod cart;", ["rs/src/cart.rs"]),
        ("rs/src/main.rs", "use crate::cart::{Cart, Item};", ["rs/src/cart.rs"]),
        ("c/main.c", '#include "cart.h"', ["c/cart.h"]),
        ("lib/main.rb", "require_relative 'cart'", ["lib/cart.rb"]),
        ("a.zork", "summon cart", []),
        ("a.py", "from import (((", []),
    ],
)
def test_an_import_is_found_among_files_by_name(
    asking: str, text: str, expected: list[str]
) -> None:
    found = resolve(imports(text, family(language_of(asking), asking)), asking, named)
    assert [path for path, _ in found] == expected


SAMPLES = {
    "python": (
        "a.py",
        "LIMIT = 3\n\nclass A:\n    def run(self):\n        pass\n\ndef f():\n  1\n",
    ),
    "typescript": ("a.ts", "export class A {\n  run(x: number) {\n  }\n}\nfunction f() {\n}\n"),
    "go": ("a.go", "type A struct {\n}\n\nfunc (a *A) run() {\n}\n\nfunc f() {\n}\n"),
    "rust": ("a.rs", "pub struct A {}\nimpl A {\n    pub fn run(&self) {\n    }\n}\nfn f() {\n}\n"),
    "java": (
        "A.java",
        "public class A {\n    void run(int x) {\n    }\n    static int f() {\n    }\n}\n",
    ),
    "cpp": ("a.cpp", "class A {\n  void run(int x) {\n  }\n};\nint f() {\n}\n"),
    "c": ("a.c", "struct A {\n};\nint run(int x) {\n}\nint f(void)\n{\n}\n"),
    "lua": ("a.lua", "A = {}\nlocal function run(x)\n  return 1\nend\nfunction f()\nend\n"),
    "ruby": ("a.rb", "class A\n  def run(x)\n    1\n  end\nend\ndef f\nend\n"),
    "zork": ("a.zork", "class A\n  fun run(x)\n    1\nfun f(y)\n  2\n"),
}


@pytest.mark.parametrize("language", SAMPLES)
@pytest.mark.parametrize("way", ["lines", "tree"])
def test_definitions_are_found_with_and_without_a_grammar(language: str, way: str) -> None:
    path, text = SAMPLES[language]
    if way == "tree":
        found = by_tree(text, language, path)
        if found is None:
            pytest.skip(f"no grammar of {language} is installed (the extra `grammars`)")
    else:
        found = by_lines(text, family(language, path))
    assert {"A", "run", "f"} <= {one.name for one in found}
    lines = text.split("\n")
    for one in found:
        assert 0 <= one.first < one.last <= len(lines) and one.name in lines[one.first]


def test_the_outline_of_a_class_is_its_fields_and_the_heads_of_its_methods() -> None:
    body = ["class A:", '    """Says', "    much.", '    """', "    size: int = 1", ""]
    for name in ("one", "two"):
        body += [f"    def {name}(", "        self,", "        x,", "    ) -> int:"]
        body += ["        while x:", "            x -= 1", "        return x", ""]
    (whole, *_) = by_lines("\n".join(body), "python")
    text = outline(body, whole, 14)
    assert "size: int" in text and "def two(" in text and "self," in text
    assert "much." not in text and "while" not in text
    assert outline(body, whole, 99) == "\n".join(body[:-1])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", None),
        ("[]", None),
        ('{"cells": 3}', None),
        ('{"cells": [{"cell_type": "code"}]}', None),
        ('{"cells": [{"cell_type": "code", "source": [1]}]}', None),
        ("[" * 100_000, None),
        (
            json.dumps(
                {
                    "cells": [
                        {"cell_type": "code", "source": ["a = 1\n", "b = 2"], "outputs": ["no"]},
                        {"cell_type": "markdown", "source": "no"},
                        {"cell_type": "code", "source": "c = 3"},
                    ]
                }
            ),
            "a = 1\nb = 2\n\nc = 3",
        ),
    ],
)
def test_a_notebook_is_the_code_of_its_cells(text: str, code: str | None) -> None:
    assert code_of(text) == code


@pytest.mark.skipif(not AWKWARD.is_dir(), reason="the awkward files are not here")
def test_awkward_texts_are_searched_without_an_error() -> None:
    for path in sorted(AWKWARD.iterdir()):
        text = path.read_bytes().decode("utf-8", "replace")
        language = language_of(path.name)
        kin = family(language, path.name)
        lines = text.split("\n")
        for one in [*by_lines(text, kin), *(by_tree(text, language, path.name) or [])]:
            assert 0 <= one.first < one.last <= len(lines), path
        resolve(imports(text, kin), path.name, named)


@pytest.mark.parametrize(
    ("kin", "text"),
    [
        ("javascript", "import" + " " * 20_000),
        ("javascript", "export" + "\n" * 20_000),
        ("javascript", "import " * 4_000),
        ("javascript", "import a, b\n" * 20_000),
        ("javascript", "ximport " * 20_000),
        ("javascript", "require" + " " * 20_000),
        ("python", "from " + "." * 20_000),
    ],
)
def test_a_text_that_only_begins_to_import_is_read_at_once(kin: str, text: str) -> None:
    """One step too many for each character is minutes here, and no key is answered meanwhile."""
    began = time.process_time()
    assert imports(text, kin) == []
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("line", "module", "names"),
    [
        ("import type { Money } from './money'", "money", ("Money",)),
        ("import type from './money'", "money", ()),
        ("import Money, * as all from './money'", "money", ("Money", "as", "all")),
        ("export {\n  a,\n  b,\n}\n  from './money'", "money", ("a", "b")),
        ("import './money'", "money", ()),
        ("export { paid }\nimport { Money } from './money'", "money", ("Money",)),
        ("const m = await import('./money')", "money", ()),
        ("const m = require ( './money' )", "money", ()),
    ],
)
def test_each_way_of_a_script_to_import_is_understood(
    line: str, module: str, names: tuple[str, ...]
) -> None:
    (found,) = imports(line, "javascript")
    assert (found.parts, set(found.names) - {"*"}) == ((module,), set(names))


def test_what_only_quotes_behind_export_imports_nothing() -> None:
    assert imports("export default 'money'", "javascript") == []


@pytest.mark.parametrize(
    "pattern",
    [_KEYWORD, _ASSIGNED, _TYPED, _METHOD],
    ids=["keyword", "assigned", "typed", "method"],
)
@pytest.mark.parametrize("begins", ["export static ", "int a, ", "get ", "a<", "static\t", " "])
def test_a_line_that_only_begins_to_define_is_read_at_once(
    pattern: re.Pattern[str], begins: str
) -> None:
    """Lines are cut off at some length, and a text may have thousands of that length."""
    began = time.process_time()
    assert pattern.match(begins * (40_000 // len(begins))) is None
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    "line",
    [
        "static inline const char *name_of(int number) {",
        "public static final Map<String, Name> name_of(int number) {",
        'extern "C" int name_of(int number) {',
        "unsigned\t\tname_of(int number)",
        "    virtual Names &name_of(int number) const {",
    ],
)
def test_a_function_is_found_behind_its_type_and_any_modifiers(line: str) -> None:
    assert [one.name for one in by_lines(line + "\n", "c")] == ["name_of"]


def test_a_call_defines_nothing() -> None:
    assert by_lines("    return name_of(number);\nname_of(number);\n", "c") == []
