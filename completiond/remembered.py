"""The latest keys, as they are known so far: what is told of them later finds them here.

Knows rows and who asked; every change goes on to the writer of the record, if there is one.
Bounded, and forgotten when the daemon ends.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Protocol

from completiond.record.rows import Drafted, Key, Pass, Said
from completiond.record.stages import Course
from completiond.record.store import Full

KEPT = 4_096
"""Keys that are remembered: some ten minutes of one person's typing, and what they accepted."""
LATEST = 256
"""Of those, how many `summary` is about."""


class Sink(Protocol):
    """Who writes keys down. Never waits."""

    def put(self, number: int, state: Full) -> None: ...


@dataclass(slots=True, eq=False)
class Entry:
    """One key, and the moments of it that are not written down."""

    number: int
    client: bytes
    key: Key
    course: Course | None = None
    drafts: tuple[Drafted, ...] = ()
    passes: tuple[Pass, ...] = ()
    text: Said | None = None


class Remembered:
    """Keys by their number, and by who asked and with what id."""

    def __init__(self, sink: Sink | None = None, kept: int = KEPT) -> None:
        self._sink = sink
        self._kept = kept
        self._numbers = count(1)
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._asked: dict[tuple[bytes, int], Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, client: bytes, key: Key, course: Course | None = None) -> Entry:
        """A new key; `put` writes it down."""
        entry = Entry(next(self._numbers), client, key, course)
        self._entries[entry.number] = entry
        if key.request:
            self._asked[client, key.request] = entry
        while len(self._entries) > self._kept:
            _, old = self._entries.popitem(last=False)
            if self._asked.get((old.client, old.key.request)) is old:
                del self._asked[old.client, old.key.request]
        return entry

    def of(self, client: bytes, request: int) -> Entry | None:
        """What a client asked with that id."""
        return self._asked.get((client, request))

    def put(self, entry: Entry, **changes: Any) -> None:
        """Write it down as it is now; `changes` are fields of its key."""
        if changes:
            entry.key = replace(entry.key, **changes)
        if self._sink is not None:
            state = Full(entry.key, entry.drafts, entry.passes, entry.text)
            self._sink.put(entry.number, state)
        entry.text = None  # it does not change, and is large

    def find(self, client: bytes, request: int) -> Entry | None:
        """The client's key of that request id, else the newest that has it; 0: the newest of all
        that asked or were refused."""
        own = self._asked.get((client, request))
        return own or next((e for e in self._newest() if request in (0, e.key.request)), None)

    def summary(self) -> dict[str, int]:
        """How many of the latest ended how."""
        ended = (entry.key.why or entry.key.reason for entry in islice(self._newest(), LATEST))
        return dict(Counter(ended))

    def _newest(self) -> Iterator[Entry]:
        entries = (self._entries[number] for number in reversed(self._entries))
        return (entry for entry in entries if entry.key.request or entry.key.kind == "refused")
