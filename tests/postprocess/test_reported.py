"""Cases that users of other tools reported, as kinds: docs/answers.md says which is where.

`|` is the cursor. The model's text goes through the stop rule and the rules behind it, as in the
daemon; what is expected is the whole document afterwards.
"""

import pytest

from completiond.core import Snapshot
from completiond.postprocess.clean import clean
from completiond.prompt.stopping import Cursor, rule, trim

CASES = {
    "1 haskell": ("isNot = equal |`≠`\n", "x `≠`", "isNot = equal x `≠`\n"),
    "1 typescript": ("const s = a | + tail;\n", "b + tail;", "const s = a b + tail;\n"),
    "1 python": ("x = |if y else z\n", "1 if y else z\n", "x = 1 if y else z\n"),
    "2 go": ("if Params(|)\n", "0) != 0 {\n", "if Params(0)\n"),
    "2 python": ("print(len(|))\n", "xs))\n", "print(len(xs))\n"),
    "2 rust": ("let a = [|];\n", "1, 2];\n", "let a = [1, 2];\n"),
    "2 haskell": (
        "main = print (|)\n",
        "foldr' f (g x') y')\n",
        "main = print (foldr' f (g x') y')\n",
    ),
    "2 rust lifetimes": ("fn f<'a>(|)\n", "x: &'a str) -> &'a str {\n", "fn f<'a>(x: &'a str)\n"),
    "2 sql": ("SELECT f(|);\n", "N')', E'(', g);\n", "SELECT f(N')', E'(', g);\n"),
    "2 cpp": ("f(|);\n", "g(1'000), h);", "f(g(1'000), h);\n"),
    "2 perl": ("if (|) {\n}\n", "$x =~ /\\)$/) {\n", "if ($x =~ /\\)$/) {\n}\n"),
    "2 javascript": (
        "if (x) {\n  |\n}\n",
        "y = s.replace(/\\)/g, '');\n}\n",
        "if (x) {\n  y = s.replace(/\\)/g, '');\n}\n",
    ),
    "2 haskell lambda": ("m = map (|) xs\n", "\\(a, b) -> a) ys\n", "m = map (\\(a, b) -> a) xs\n"),
    "2 ruby": ('puts "|"\n', 'a"\nputs "b"', 'puts "a"\n'),
    "3 javascript": (
        "if (a) {\n\t|\n} else {\n\tb();\n}",
        "x();\n}",
        "if (a) {\n\tx();\n} else {\n\tb();\n}",
    ),
    "3 go": (
        "\tif a {\n\t\t|\n\t} else {\n\t}\n",
        "x()\n\t}\n",
        "\tif a {\n\t\tx()\n\t} else {\n\t}\n",
    ),
    "3 c": (
        "do {\n    |\n} while (a);\n",
        "x();\n} while (a);\n",
        "do {\n    x();\n} while (a);\n",
    ),
    "3 lua": (
        "if a then\n  |\nelse\n  b()\nend\n",
        "x()\nend\n",
        "if a then\n  x()\nelse\n  b()\nend\n",
    ),
    "3 shellscript": ("if a; then\n  |\nelif b\nfi\n", "x\nfi\n", "if a; then\n  x\nelif b\nfi\n"),
    "3 verilog": (
        "if (a) |\nelse begin\nend\n",
        "begin\n  b;\nend\n",
        "if (a) begin\n  b;\nend\nelse begin\nend\n",
    ),
    "3 ruby": (
        "  def f\n    |\n  rescue A\n  end\n",
        "if a\n      b\n    end\n  end\n",
        "  def f\n    if a\n      b\n    end\n  rescue A\n  end\n",
    ),
    "5 python": ("f(|) + 1\nmore\n", "a) + 1", "f(a) + 1\nmore\n"),
    "5 typescript": ("a = [|, y];\n\nb();\n", "x, y];", "a = [x, y];\n\nb();\n"),
    "6 python": (
        "|\nimport a\nimport b\nimport c\nx = a.d()\n",
        "import a\nimport b\nimport c\nx = a.d()",
        "",
    ),
    "6 java": (
        "{\n  |\n  int a;\n  int b;\n  f(a);\n  g(b);\n}\n",
        "int a;\n  int b;\n  f(a);\n  g(b);\n",
        "",
    ),
    "6 go": ("\tx := 1|\n\ta()\n\tb()\n\tc()\n\td()\n", "\n\ta()\n\tb()\n\tc()\n\td()\n", ""),
    "7 python": ("def f(a):\n    return a\n|", "def f(a):\n    return a\n", ""),
    "7 javascript": ("function f(a) {\n  return a;\n}\n|", "function f(a) {\n  return a;\n}\n", ""),
    "8 python": (
        "x = f(|)\ny = g(1)\nz = h(2)\n",
        "a,\n  b\ny = g(1)\nz = h(2)",
        "x = f(a,\n  b)\ny = g(1)\nz = h(2)\n",
    ),
    "8 c": ("  f(|);\n  g(1);\n  h(2);\n", "a\n  g(1);\n  h(2);", "  f(a);\n  g(1);\n  h(2);\n"),
    "11 python": ("def f():\n    |\n", "    return 1\n", "def f():\n    return 1\n"),
    "11 go": ("func f() {\n\t|\n}\n", "\treturn\n", "func f() {\n\treturn\n}\n"),
    "12 python": ("x = |\n", " 1\n", "x = 1\n"),
    "12 rust": ("let x = |;\n", " 1;\n", "let x = 1;\n"),
    "12 odd": ("call(a,\n       |\n", "b,\n       c)\n", "call(a,\n       b,\n       c)\n"),
    "12 vue": ("<p>{{ | }}</p>\n", "name }}</p>\n", "<p>{{ name }}</p>\n"),
    "12 zig": ("const a = .{ | };\n", ".x = 1 };\n", "const a = .{ .x = 1 };\n"),
    "13 makefile": ("all:\n\t|\n", "    cc a.c\n", "all:\n\tcc a.c\n"),
    "13 go": (
        "\tfor {\n\t\ta()\n\t\t|\n\t}\n",
        "if b {\n            c()\n        }\n",
        "\tfor {\n\t\ta()\n\t\tif b {\n\t\t\tc()\n\t\t}\n\t}\n",
    ),
    "13 c": (
        "void f() {\n\tif (a) {\n\t\t|\n\t}\n}\n",
        "b(\n\t\t    c);\n",
        "void f() {\n\tif (a) {\n\t\tb(\n\t\t    c);\n\t}\n}\n",
    ),
    "16 python": ("print(|)\n", "print(print()</fim_middle>", "print(print())\n"),
    "16 typescript": ("console.log(|);\n", "a</fim_middle>;", "console.log(a);\n"),
    "19 python": ("x = |\n", "1<|fim_pad|>\ny", "x = 1\n"),
    "19 go": ("\treturn |\n", "nil<|file_sep|>b.go\n", "\treturn nil\n"),
    "21 go": ("\t|\n", 't.Fatal("```") // x\n', '\tt.Fatal("```") // x\n'),
    "21 javascript": ("const p = |;\n", '"/src/" // t.\n', 'const p = "/src/" // t.;\n'),
    "23 python": ("|", "a = 1\r\n\r\nb = 2\r\n", "a = 1"),
    "23 csharp": ("{\r\n  |\r\n}\r\n", "a();\r\n\r\nb();\r\n", "{\r\n  a();\r\n}\r\n"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reported_case_comes_out_right(case: str) -> None:
    text, written, expected = CASES[case]
    before, _, after = text.partition("|")
    language = case.split(" ")[1]
    lf = Cursor(before.replace("\r\n", "\n"), after.replace("\r\n", "\n"), language)
    shown = trim(written, rule(lf, healed="", stop_ids=[]), "eos")
    found, _ = clean(shown, Snapshot("d", 1, language, "a", before, after))
    assert before + found + after == (expected or before + after)
