"""A text without what stands in its functions defines what it did, on the same lines."""

from pathlib import Path

import pytest

from completiond_lsp.retrieval import grammars
from completiond_lsp.retrieval.bodies import emptied
from completiond_lsp.retrieval.grammars import by_tree

CHECKOUT = Path(__file__).parents[3]
OURS = sorted(path for name in ("lsp", "completiond") for path in (CHECKOUT / name).rglob("*.py"))
BODY = "    first = [\n        1,\n    ]\n    return first\n"


@pytest.mark.parametrize("path", OURS[::7], ids=lambda path: path.name)
def test_a_tree_of_the_rest_finds_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text(encoding="utf-8")
    found = by_tree(text, "python", path.name)
    if found is None:
        pytest.skip("no grammar of python is installed (the extra `grammars`)")
    monkeypatch.setattr(grammars, "emptied", lambda text: text)
    assert found == by_tree(text, "python", path.name)


def test_a_body_is_emptied_and_every_line_keeps_its_number() -> None:
    assert emptied(f"def f(a):\n{BODY}\nb = 1\n") == "def f(a):\n\n\n\n pass\n\nb = 1\n"
    assert emptied(f"async def f():\n{BODY.rstrip()}") == "async def f():\n\n\n\n pass\n"
    for path in OURS:
        text = path.read_text(encoding="utf-8")
        assert emptied(text).count("\n") == text.count("\n")


def test_a_comment_at_the_margin_ends_no_body() -> None:
    text = f"def f(a):\n    zero = 0\n# margin\n{BODY}# behind\nb = 1\n"
    assert emptied(text) == "def f(a):\n\n\n\n\n\n pass\n# behind\nb = 1\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    a = 1\n    return a\n",  # too short to be worth it
        f"def f():\n{BODY}    # behind\nb = 1\n",  # belongs to the body or not
        'def f():\n    a = 1\n    b = 2\n    c = """\nd = 1\n"""\n',
        "def f():\n    a = 1\n    b = 2\n    c = (\n1)\n",
        "def f():\n    a = 1\n    b = 2\n    c = 1 + \\\n2\n",
        "def f():\n\ta = 1\n\tb = 2\n\treturn a\n",
        "def f(\n    a,\n    b,\n    c,\n):\n    return a\n",
        "class A:\n    a = 1\n    b = 2\n    c = 3\n",
    ],
)
def test_what_is_not_plainly_a_body_stays(text: str) -> None:
    assert emptied(text) == text
