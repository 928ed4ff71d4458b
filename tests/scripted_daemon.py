"""`completiond serve` with a scripted engine, as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SCRIPT = {"answers": ["total = count(items)\n    return total"], "pass_ms": 5, "tokens_per_pass": 4}


@contextmanager
def daemon(*arguments: str, script: dict[str, Any] = SCRIPT) -> Iterator[subprocess.Popen[str]]:
    """It serves when this is entered."""
    serve = (sys.executable, "-m", "completiond", "serve", "--scripted", json.dumps(script))
    environ = os.environ | {"COMPLETIOND_COMPLETION_GATE": "false"}
    process = subprocess.Popen([*serve, *arguments], stdout=subprocess.PIPE, text=True, env=environ)
    try:
        assert process.stdout is not None
        while "stops it." not in process.stdout.readline():
            assert process.poll() is None
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
