"""Who goes into the next pass, and with how many rows.

Rows are the unit of cost: a pass holds as many as keep it within the time that a cancel may wait.
Every decoding run gets a turn, newest keystroke first; what rows are left go to prefill.
"""

from collections.abc import Sequence as Ids

from completiond.engine.decode import Turn
from completiond.engine.sequence import Sequence

OLDEST_EVERY = 4
"""Each so many passes, prefill rows go to the run that has waited longest: nobody starves."""
SMALLEST, LARGEST = 8, 512
SHRINK, GROW = 0.85, 1.1


def newest_first(sequence: Sequence) -> tuple[int, float]:
    """Sort key: asked for by hand before as one types, then the newest keystroke."""
    return -sequence.job.priority, -sequence.arrived


class PassSize:
    """How many rows a pass may have, steered by what passes really take.

    Multiplicative in both directions, so that it follows a machine that others use too, and a
    context that grows.
    """

    def __init__(self, target_ms: float, rows: int) -> None:
        self.target_ms = target_ms
        self.rows = self._clamped(rows)

    def observe(self, rows: int, took_ms: float) -> None:
        """Learn from a pass of `rows`; a small pass says nothing about large ones unless slow."""
        if took_ms > self.target_ms:
            self.rows = self._clamped(min(self.rows, rows) * SHRINK)
        elif rows >= 0.9 * self.rows and took_ms < 0.8 * self.target_ms:
            self.rows = self._clamped(self.rows * GROW + 1)

    @staticmethod
    def _clamped(rows: float) -> int:
        return max(SMALLEST, min(LARGEST, int(rows)))


def plan(running: Ids[Sequence], rows: int, draft_rows: int, count: int) -> list[Turn]:
    """Turns for pass number `count` over at most `rows` rows (more only if many runs decode).

    `draft_rows` is what all decoding runs together may spend, their own tokens included.
    """
    order = sorted(running, key=newest_first)
    decoding = [s for s in order if len(s.pending) == 1]
    share = max(1, min(rows, draft_rows) // max(1, len(decoding)))
    turns = [Turn(s, share) for s in decoding[: max(1, rows)]]
    left = rows - share * len(turns)
    waiting = [s for s in order if len(s.pending) > 1]
    if count % OLDEST_EVERY == 0:
        waiting.sort(key=lambda s: -s.waited)
    for sequence in waiting:
        # A prompt's last chunk may carry drafts in the rows that it leaves.
        take = min(left, len(sequence.pending) + draft_rows - 1)
        if take < 1:
            break
        turns.append(Turn(sequence, take))
        left -= take
    return turns or [Turn(s, SMALLEST) for s in order[:1]]
