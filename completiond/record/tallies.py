"""What a key adds to the sums of its hour, its day and its week: then a million keys need not be
read to count them.

A pure function of the row: when a row changes, what it added before is taken off and what it adds
now is put on. Knows rows; knows no SQL.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from completiond.record.rows import RETAINED_S, STAGES, Drafted, Key
from completiond.record.spread import bucket

HOUR_MS = 3_600_000
SPANS = (1, 24, 168)
"""Hours, days and weeks: the lengths of time that have sums, in hours."""
INSIDE = ("lookup", "prompt", "queue", "prefill", "decode", "door", "finish")
"""Stages between the daemon's receipt of a request and its reply."""
MEASURED = (*STAGES, "total", "daemon", "text", "drawn", "free")
"""What durations are kept of: the stages, sums of them, and moments beside them."""


class Added(NamedTuple):
    """Counts by name, and durations by (stage, bucket)."""

    sums: Counter[str]
    spread: Counter[tuple[str, int]]


def added(key: Key, drafts: Sequence[Drafted] = ()) -> Added:
    """What this key adds. A `warm` one is no key: nobody waited for it."""
    if key.kind == "warm":
        return Added(Counter(), Counter())
    spread = Counter((stage, bucket(us)) for stage, us in durations(key).items())
    return Added(_sums(key, drafts), spread)


def durations(key: Key) -> dict[str, int]:
    """Everything of the key that took time, by its name in MEASURED."""
    found = key.stages
    inside = [found[stage] for stage in INSIDE if stage in found]
    beside = {
        "total": key.total_us,
        "daemon": sum(inside) if inside else None,
        "text": key.text_us,
        "drawn": key.drawn_us,
        "free": key.free_us,
    }
    return found | {name: us for name, us in beside.items() if us is not None}


def _sums(key: Key, drafts: Sequence[Drafted]) -> Counter[str]:
    # An answer that was cut off by the clock and shown all the same is an answer.
    late_but_shown = key.reason == "timeout" and key.shown
    reason = "ok" if late_but_shown else key.why or key.reason
    sums = Counter({"keys": 1, f"kind {key.kind}": 1, f"reason {reason}": 1})
    if key.outcome:
        sums += Counter({"answers": 1, f"outcome {key.outcome}": 1})
        sums["shown characters"] += key.shown
        sums["taken characters"] += key.taken or 0
    for name in ("generated", "passes", "wrote", "prompt", "prefilled", "reused"):
        sums[name] += getattr(key, name)
    for seconds in RETAINED_S:
        left = getattr(key, f"kept_{seconds}")
        if left is not None:
            sums[f"left {seconds}"] += left
            sums[f"left {seconds} of"] += key.taken or 0
    for source, drafted, held in drafts:
        sums[f"drafted {source}"] += drafted
        sums[f"held {source}"] += held
    return sums
