"""Fetching a model because a person asked for it. Knows the command that does it; fetches nothing.

The command is the one place that uses the network: here it runs as a process of its own.
"""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Sequence

PULL = (sys.executable, "-P", "-m", "completiond", "models", "pull", "--lines")


class Puller:
    """One pull at a time. `tell` hears what is fetched and how much of it, in percent."""

    def __init__(
        self, tell: Callable[[str, int | None], None], command: Sequence[str] = PULL
    ) -> None:
        self._tell = tell
        self._command = command
        self._busy = False

    async def pull(self, model: str) -> str:
        """Fetch it, empty: the configured one; a sentence for the person, whatever comes of it."""
        if self._busy:
            return "A model is being fetched already."
        self._busy = True
        self._tell(model or "the model", None)
        try:
            return await self._run([*self._command, *(["--", model] if model else [])])
        except OSError as exc:
            return f"The model cannot be fetched: {exc.strerror}, {exc.filename}."
        finally:
            self._busy = False
            self._tell("", None)

    async def _run(self, command: Sequence[str]) -> str:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        assert process.stdout is not None and process.stderr is not None, "they are pipes"
        errors = asyncio.create_task(process.stderr.read())
        try:
            said = ""
            async for line in process.stdout:
                said = self._line(line.decode("utf-8", "replace").strip()) or said
            wrong = (await errors).decode("utf-8", "replace").strip()
            return one_sentence(wrong if await process.wait() else said)
        finally:
            errors.cancel()
            if process.returncode is None:
                process.terminate()

    def _line(self, line: str) -> str:
        """A line of JSON tells how far it is, any other is for the person."""
        if not line.startswith("{"):
            return line
        told = json.loads(line)
        self._tell(str(told["what"]), told.get("percent"))
        return ""


def one_sentence(said: str) -> str:
    """On one line, as it was before a terminal's width broke it; of a crash its last line."""
    lines = said.splitlines()
    whole = lines[-1:] if "Traceback" in said else lines
    kept = "".join(c if c.isprintable() else " " for c in " ".join(whole))
    return " ".join(kept.split())
