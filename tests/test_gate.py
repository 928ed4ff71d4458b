"""Where a run is worth it: `|` is the cursor."""

import pytest

from completiond import config
from completiond.core import Snapshot
from completiond.gate import refusal
from completiond.protocol import messages as m
from tests.daemon_world import ask, world

GATED = config.Config()
MID_LINE = m.Complete(1, "a.py", 1, "value = ", "other_value + 1\n")


FILE = "import something\n"


def at(text: str, above: str = FILE) -> Snapshot:
    before, _, after = text.partition("|")
    return Snapshot("d", 1, "", "a", above + before, after)


ASKED = {
    "at a line's end": "def f(a, b):\n    return |\n",
    "in front of closers": "result = compute(|)\n",
    "and what ends the statement": "result = compute([|]);\n",
    "in front of a block": "while (count(|) {\n",
    "in a string": "print('hello |')\n",
    "in front of a few characters": "result = | + b\n",
    "in front of marks only": "result = a | != && || -- ->\n",
    "in the head of a loop": "for (int i = 0;|\n",
    "in a string that has a semicolon": "say = 'a; b;|\n",
    "behind a call": "result = first(value)|\n",
    "behind a brace that has no bracket": "struct point {1, 2}|\n",
    "on a line of its own": "|\n\n\nimport more\n",
}
REFUSED = {
    "mid_word": ["result = comp|ute\n", "const résu|ltat = 1;\n", "x_1|2 = something\n"],
    "mid_line": ["value = |other_value + 1\n", "foo(|first, second)\n", "a = 1 |// remember\n"],
    "statement_end": ["    return first;|\n", "x = {a: 1};|\n", "  })|\n", "f(a);  |\r\nb\n"],
    "short_document": ["|", "x = |", "ab\n|\ncd\n", "\n\n\n\n   |\n\n\n\n"],
}


@pytest.mark.parametrize("case", ASKED)
def test_a_run_is_worth_it(case: str) -> None:
    assert refusal(at(ASKED[case])) == ""


@pytest.mark.parametrize(
    ("why", "text"), [(why, text) for why, texts in REFUSED.items() for text in texts]
)
def test_a_run_is_not_worth_it(why: str, text: str) -> None:
    assert refusal(at(text, "" if why == "short_document" else FILE)) == why


def test_a_window_inside_a_document_is_not_short() -> None:
    assert refusal(Snapshot("d", 1, "", "a", "x", "", offset=4096)) == ""


async def test_what_is_refused_has_a_reason_and_costs_no_run(tmp_path):
    async with world(tmp_path, settings=GATED, answers=["1"]) as w:
        reply = await w.client().ask(MID_LINE)
        assert (reply.reason, reply.why, reply.candidates) == ("not_asked", "mid_line", [])
        assert (await w.engine.stats())["runs"] == 0


async def test_a_person_who_asks_is_answered(tmp_path):
    async with world(tmp_path, settings=GATED, answers=["1 +"]) as w:
        reply = await w.client().ask(ask(1, "value = ", after="other_value", trigger="invoked"))
        assert (reply.reason, reply.candidates[0].text) == ("ok", "1 +")


async def test_what_is_known_is_shown_and_who_follows_a_suggestion_is_answered(tmp_path):
    document = "def f():\n    first(a);\n    second(b)\n"
    async with world(tmp_path, settings=GATED, document=document) as w:
        client, before = w.client(), "def f():\n    fir"
        text = (await client.ask(ask(1, before))).candidates[0].text
        assert text == "st(a);"
        follows = await client.ask(ask(2, before + text))
        assert follows.candidates[0].text == "\n    second(b)"
        stray = await client.ask(ask(3, before + "e();"))
        assert (stray.reason, stray.why) == ("not_asked", "statement_end")
        again = await client.ask(ask(4, before + text))
        assert again.candidates[0].text == "\n    second(b)" and again.tokens["passes"] == 0
