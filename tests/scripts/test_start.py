"""`scripts/start` in a checkout of its own, with a `completiond` that notes how it is called."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0
FAKE = """#!/usr/bin/env bash
echo "$*" >>"$CALLS"
case $1 in
    status) [ -f "$CALLS.serves" ] ;;
    serve)
        trap 'rm "$CALLS.serves"; exit 0' TERM
        touch "$CALLS.serves"
        while :; do sleep 0.02; done
        ;;
    complete) echo "an answer" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With everything installed, by the stamp."""
    (tmp_path / ".venv/bin").mkdir(parents=True)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    fake = tmp_path / ".venv/bin/completiond"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    stamp = '. scripts/_env.sh; echo "$(fingerprint python3) serve,dashboard" >"$STAMP"'
    subprocess.run(["bash", "-c", stamp], cwd=tmp_path, check=True)
    return tmp_path


def start(checkout: Path, *arguments: str) -> tuple[str, list[str]]:
    """What it prints until it has started and is ended, and how `completiond` was called."""
    calls = checkout / "calls"
    calls.write_text("")
    command = ["bash", str(checkout / "scripts/start"), *arguments]
    environ = os.environ | {"CALLS": str(calls)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        give_up = time.monotonic() + PATIENCE_S
        while process.poll() is None and not all(
            call in calls.read_text() for call in ("serve", "--wait")
        ):
            assert time.monotonic() < give_up, "it does not start"
        if "--once" not in arguments:
            process.send_signal(signal.SIGTERM)
        text, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert not (checkout / "calls.serves").exists(), "its daemon goes on"
    return text, calls.read_text().splitlines()


@pytest.mark.slow
def test_the_second_start_shows_no_example_and_a_short_banner(checkout: Path) -> None:
    text, calls = start(checkout, "--once")
    assert "an answer" in text and "Connect an editor" in text and "serve" in calls
    text, calls = start(checkout)
    assert text == "" and "serve --quiet" in calls
    assert not any(call.startswith("complete ") for call in calls)
    text, calls = start(checkout, "--once")
    assert "an answer" in text, "whoever asks for the example gets it"


def test_of_what_pip_says_there_are_the_large_files_and_the_end() -> None:
    said = """Collecting torch==2.9.1 (from completiond==0.1.0)
  Downloading torch-2.9.1-cp311-cp311-linux.whl.metadata (30 kB)
Downloading torch-2.9.1-cp311-cp311-linux.whl (184.5 MB)
Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)
Installing collected packages: six, torch
Successfully installed six-1.17.0 torch-2.9.1
"""
    ran = subprocess.run(
        ["bash", "-c", ". scripts/_env.sh; phases"],
        input=said,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        check=True,
        text=True,
    )
    assert ran.stderr == (
        "  Downloading torch-2.9.1-cp311-cp311-linux.whl (184.5 MB)\n  Unpacking 2 packages\n"
    )
