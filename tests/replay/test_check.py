"""How a difference between a reused and a computed answer is classed; once with the real model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import events, write
from replay_check import parting

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "ours, fresh, expected",
    [
        ([1, 2, 3, 9], [1, 7, 3, 9], (1, "bug")),  # the layout is not the same
        ([1, 2, 3, 9], [1, 2, 4, 9], (2, "tokenisation")),  # typed text in other tokens
        ([1, 2, 3, 4, 9], [1, 2, 3, 4, 8], (4, "said")),  # the model said something else
        ([1, 2, 3, 4, 9], [1, 2, 3, 4, 9], (5, "bug")),  # the same ids, yet another text
    ],
)
def test_a_difference_is_classed_by_the_first_id_that_differs(
    ours: list[int], fresh: list[int], expected: tuple[int, str]
) -> None:
    assert parting(ours, fresh, typed=2, prompts=4) == expected


@pytest.mark.model
def test_reuse_is_lossless_on_a_short_trace(tmp_path: Path) -> None:
    before = 'def add(a, b):\n    """The sum."""\n'
    write(tmp_path, before, events("    return", len(before), every_ms=400))
    command = [sys.executable, str(ROOT / "scripts/replay.py"), "check", "--keys", "6"]
    ran = subprocess.run(
        [*command, "--folder", str(tmp_path), "--gap", "0", "--speed", "0.2"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["keys"] >= 1 and found["bugs"] == 0
