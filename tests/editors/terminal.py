"""A terminal that a program runs in, as a person sees it: tmux, with its keys and its screen."""

import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest
from world import within

SEES_S = 30.0
AGAIN_S = 3.0


class Terminal:
    """`with Terminal(command, folder, env) as terminal`: 100 columns by 30 lines. The calling test
    is skipped where there is no tmux."""

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str]) -> None:
        self._command, self._folder, self._env = command, folder, env
        self._name = f"completiond-test-{os.getpid()}"

    def __enter__(self) -> "Terminal":
        try:
            self._tmux("-V")
        except FileNotFoundError:
            pytest.skip("no tmux here")
        env = [part for pair in self._env.items() for part in ("-e", "=".join(pair))]
        size = ("-x", "100", "-y", "30", "-c", str(self._folder))
        # Without a wait for what may follow an Escape, and with keys that a plain terminal has.
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, *env, *self._command)
        self._tmux("set-option", "-s", "escape-time", "0")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        subprocess.run(["tmux", "-L", self._name, "kill-server"], capture_output=True)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-L", self._name, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def keys(self, *keys: str) -> None:
        """Press keys by tmux's names for them."""
        for key in keys:
            self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def sees(self, *texts: str) -> None:
        """Wait until all of them are on the screen."""
        try:
            within(SEES_S, lambda: all(text in self.screen() for text in texts))
        except AssertionError as exc:
            raise AssertionError(f"{texts} were not seen, but:\n{self.screen()}") from exc

    def asks(self, keys: list[str], text: str) -> None:
        """Press keys until they have brought a text: an editor does not say that its server is
        not ready yet."""

        def seen() -> bool:
            self.keys(*keys)
            with suppress(AssertionError):
                within(AGAIN_S, lambda: text in self.screen())
            return text in self.screen()

        try:
            within(SEES_S, seen)
        except AssertionError as exc:
            raise AssertionError(f"{text} was not seen, but:\n{self.screen()}") from exc
