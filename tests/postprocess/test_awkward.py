"""The rules on files that nobody writes on purpose hold whatever stands around the cursor."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from completiond.core import Snapshot
from completiond.gate import refusal
from completiond.postprocess.clean import clean
from completiond.prompt.stopping import Cursor, rule, trim

AWKWARD = Path(__file__).parents[3] / "shared/data/awkward"
REACH = 20_000
"""Characters on each side of a cursor: a daemon is told a window."""
REASONS = {"", "short_document", "mid_word", "mid_line", "statement_end"}

pytestmark = [
    pytest.mark.skipif(not AWKWARD.is_dir(), reason="the awkward files are not here"),
    pytest.mark.slow,  # all of them take ten seconds
]


def cursors(text: str) -> Iterator[tuple[str, str]]:
    """Text before and behind a cursor at every ninth of a text, and at its ends."""
    for n in range(10):
        at = len(text) * n // 9
        yield text[max(0, at - REACH) : at], text[at : at + REACH]


@pytest.mark.parametrize("file", sorted(path.name for path in AWKWARD.glob("*.*")))
@pytest.mark.parametrize("language", ["", "python", "klingon"])
def test_rules_hold_on_every_awkward_file(file: str, language: str) -> None:
    text = (AWKWARD / file).read_bytes().decode("utf-8", "replace")
    for before, after in cursors(text):
        here = Snapshot("d", 1, language, "", before, after)
        assert refusal(here) in REASONS
        lf = Cursor(*(part.replace("\r\n", "\n") for part in (before, after)), language)
        for written in (after[:200], before[-200:], f"a\n{after[:80]}", ")\n}\n\x00</fim_middle>"):
            kept = trim(written, rule(lf, healed="", stop_ids=[]), "eos")
            assert written.startswith(kept)
            shown, reason = clean(kept, here)
            assert bool(shown) != bool(reason)
            assert "\r" not in shown and "\x00" not in shown
