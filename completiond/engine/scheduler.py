"""Who goes into the next pass, and with how many rows.

Rows are the unit of cost: a pass holds as many as keep it within the time that a cancel may wait.
Every decoding run gets a turn; what rows are left go to runs that begin, their prompts and hints.
Clients share both evenly, however many buffers each has; among a client's own runs the newest
keystroke goes first. Runs that nobody asked for yet get what nobody else wants.
"""

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence as Ids

from completiond.engine.decode import Turn
from completiond.engine.sequence import Sequence

OLDEST_EVERY = 4
"""Each so many passes, a client's prefill rows go to its run that has waited longest."""
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


def plan(
    running: Ids[Sequence],
    rows: int,
    draft_rows: int,
    count: int,
    served: Mapping[str, int] | None = None,
) -> list[Turn]:
    """Turns for pass number `count` over at most `rows` rows.

    `draft_rows` is what all decoding runs together may spend, their own tokens included, and half
    of the pass at most while others begin. `served` says in which pass each client last had rows
    for a run that begins.
    """
    order = sorted(asked_for(running), key=newest_first)
    begins = [s for s in order if len(s.pending) > 1 or s.hinted]
    most = max(1, rows // 2 if begins else rows)
    decoding = _by_client([s for s in order if s not in begins], count, {})[:most]
    turns = [Turn(s, share) for s, share in _shares(decoding, min(most, draft_rows))]
    left = rows - sum(turn.rows for turn in turns)
    for sequence in _by_client(begins, count, served or {}):
        # A prompt's last chunk may carry drafts in the rows that it leaves: a hint as a whole.
        take = min(left, len(sequence.pending) + max(draft_rows - 1, sequence.hinted))
        if take < 1:
            break
        turns.append(Turn(sequence, take))
        left -= take
    return turns or [Turn(s, SMALLEST) for s in order[:1]]


def asked_for(running: Ids[Sequence]) -> Ids[Sequence]:
    """The runs that somebody asked for; only without any, those that were begun ahead."""
    return [s for s in running if not s.ahead] or running


def _shares(decoding: Ids[Sequence], rows: int) -> list[tuple[Sequence, int]]:
    """Rows for each decoding run, at least one: equal among clients, then among a client's runs."""
    runs = Counter(s.job.client for s in decoding)
    return [(s, max(1, rows // len(runs) // runs[s.job.client])) for s in decoding]


def _by_client(order: Ids[Sequence], count: int, served: Mapping[str, int]) -> list[Sequence]:
    """Clients take turns, the longest unserved first; `order` decides among a client's runs."""
    queues: dict[str, list[Sequence]] = {}
    for sequence in order:
        queues.setdefault(sequence.job.client, []).append(sequence)
    if count % OLDEST_EVERY == 0:
        for queue in queues.values():
            queue.sort(key=lambda s: -s.waited)
    in_turn = sorted(queues.values(), key=lambda queue: served.get(queue[0].job.client, -1))
    longest = max(map(len, in_turn), default=0)
    return [queue[n] for n in range(longest) for queue in in_turn if n < len(queue)]
