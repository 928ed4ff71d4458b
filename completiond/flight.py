"""One run and the moment of the buffer that it was made for: what of it still holds at a later one.

Knows snapshots, prompts and text; starts nothing.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from completiond.core import Snapshot
from completiond.engine.run import Run
from completiond.moments import same_around, since, typed_since
from completiond.prompt.builder import Built
from completiond.reuse import Answered, Answers


@dataclass(slots=True, eq=False)
class Flight:
    """A run, and the moment of the buffer that it was made for.

    `origin` is the moment whose text after the cursor its prompt ends with. `counts` is what the
    first use of its answer is counted as, `left` whether nobody waits for it now, and `kept` its
    answer, once it has come to its own end.
    """

    run: Run
    snapshot: Snapshot
    built: Built
    key: Hashable
    answers: Answers
    origin: Snapshot
    counts: str = ""
    left: bool = False
    kept: Answered | None = None


class Continued(NamedTuple):
    """What the next prompt takes over from the buffer's last one: the moment of its suffix, the
    text before its anchor, and closers in front of the suffix that belong to what was typed."""

    origin: Snapshot
    prefix: str | None = None
    closers: str = ""


def continued(flight: Flight | None, now: Snapshot) -> Continued:
    """What stays of the last prompt, where only what stands around the cursor has changed."""
    if flight is None:
        return Continued(now)
    found = since(flight.origin, now)
    if found is not None and not found.over:
        return Continued(flight.origin, flight.built.prefix, found.closers)
    if same_around(flight.origin, now):
        return Continued(now, flight.built.prefix)
    return Continued(now)


def typed_at(flight: Flight, now: Snapshot) -> str | None:
    """What was typed since the run was made; models write LF whatever the buffer's line ends."""
    typed = typed_since(flight.snapshot, now)
    return typed if typed is None else typed.replace("\r\n", "\n")


def on_its_way(ahead: Flight, now: Snapshot) -> bool:
    """Whether the buffer may still come to the moment that a run ahead was made for, or did."""
    after = typed_since(now, ahead.snapshot)
    return after is not None or typed_since(ahead.snapshot, now) is not None
