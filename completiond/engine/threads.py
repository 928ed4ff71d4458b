"""How many threads a pass gets: all of them, or one while other programs use the cores.

Threads of a pass wait for one another, spinning; one that is kept from its core makes all of them
wait, and a pass can take fifty times as long. One thread waits for nobody. The numbers that come
out are the same. Knows times only; what a thread count does is somebody else's.
"""

import time
from collections.abc import Callable

SLOW = 3.0
"""Times the expected duration from which on a pass has been kept waiting."""
PATIENCE = 2
"""Slow passes in a row before all but one thread are given up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 60.0
"""How long one thread is kept before all are tried again; doubles while that fails."""


class Threads:
    """Chooses between `most` threads and one; `use` makes it so, `expected` is ms by rows."""

    def __init__(
        self,
        most: int,
        use: Callable[[int], None],
        expected: Callable[[int], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = most
        self._most = most
        self._use = use
        self._expected = expected
        self._clock = clock
        self._slow_passes = 0
        self._pause_s = FIRST_PAUSE_S
        self._since = clock()
        use(most)

    def observe(self, rows: int, took_ms: float) -> None:
        """Learn from a pass, and choose for the next one."""
        here_s = self._clock() - self._since
        if self.count < self._most:
            if here_s > self._pause_s:
                self._switch(self._most)
            return
        slow = took_ms > SLOW * self._expected(rows)
        self._slow_passes = self._slow_passes + 1 if slow else 0
        if self._most > 1 and self._slow_passes >= PATIENCE:
            if here_s > LONGEST_PAUSE_S:
                self._pause_s = FIRST_PAUSE_S  # it went well for long: this is a new disturbance
            self._switch(1)

    def _switch(self, count: int) -> None:
        if count == self._most:
            self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        self.count, self._slow_passes, self._since = count, 0, self._clock()
        self._use(count)
