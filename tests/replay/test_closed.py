"""Closed loop, layouts and crowds, with a scripted engine in real processes."""

from argparse import Namespace
from pathlib import Path

import pytest
import replay_closed as closed
import replay_crowd as crowd
from hand_made import typed
from replay_daemon import Running, daemon
from replay_sides import Ask, our_side

from daemon_world import in_process, world

BEFORE = "import os\n\n\ndef f(value):\n    "
LINE = "return value + 1"


async def test_every_side_is_asked_the_same_keys_and_memory_is_told_apart(tmp_path: Path) -> None:
    trace = typed(tmp_path, BEFORE, LINE)
    async with world(tmp_path, in_process, document=f"{BEFORE}{LINE}\n") as here:
        sides = [
            our_side(Running(0, here.endpoint, ""), Ask(through, 0.0))
            for through in ("daemon", "bridge")
        ]
        rows, bound = await closed._closed([trace], sides, 6)
    assert [set(row) for row in rows] == [{"daemon", "bridge"}] * 6
    assert [row["daemon"].computed for row in rows] == [True] + [False] * 5
    assert [row["bridge"].local for row in rows] == [False] + [True] * 5
    assert not any(row["daemon"].local for row in rows)
    assert rows[0]["daemon"].prefilled > len(BEFORE) / 2
    assert rows[1]["daemon"].prefilled == 0
    assert bound["no_pass_bound"] == pytest.approx(5 / 6, abs=1e-3)


@pytest.mark.slow
def test_layouts_are_compared_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = typed(tmp_path, BEFORE + "pass\n" * 40, "zq zq")
    script = {"answers": ["value"]}
    arguments = Namespace(model="qwen2.5-coder-0.5b", threads=1, keys=0)
    found = closed.layouts([trace], ["cursor", "long"], arguments, script)["layouts"]
    assert set(found) == {"cursor", "long"} and found["long"]["keys"] == 5
    assert "prefill_p95" in capsys.readouterr().out


@pytest.mark.slow
def test_typists_at_once_are_compared_with_one(tmp_path: Path) -> None:
    trace = typed(tmp_path, BEFORE, "zqzqzq", every_ms=50)
    script = {"answers": ["value"], "pass_ms": 1.0}
    with daemon("qwen2.5-coder-0.5b", {}, script) as running:
        side = our_side(running, Ask("daemon", 0.005))
        arguments = Namespace(typists=3, loop=0.0, speed=1.0, engine="scripted")
        found = crowd.crowd([trace], side, arguments)
    assert found["keys"] == 18 and found["alone"]["keys"] == 6
    assert found["p95_against_one"] > 0
    assert found["memory_mib"]["front"]["last"] > 1


def test_a_script_of_many_traces_stays_small_enough_to_be_handed_over(tmp_path: Path) -> None:
    trace = typed(tmp_path, "x" * 60_000, "abc")
    script = crowd.script_of([trace] * 5)
    assert script["document"].startswith("x") and len(script["document"]) < crowd.LONGEST_SCRIPT
