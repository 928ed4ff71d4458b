"""Virtual time: the same counts every time, and no waiting."""

import time
from pathlib import Path
from types import SimpleNamespace

from hand_made import events, write
from replay_traces import find, read, timed
from replay_virtual import virtual

BEFORE = 'def add(a, b):\n    """The sum of two numbers."""\n'
TYPED = "    total = a + b\n    return total\n"
ARGUMENTS = SimpleNamespace(model="qwen2.5-coder-0.5b", layout="", engine="scripted", context=0)


def replay(tmp_path: Path) -> dict[str, object]:
    write(tmp_path, BEFORE, events(TYPED, len(BEFORE), every_ms=1_000))
    return virtual([timed(read(path)) for path in find("*.json", [tmp_path])], ARGUMENTS)


def test_a_replay_in_virtual_time_counts_the_same_twice_and_does_not_wait(tmp_path: Path) -> None:
    started = time.monotonic()
    found = replay(tmp_path)
    assert time.monotonic() - started < len(TYPED)  # a second a key
    assert found == replay(tmp_path)
    assert found["keys"] == len(TYPED)
    assert found["prefill_p50"] == 1.0 and found["requests_with_a_pass"]
    assert 0 < found["no_pass_share"] < found["before_next_key"] <= 1  # type: ignore[operator]


def test_the_clocks_are_put_back(tmp_path: Path) -> None:
    clocks = time.monotonic, time.perf_counter, time.monotonic_ns, time.perf_counter_ns
    replay(tmp_path)
    assert clocks == (time.monotonic, time.perf_counter, time.monotonic_ns, time.perf_counter_ns)
