"""Whether clients that wait are still there. Knows timers and one message that means nothing.

A socket does not say whose connection was lost, and a client that waits for its reply is sent
nothing by which that would show: so it is sent a ping.
"""

import asyncio
from collections.abc import Callable

PROBES_S = (0.02, 0.5)
"""When to look after a connection was lost: the news comes a moment before it can be seen."""


class Liveness:
    """`look` after each loss; losses that come together are looked at together."""

    def __init__(self, ping: Callable[[], None]) -> None:
        self._ping = ping
        self._timers: list[asyncio.TimerHandle] = []

    def look(self) -> None:
        if not self._timers:
            loop = asyncio.get_running_loop()
            self._timers = [loop.call_later(delay, self._due) for delay in PROBES_S]

    def stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _due(self) -> None:
        del self._timers[0]
        self._ping()
