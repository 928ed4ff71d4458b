"""The time of day: for dates in the record only. It may jump; nothing is timed by it."""

import time


def now_ms() -> int:
    """Milliseconds of unix time."""
    return time.time_ns() // 1_000_000
