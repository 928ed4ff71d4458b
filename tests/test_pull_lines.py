"""What `models pull --lines` prints for a program that shows how far a pull is."""

import json

import pytest

from completiond.commands.terminal import Lines


def test_a_line_for_each_new_percentage_and_each_new_thing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Lines() as progress:
        for done, total, what in (
            (0, 0, "asking"),
            (1, 1000, "part 1"),
            (2, 1000, "part 1"),
            (15, 1000, "part 1"),
        ):
            progress(done, total, what)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert told == [
        {"what": "asking"},
        {"what": "part 1", "percent": 0},
        {"what": "part 1", "percent": 1},
    ]
