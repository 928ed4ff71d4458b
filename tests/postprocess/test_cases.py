"""Cases of other tools' own tests: ours says the same, or docs/answers.md says why it does not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from completiond.core import Snapshot
from completiond.postprocess.clean import clean
from completiond.prompt.stopping import Cursor, rule, trim

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared/data/postprocess"
WHY = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
DIFFERS = set(re.findall(r"^\| `((?:continue|tabby-golden)/[^`]+)` \|", WHY, re.MULTILINE))


def cases() -> Iterator[dict[str, Any]]:
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


CASES = {case["id"]: case for case in cases()}


def shown(case: dict[str, Any]) -> str:
    """What the stop rule and the rules behind it leave of the model's text."""
    before, after, language = case["prefix"], case["suffix"], case["language"]
    data = rule(Cursor(before, after, language), healed="", stop_ids=[])
    text = trim(case["model_output"], data, "eos")
    return clean(text, Snapshot("d", 1, language, "", before, after))[0]


@pytest.mark.skipif(not CASES, reason=f"there are no cases in {DATA}")
def test_there_is_a_reason_for_just_the_cases_that_differ() -> None:
    assert {ident for ident, case in CASES.items() if _differs(case)} == DIFFERS


def _differs(case: dict[str, Any]) -> bool:
    """Whether the document comes out otherwise; a tool may write closers over and we beside."""
    after, expected = case["suffix"], case["expected"] or ""
    replaced = case.get("replace_suffix_chars") or 0
    same = shown(case) + after == expected + after[replaced:]
    return same if case.get("expected_is_not") else not same


def test_the_reasons_are_there() -> None:
    assert DIFFERS and all(re.search(rf"`{re.escape(name)}` \| \S", WHY) for name in DIFFERS)
