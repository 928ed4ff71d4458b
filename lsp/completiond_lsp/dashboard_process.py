"""The dashboard's process: started when a person wants to see it, ends with this one.

Knows the command that serves the page, and that its first line is the link; knows no page.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence

from completiond_lsp.pulling import one_sentence

PAGE = (sys.executable, "-P", "-m", "completiond", "dashboard")
LINK_S = 60.0
"""How long it may take to serve the page."""
TIED = '"$@" </dev/null & page=$!; exec >/dev/null 2>&1; while read -r _; do :; done; kill "$page"'
"""For a shell: run it until the standard input ends, which it does however this process ends."""


class DashboardProcess:
    """At most one, for one daemon at a time. `tell` hears its link, and nothing when it is over."""

    def __init__(self, tell: Callable[[str], None], command: Sequence[str] = PAGE) -> None:
        self._tell, self._command = tell, command
        self._runs: tuple[Process, asyncio.Task[None]] | None = None
        self._turn = asyncio.Lock()
        self._endpoint, self._link = "", ""

    async def link(self, endpoint: str) -> tuple[str, str]:
        """The page's link; or nothing, and a sentence for the person that says why."""
        async with self._turn:
            if self._runs is not None and endpoint == self._endpoint:
                return self._link, ""
            await self.end()
            self._endpoint = endpoint
            self._link, wrong = await self._start(endpoint)
            return self._link, wrong

    async def end(self) -> None:
        if self._runs is not None:
            process, over = self._runs
            _let_go(process)
            await over

    async def _start(self, endpoint: str) -> tuple[str, str]:
        where = ("--endpoint", endpoint) if endpoint else ()
        words = ("/bin/sh", "-c", TIED, "completiond", *self._command, *where)
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=PIPE, stdout=PIPE, stderr=PIPE
            )
        except OSError as exc:
            return "", f"The dashboard cannot be started: {exc.strerror}, {exc.filename}."
        assert process.stdout is not None and process.stderr is not None, "they are pipes"
        errors = asyncio.create_task(process.stderr.read())
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(process.stdout.readline(), LINK_S)
        if link := _link(line):
            over = asyncio.create_task(self._follow(process, errors), name="dashboard")
            self._runs = process, over
            self._tell(link)
            return link, ""
        _let_go(process)
        said = one_sentence((await errors).decode("utf-8", "replace"))
        await process.wait()
        return "", said or "The dashboard says no link; run `completiond dashboard` to see why."

    async def _follow(self, process: Process, errors: "asyncio.Task[bytes]") -> None:
        """Until it ends; what it says is read, so that it never waits for that."""
        assert process.stdout is not None, "it is a pipe"
        await process.stdout.read()
        await errors
        _let_go(process)
        await process.wait()
        self._runs = None
        self._tell("")


def _let_go(process: Process) -> None:
    assert process.stdin is not None, "it is a pipe"
    process.stdin.close()


def _link(line: bytes) -> str:
    """That, if the line is one."""
    text = line.decode("utf-8", "replace").strip()
    return text if text.startswith("http://127.0.0.1:") and text.isprintable() else ""
