"""A hand-made trace typed at a real daemon, straight and through a real bridge process."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import replay_metrics as metrics
from hand_made import events, typed, write
from replay_bridge import BridgeSource
from replay_editor import VsCode, type_trace
from replay_ours import DaemonSource
from replay_traces import Moment, Step, Trace, read, timed

from daemon_world import in_process, world

pytestmark = pytest.mark.slow  # real processes

ROOT = Path(__file__).parents[2]
BEFORE = "import os\n\n\ndef f(value):\n    "
LINE = "return value + 1"
DOCUMENT = f"{BEFORE}{LINE}\n"


async def replayed(tmp_path: Path, source: Callable[[str], Any], trace: Trace, **script: Any):
    async with world(tmp_path, in_process, **({"document": DOCUMENT} | script)) as here:
        async with source(here.endpoint) as asked:
            seat = VsCode(asked)
            await type_trace(trace, seat, speed=4.0)
            return seat, metrics.judge(trace, seat.screen.keys)


@pytest.mark.parametrize("source", [DaemonSource, BridgeSource])
async def test_a_line_that_the_daemon_knows_is_shown_once_and_kept(
    tmp_path: Path, source: Callable[[str], Any]
) -> None:
    trace = typed(tmp_path, BEFORE, LINE[:-1], every_ms=400)
    seat, keys = await replayed(tmp_path, source, trace)
    asked = [key for key in keys if not key.free and key.latency_ms < float("inf")]
    assert len(asked) == 1, "one request ran passes, the others were typed through"
    assert [key.latency_ms for key in keys[1:]] == [0.0] * (len(keys) - 1)
    assert sum(key.right_chars for key in keys) == sum(range(len(keys)))
    through_bridge = source is BridgeSource
    # The bridge answers type-through itself; straight, the daemon's memory does.
    assert (len(seat.account.versions) < 5) == through_bridge
    assert len(seat.account.runs()) == 1


@pytest.mark.parametrize("source", [DaemonSource, BridgeSource])
async def test_a_cancel_goes_out_before_the_change_and_is_acknowledged(
    tmp_path: Path, source: Callable[[str], Any]
) -> None:
    trace = typed(tmp_path, BEFORE, "zqzq", every_ms=400)
    slow = {"document": "", "answers": ["a" * 4000], "pass_ms": 2.0}
    seat, keys = await replayed(tmp_path, source, trace, **slow)
    assert all(key.latency_ms == float("inf") for key in keys[:-1])
    found = metrics.wire_figures(seat.account, metrics.Counter())
    assert found["cancelled_running"] >= 2 and found["superseded_used_share"] == 0.0
    assert found["requests_with_a_pass"] >= 3


class Slow:
    """A source that notes what it is told, and answers after a while."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.account: Any = None

    async def open(self, name: str, moments: list[Moment]) -> None:
        self.told.append("open")

    def opened(self, moment: Moment) -> None:
        self.told.append("opened")

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        self.told.append(f"change {step.insert}")

    def cancel(self) -> None:
        self.told.append("cancel")

    async def ask(self, moment: Moment) -> None:
        self.told.append(f"ask {moment.cursor}")
        await asyncio.sleep(30)

    def shown(self) -> None:
        self.told.append("shown")

    async def close(self) -> None:
        self.told.append("close")


async def test_an_editor_cancels_before_it_tells_the_change_and_asks_for_the_newest(
    tmp_path: Path,
) -> None:
    source = Slow()
    jump = {"t_ms": 400, "offset": 0, "delete": "", "insert": "", "kind": "move"}
    trace = read(write(tmp_path, "", [*events("ab", 0), jump]))
    await type_trace(trace, VsCode(source, ask_s=0.001), speed=4.0)
    first, second = ["change a", "ask 1"], ["change b", "ask 2"]
    assert source.told == ["open", *first, "cancel", *second, "cancel", "close"]


async def test_keys_faster_than_the_editor_asks_are_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay_editor.LAST_S", 0.2)
    source = Slow()
    trace = typed(tmp_path, "", "abcd", every_ms=1)
    await type_trace(trace, VsCode(source, ask_s=0.05))
    assert [told for told in source.told if told.startswith("ask")] == ["ask 4"]


@pytest.mark.slow
def test_the_script_ends_with_one_json_object(tmp_path: Path) -> None:
    write(tmp_path, BEFORE, events(LINE[:6], len(BEFORE), every_ms=50))
    command = [sys.executable, str(ROOT / "scripts/replay.py"), "--engine", "scripted"]
    ran = subprocess.run(
        [*command, "--folder", str(tmp_path), "--through", "both"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    wanted = {"keys", "p50_ms", "p90_ms", "p95_ms", "before_next_key", "no_pass_share"}
    wanted |= {"prefill_p50", "prefill_mean", "passes_per_request", "tokens_after_cancel"}
    wanted |= {"cancel_p99_ms", "useful_share", "saved_share", "peers"}
    assert wanted <= set(found) and found["keys"] == 6 and set(found["peers"]) == {"daemon"}


def test_the_script_refuses_a_bad_trace_in_one_sentence(tmp_path: Path) -> None:
    write(tmp_path, "", [*events("a", 0, start_ms=9), *events("b", 1)])
    command = [sys.executable, str(ROOT / "scripts/replay.py"), "--folder", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stdout == ""
    assert ran.stderr.count("\n") == 1 and "before the one at" in ran.stderr


def test_a_timed_trace_starts_with_its_first_key(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "ab", start_ms=5000)
    assert timed(trace).steps[0].at_s == 0.0
