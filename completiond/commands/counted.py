"""How far a long command is, on stderr: a bar on a terminal, a line now and then elsewhere."""

import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from completiond.commands.terminal import err, say

EVERY_S = 10.0


class Counted:
    """`with Counted(total, "Measuring") as tick:` and `tick()` after each part.

    The time left is what the parts so far took, not a promise: parts differ.
    """

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what = total, what
        self._done = 0
        self._started = self._told = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[left]}"), console=err)
        self._task = self._bar.add_task(what, total=total, left="")

    def __enter__(self) -> "Counted":
        if err.is_terminal:
            self._bar.start()
        else:
            say(f"{self._what}: {self._total} in all …")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if err.is_terminal:
            self._bar.stop()

    def __call__(self) -> None:
        self._done += 1
        now = time.monotonic()
        left = (now - self._started) / self._done * (self._total - self._done)
        about = spoken(left) if self._done < self._total else ""
        self._bar.update(self._task, completed=self._done, left=about)
        if not err.is_terminal and now - self._told >= EVERY_S and about:
            say(f"{self._what}: {self._done} of {self._total}, {about}")
            self._told = now


def spoken(seconds: float) -> str:
    """A time as a person would say it; nobody needs the seconds of minutes."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s to go"
    return f"about {round(seconds / 60)} min to go"
