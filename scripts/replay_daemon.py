"""A daemon of our own on a private endpoint: started, waited for, watched, ended."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench_process import anonymous_mib, child_of

from completiond.client import Client
from completiond.errors import CompletiondError, EngineDied, NoDaemon

READY_S = 300.0


class Running(NamedTuple):
    """A daemon that can be asked."""

    pid: int
    endpoint: str
    folder: str

    def memory(self) -> dict[str, float]:
        """Anonymous memory, MiB, of the front and of its engine process."""
        return {"front": anonymous_mib(self.pid), "engine": anonymous_mib(child_of(self.pid))}


@contextmanager
def daemon(
    model: str, settings: Mapping[str, str | int], script: Mapping[str, Any] | None = None
) -> Iterator[Running]:
    """`settings` are keys of the configuration: section, dot, key.

    With a `script` it has the scripted engine, and no model is read.
    """
    with tempfile.TemporaryDirectory(prefix="completiond-replay-") as folder:
        endpoint = f"ipc://{folder}/daemon.sock"
        command = [sys.executable, "-m", "completiond", "serve", "--cpu", "--model", model]
        if script is not None:
            command += ["--scripted", json.dumps(script)]
        environment = os.environ | {
            "COMPLETIOND_RUNTIME_DIR": folder,
            "COMPLETIOND_CONFIG": f"{folder}/none.toml",
            "COMPLETIOND_STATE": f"{folder}/state",
            "COMPLETIOND_SERVE_ENDPOINT": endpoint,
        }
        for name, value in settings.items():
            environment[f"COMPLETIOND_{name.replace('.', '_').upper()}"] = str(value)
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            asyncio.run(_ready(process, endpoint))
            yield Running(process.pid, endpoint, folder)
        finally:
            process.terminate()
            process.wait(30)


async def _ready(process: subprocess.Popen[bytes], endpoint: str) -> None:
    async with Client(endpoint) as client, asyncio.timeout(READY_S):
        while True:
            if process.poll() is not None:
                raise EngineDied("The daemon ended before it was ready; its last words are above.")
            try:
                if (await client.hello(2)).state == "ready":
                    return
            except NoDaemon:
                pass
            await asyncio.sleep(0.02)


async def counters(endpoint: str) -> dict[str, Any]:
    """The engine's and the daemon's counters."""
    try:
        async with Client(endpoint) as client:
            return (await client.status(10)).engine
    except CompletiondError:
        return {}
