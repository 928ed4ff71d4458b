"""A real Neovim with a screen, driven by its own msgpack-RPC over pipes; keys go in as typed."""

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgpack

WAIT_S = 10.0
POLL_S = 0.01


class NvimError(Exception):
    """What Neovim answered instead of a result."""


class Nvim:
    """`with Nvim(program, home, init) as nvim`: 100 columns by 30 lines, its own directories."""

    def __init__(self, program: Path, home: Path, init: str, *, env: dict[str, str]) -> None:
        home.mkdir(parents=True, exist_ok=True)
        (home / "init.lua").write_text(init, encoding="utf-8")
        self.home = home
        dirs = {
            f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "DATA", "CONFIG", "CACHE")
        }
        self._command = [str(program), "--embed", "-n", "-i", "NONE", "-u", str(home / "init.lua")]
        self._env = os.environ | env | dirs | {"NVIM_LOG_FILE": str(home / "nvim.log")}
        self._ids = 0
        self._answers: dict[int, tuple[Any, Any]] = {}
        self._unpacker = msgpack.Unpacker(
            raw=False, unicode_errors="surrogateescape", ext_hook=_ext
        )

    def __enter__(self) -> "Nvim":
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._env,
            cwd=self.home,
            bufsize=0,
        )
        self.call("nvim_ui_attach", 100, 30, {"rgb": True, "ext_linegrid": True})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            try:
                self.notify("nvim_command", "qall!")
                self.process.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    # -- messages -------------------------------------------------------------------------------

    def notify(self, method: str, *params: Any) -> None:
        self._write([2, method, params])

    def call(self, method: str, *params: Any) -> Any:
        self._ids += 1
        ident = self._ids
        self._write([0, ident, method, params])
        while ident not in self._answers:
            self._read()
        error, result = self._answers.pop(ident)
        if error is not None:
            raise NvimError(str(error))
        return result

    def _write(self, message: list[Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(msgpack.packb(message, unicode_errors="surrogateescape"))

    def _read(self) -> None:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], WAIT_S)[0]:
            raise NvimError("Neovim does not answer; does it ask a person something?")
        data = self.process.stdout.read(1 << 16)
        if not data:
            raise NvimError(f"Neovim has ended with {self.process.wait()}.")
        self._unpacker.feed(data)
        for message in self._unpacker:
            if message[0] == 1:
                self._answers[message[1]] = (message[2], message[3])

    # -- what a person does ---------------------------------------------------------------------

    def keys(self, *keys: str) -> None:
        """Type, in Neovim's notation; each argument is put in once the last one is worked off."""
        for each in keys:
            self.call("nvim_input", each)
            self.call("nvim_get_mode")

    def type(self, text: str, pause_s: float = 0.0) -> None:
        """Type character by character; `<` is a character here."""
        for letter in text:
            self.keys("<lt>" if letter == "<" else "<CR>" if letter == "\n" else letter)
            if pause_s:
                time.sleep(pause_s)

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.call("nvim_exec_lua", code, arguments)

    def command(self, command: str) -> None:
        self.call("nvim_command", command)

    def open(self, path: Path) -> None:
        self.call("nvim_cmd", {"cmd": "edit", "args": [str(path)]}, {})

    def lines(self) -> list[str]:
        found: list[str] = self.call("nvim_buf_get_lines", 0, 0, -1, True)
        return found

    def until(self, true: Callable[[], Any], seconds: float = WAIT_S) -> Any:
        """The first true answer."""
        give_up = time.monotonic() + seconds
        while not (found := true()):
            assert time.monotonic() < give_up, "it did not come true in time"
            time.sleep(POLL_S)
        return found


def _ext(code: int, data: bytes) -> Any:
    """A buffer, window or tab page is its number."""
    return msgpack.unpackb(data)
