"""What a person sees: two consoles, a table of facts, a bar for a download. Knows no daemon.

Answers go to stdout; what is being done, and what went wrong, goes to stderr.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(highlight=False, soft_wrap=True, stderr=True)

WHAT = 30
"""Characters that say what a bar is about; a fixed width keeps the bar in place."""


def say(sentence: str) -> None:
    """Tell on stderr what is being done."""
    err.print(Text(sentence, style="dim"))


def facts(rows: Iterable[tuple[str, str]]) -> None:
    """Names and values in two columns on stdout; rows without a value are left out."""
    shown = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out.print(Text.assemble("  ", (name.ljust(width), "cyan"), "  ", value))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on a terminal, one line elsewhere."""
    if not err.is_terminal:
        say(f"{what} …")
        yield
        return
    with err.status(Text(what)):
        yield


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


class Bar:
    """Shows the progress reports of the model cache: `with Bar() as progress`."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=err,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, visible=False)
        self._phase = ""

    def __enter__(self) -> "Bar":
        if err.is_terminal:  # elsewhere it would leave an empty line
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if err.is_terminal:
            self._progress.stop()

    def __call__(self, done: int, total: int, what: str) -> None:
        self._progress.update(
            self._task,
            completed=done,
            total=total or None,
            description=f"{what[:WHAT]:{WHAT}}",
            visible=True,
        )
        phase = what.split()[0]
        if phase != self._phase and not err.is_terminal:
            say(f"{what} …")
        self._phase = phase


class Lines:
    """The same for a program: one JSON object a line, each time that the percentage changes."""

    def __init__(self) -> None:
        self._told: tuple[str, int | None] = ("", None)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __call__(self, done: int, total: int, what: str) -> None:
        told = what, done * 100 // total if total else None
        if told != self._told:
            self._told = told
            line = {"what": what} if told[1] is None else {"what": what, "percent": told[1]}
            print(json.dumps(line), flush=True)  # noqa: T201
