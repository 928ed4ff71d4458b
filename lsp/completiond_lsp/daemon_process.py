"""Starting a daemon that outlives the editor. Knows processes; knows no sockets.

Of two bridges that both start a daemon one daemon survives: its endpoint's lock decides. The other
process ends, which is no failure as long as somebody holds the lock.
"""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from completiond.config import state_dir
from completiond.endpoint import holder, parse

log = logging.getLogger(__name__)

SERVE = (sys.executable, "-P", "-m", "completiond", "serve")
START_S = 120.0
"""A daemon that does not answer this long after its start has failed."""
BACK_OFF_S = (5.0, 30.0, 120.0, 600.0)
"""Pauses after the first failed start, the second, and so on."""
LOG_LIMIT = 1 << 20


class DaemonProcess:
    """At most one start at a time, with longer and longer pauses after failed ones."""

    def __init__(self, endpoint: str, model: str, command: Sequence[str]) -> None:
        self._endpoint = parse(endpoint)
        self._model = model
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._failures = 0
        self._give_up = 0.0
        self._logged = 0
        self._pause_until = 0.0
        self.under_way = False

    def answered(self) -> None:
        """The daemon answers: the start is over."""
        self.under_way = False
        self._failures = 0

    def ensure(self) -> str:
        """Start a daemon if none is on its way; a sentence for the person if that failed."""
        now = time.monotonic()
        if self.under_way:
            return self._failed(now) if self._is_lost(now) else ""
        return self._start(now) if now >= self._pause_until else ""

    def _is_lost(self, now: float) -> bool:
        gone = self._process is not None and self._process.poll() is not None
        return now >= self._give_up or (gone and not holder(self._endpoint))

    def _start(self, now: float) -> str:
        log.info("Starting a daemon at %s", self._endpoint.text)
        try:
            self._process = self._spawn()
        except OSError as exc:
            log.warning("Cannot start a daemon: %s", exc)
            self._failed(now)
            return f"The completion daemon cannot be started: {exc.strerror}, {exc.filename}."
        self.under_way, self._give_up = True, now + START_S
        return ""

    def _failed(self, now: float) -> str:
        self.under_way = False
        self._pause_until = now + BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        said = _last_line(log_file(), self._logged)
        return (
            f"The completion daemon could not be started: {said}"
            if said
            else (f"The completion daemon could not be started; {log_file()} says why.")
        )

    def _spawn(self) -> subprocess.Popen[bytes]:
        path = log_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_suffix(".log.1"))
        env = os.environ | {"COMPLETIOND_SERVE_ENDPOINT": self._endpoint.text}
        if self._model:
            env["COMPLETIOND_MODEL_NAME"] = self._model
        with path.open("ab") as output:
            self._logged = output.tell()
            return subprocess.Popen(
                list(self._command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=Path.home(),
                env=env,
                start_new_session=True,
            )


def log_file() -> Path:
    """Where a daemon that a bridge starts writes."""
    return state_dir() / "daemon.log"


def _last_line(path: Path, start: int) -> str:
    """The last thing that was written there behind `start`: a command's error is one line."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, path.stat().st_size - LOG_LIMIT))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:400] for line in reversed(lines) if line.strip()), "")
