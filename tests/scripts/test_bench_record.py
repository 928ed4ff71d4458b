"""The bench of the record ends with one line of JSON that has what it is for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_a_store_is_filled_asked_and_measured() -> None:
    command = [sys.executable, "scripts/bench.py", "record", "--keys", "20000"]
    ran = subprocess.run(
        [*command, "--repeat", "2", "--recorded", "100"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=250,
    )
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["bench"] == "record" and found["keys"] == 20_000
    assert 0 < found["query_p50_ms"] <= found["query_p95_ms"]
    for name in ("reply", "span", "bridge"):
        assert 0 < found[f"{name}_p50_us"] <= found[f"{name}_p99_us"]
