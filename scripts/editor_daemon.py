"""A daemon of their own for real editors: started, killed, started again, asked what it has done.

With a script it answers by the script and needs no model. Knows no editor.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from completiond.client import Client
from completiond.errors import EngineDied, NoDaemon

READY_S = 120.0


class EditorDaemon:
    """`folder` is private to it: socket, state and configuration lie there."""

    def __init__(self, folder: Path, script: Mapping[str, Any] | None, model: str = "") -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.endpoint = f"ipc://{folder}/d.sock"
        self.command = [sys.executable, "-P", "-m", "completiond", "serve", "--cpu"]
        if script is not None:
            self.command += ["--scripted", json.dumps(dict(script))]
        elif model:
            self.command += ["--model", model]
        self.environment = {
            **{name: value for name, value in os.environ.items() if _is_neutral(name)},
            "COMPLETIOND_CONFIG": str(folder / "config.toml"),
            "COMPLETIOND_RUNTIME_DIR": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the daemon that was started here; 0: there is none."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Start it and wait until it can be asked. Raises EngineDied."""
        with (self.folder / "daemon.log").open("ab") as log:
            command = [*self.command, "--endpoint", self.endpoint]
            self._process = subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        async with Client(self.endpoint) as client, asyncio.timeout(READY_S):
            while not await _is_ready(client):
                if self._process.poll() is not None:
                    raise EngineDied(f"The daemon ended; {log.name} says why.")
                await asyncio.sleep(0.02)

    def kill(self) -> None:
        """As a crash would: at once, its engine too."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it, and those that an editor has started in its place."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)

    def pids(self) -> set[int]:
        """Daemons that run at this endpoint, whoever has started them."""
        found = set()
        for entry in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                ours = f"COMPLETIOND_SERVE_ENDPOINT={self.endpoint}".encode()
                words = (entry.parent / "cmdline").read_bytes().split(b"\0")
                if ours in entry.read_bytes().split(b"\0") and b"serve" in words:
                    found.add(int(entry.parent.name))
        return found

    async def status(self) -> dict[str, Any]:
        """The counters, and how many clients there are and requests in work."""
        async with Client(self.endpoint) as client:
            found = await client.status(10)
        work = {"clients": found.clients, "running": found.running, "waiting": found.waiting}
        return found.engine | work

    async def why(self) -> dict[str, Any]:
        """The facts of the newest request."""
        async with Client(self.endpoint) as client:
            return (await client.why(0, 10)).facts

    async def idle(self) -> dict[str, Any]:
        """The counters once nothing runs any more."""
        before: dict[str, Any] = {}
        while (now := await self.status()) != before or now["running"]:
            before = now
            await asyncio.sleep(0.1)
        return now

    def bridge(self, *arguments: str) -> Path:
        """A program that an editor starts as its language server; it uses this daemon."""
        program = self.folder / "completiond-lsp"
        words = [sys.executable, "-m", "completiond_lsp.server", "--endpoint", self.endpoint]
        command = shlex.join(words)
        more = shlex.join(arguments)
        program.write_text(f'#!/bin/sh\nexec {command} "$@" {more}\n')
        program.chmod(0o755)
        return program


def _is_neutral(name: str) -> bool:
    return not name.startswith("COMPLETIOND_") or name == "COMPLETIOND_CACHE"


async def _is_ready(client: Client) -> bool:
    try:
        return (await client.hello(2)).state == "ready"
    except NoDaemon:
        return False
