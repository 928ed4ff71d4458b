"""What the extension's log says of LSP: requests, replies, errors. Reads text only."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEAD = re.compile(r"^(\d{4}-\d\d-\d\d [\d:.]+) \[(\w+)\] (.*)$")
_MESSAGE = re.compile(
    r"^(Sending|Received) (request|response|notification) '(\S+?)(?: - \((\d+)\))?'"
)


@dataclass(slots=True)
class Entry:
    """One record: when, how bad, its first line, and the lines below it."""

    at: str
    level: str
    head: str
    body: str = ""

    @property
    def message(self) -> tuple[str, str, str, str] | None:
        """Direction, kind, method and id, if it tells of a message."""
        found = _MESSAGE.match(self.head)
        return (found[1], found[2], found[3], found[4] or "") if found else None

    @property
    def took_ms(self) -> float:
        """Between a request and this response."""
        found = re.search(r" in (\d+)ms", self.head)
        return float(found[1]) if found else 0.0

    @property
    def content(self) -> Any:
        """Parameters or result of a message."""
        _, _, text = self.body.partition(": ")
        return json.loads(text) if text.strip() else None


class Log:
    """The records of files that grow, in the order in which they were found."""

    def __init__(self) -> None:
        self._found: list[Entry] = []
        self._read: dict[Path, int] = {}
        self._last: dict[Path, Entry] = {}

    def entries(self, files: Iterable[Path]) -> list[Entry]:
        """All so far: those that are new come last, whatever file they are of."""
        for file in files:
            with file.open("rb") as source:
                source.seek(self._read.get(file, 0))
                text = source.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[file] = self._read.get(file, 0) + len(whole)
            for line in whole.decode().split("\n")[:-1]:
                self._take(file, line)
        return list(self._found)

    def _take(self, file: Path, line: str) -> None:
        head = _HEAD.match(line)
        if head:
            self._last[file] = Entry(*head.groups())
            self._found.append(self._last[file])
        elif file in self._last:
            self._last[file].body += line + "\n"


def entries(files: Iterable[Path]) -> list[Entry]:
    return Log().entries(files)


def messages(log: list[Entry], direction: str, kind: str, method: str) -> list[Entry]:
    wanted = (direction, kind, method)
    return [entry for entry in log if entry.message and entry.message[:3] == wanted]


def complaints(log: list[Entry]) -> list[str]:
    """Everything that is worse than information."""
    return [entry.head for entry in log if entry.level in ("warning", "warn", "error", "critical")]


def replies(log: list[Entry], method: str) -> dict[str, int]:
    """How many replies each request of this method has got."""
    asked = [entry.message for entry in messages(log, "Sending", "request", method)]
    got = [entry.message for entry in messages(log, "Received", "response", method)]
    return {ask[3]: sum(reply[3] == ask[3] for reply in got if reply) for ask in asked if ask}
