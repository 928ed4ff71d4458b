"""Editors, a daemon with a scripted engine, and the language server between them, all real."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nvim_process import Nvim

from completiond.client import Client
from completiond.errors import NoDaemon

ROOT = Path(__file__).parent.parent.parent
FRAMES = Path(__file__).with_name("frames.lua")
START_S = 30.0
READY_S = 60.0
STATE = "return require('completiond').status().state"


class World:
    """One user: directories, an endpoint, at most one daemon at a time."""

    def __init__(self, path: Path) -> None:
        path.chmod(0o700)
        self.path = path
        self.endpoint = f"ipc://{path}/d.sock"
        self.env = {
            "COMPLETIOND_CONFIG": str(path / "none.toml"),
            "COMPLETIOND_RUNTIME_DIR": str(path),
            "COMPLETIOND_SERVE_ENDPOINT": self.endpoint,
            "COMPLETIOND_COMPLETION_GATE": "false",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lsp")]),
            "XDG_STATE_HOME": str(path / "state"),
        }
        self.daemon: subprocess.Popen[bytes] | None = None

    def serve(self, *arguments: str, **script: Any) -> None:
        """Start the daemon and wait until it is ready."""
        self.launch(*arguments, **script)
        within(START_S, lambda: self.status()["state"] == "ready")

    def launch(self, *arguments: str, **script: Any) -> None:
        told = ["--scripted", json.dumps(script)] if script else []
        command = [sys.executable, "-m", "completiond", "serve", *told, *arguments]
        with (self.path / "daemon.log").open("ab") as log:
            self.daemon = subprocess.Popen(
                command, env=os.environ | self.env, stdout=log, stderr=log, cwd=self.path
            )

    def status(self) -> dict[str, Any]:
        """What the daemon says of itself; `away` if there is none."""
        return asyncio.run(self._status())

    async def _status(self) -> dict[str, Any]:
        async with Client(self.endpoint) as client:
            try:
                return asdict(await client.status(timeout=1.0))
            except NoDaemon:
                return {"state": "away", "engine": {}}

    def runs(self) -> int:
        """How many runs the model has made."""
        return int(self.status()["engine"].get("runs", 0))

    def kill(self) -> None:
        """As a crash would."""
        assert self.daemon is not None
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None

    def close(self) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    @contextmanager
    def nvim(self, program: Path, name: str = "nvim", **options: Any) -> Iterator[Nvim]:
        """A Neovim with the plug-in; `options` go to its `setup`."""
        settings = {"startDaemon": False} | options.pop("settings", {})
        more = options.pop("init", "")
        server = options.pop("server", ["--endpoint", self.endpoint])
        command = [sys.executable, "-m", "completiond_lsp.server", *server]
        setup = json.dumps({"cmd": command, "settings": settings} | options)
        init = f"""
vim.opt.rtp:append([[{ROOT / "editors" / "nvim"}]])
vim.o.swapfile = false
vim.o.shortmess = vim.o.shortmess .. 'I'
vim.o.undolevels = 1000
dofile([[{FRAMES}]])
vim.cmd('runtime plugin/completiond.lua')
{more}
require('completiond').setup(vim.json.decode([==[{setup}]==]))
"""
        with Nvim(program, self.path / name, init, env=self.env) as nvim:
            yield nvim

    @staticmethod
    def log(nvim: Nvim) -> str:
        """What Neovim's LSP client wrote, warnings and errors."""
        found = ""
        for path in nvim.home.rglob("lsp.log"):
            lines = path.read_text(encoding="utf-8").splitlines()
            found += "\n".join(line for line in lines if not line.startswith("[START]"))
        return found


def children(process: int) -> list[int]:
    """Processes that this one has started."""
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def gone(process: int) -> bool:
    """Whether a process has ended; one that nobody has waited for has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def within(seconds: float, true: Any) -> float:
    """How long it took to come true."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, f"not within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


def ghost(nvim: Nvim) -> str:
    """The ghost text that is there now."""
    found = nvim.lua("return (_G.ghost() or {}).text or ''")
    return str(found)


def shows(nvim: Nvim, text: str) -> None:
    nvim.until(lambda: ghost(nvim) == text)


def began(nvim: Nvim, path: Path, text: str, *keys: str) -> None:
    """Open a file with this text and press keys, once the server is ready."""
    path.write_bytes(text.encode())
    nvim.open(path)
    nvim.until(lambda: nvim.lua(STATE) == "ready", READY_S)
    nvim.keys(*keys)
