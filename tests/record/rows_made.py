"""Keys for tests of the record."""

import time
from typing import Any

from completiond.record.rows import Drafted, Key, Served
from completiond.record.store import Full

NOW_MS = time.time_ns() // 1_000_000
DAEMON = Served(0, NOW_MS, 7, "0.1", "a model", {"device": "cpu"})
DRAFTS = (Drafted("suffix", 12, 5), Drafted("lookup", 4, 0))


def key(**more: Any) -> Key:
    """One that a run answered."""
    same: dict[str, Any] = {
        "at_ms": NOW_MS,
        "language": "python",
        "editor": "an editor",
        "model": "a model",
        "path": "src/a.py",
        "kind": "model",
        "reason": "ok",
        "outcome": "shown",
        "candidates": 1,
        "shown": 20,
        "before_us": 300,
        "there_us": 200,
        "lookup_us": 100,
        "prefill_us": 30_000,
        "decode_us": 60_000,
        "back_us": 250,
        "total_us": 90_850,
        "generated": 18,
        "passes": 9,
        "wrote": 6,
        "prompt": 1000,
        "prefilled": 30,
        "drafted": 16,
        "held": 5,
        "details": {"ended": ["eos"]},
    }
    return Key(**(same | more))


def full(**more: Any) -> Full:
    return Full(key(**more), DRAFTS)
