"""Where the time of one key went, from the moments that were noted of it. Arithmetic only.

A stage begins where the one before it ends, so stages add up; what an engine measured by a clock
of its own is cut to the time that there was.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

LONGEST_NS = 600 * 10**9
"""A key that takes longer is none: whoever tells of it is wrong."""
LONGEST_WAY_NS = 60 * 10**9
"""The same of a way between two processes, of a key that the bridge answered itself, and until an
answer is drawn."""
SLACK_NS = 1_000_000
TOLD = ("received", "sent", "answered", "replied", "drawn")
"""Moments of the bridge, in order; it may know only some."""


class Course(NamedTuple):
    """A request in the daemon, nanoseconds of its monotonic clock; 0 is "did not happen".

    `opened` is when its run was begun, be it for another request, `first` when its first tokens
    came, `answered` when the text of the answer was there. `queued`, `prefilled` and `decoded` are
    durations as the engine says them, None if it has not said them yet.
    """

    arrived: int
    replied: int
    answered: int = 0
    prompt: int = 0
    opened: int = 0
    first: int = 0
    queued: int | None = None
    prefilled: int | None = None
    decoded: int | None = None

    def stages(self) -> dict[str, int]:
        """From `lookup` to `finish`, microseconds."""
        answered = min(self.answered or self.replied, self.replied)
        if not self.opened:
            return _until(self.arrived, (("lookup", answered), ("finish", self.replied)))
        begun = max(self.arrived, min(self.opened, answered))
        built = max(self.arrived, begun - self.prompt) if self.opened > self.arrived else begun
        turn = self.opened + (self.queued or 0)
        known = turn + self.prefilled if self.prefilled is not None else answered
        first = max(begun, min(self.first or known, answered))
        started = max(begun, min(turn, first))
        computed = max(started, min(known, first))
        rest = answered - first
        decode = rest if self.decoded is None else min(rest, self.decoded)
        decoded = computed + decode
        return _until(
            self.arrived,
            (
                ("lookup", built),
                ("prompt", begun),
                ("queue", started),
                ("prefill", computed),
                ("decode", decoded),
                ("door", answered),
                ("finish", self.replied),
            ),
        )


class Join(NamedTuple):
    """The bridge's own stages beside the daemon's, microseconds; `clock` is None for one clock."""

    stages: dict[str, int]
    clock: int | None


class Clocks:
    """One client's clock beside ours, learnt from requests and replies.

    Clocks are one if all that we saw of a request lies between its sending and its answer. Else the
    quickest request of late says the offset, the way there and the way back being equally long.
    """

    LATE = 32

    def __init__(self) -> None:
        self._quickest: list[tuple[int, int]] = []  # (time on the way, offset), nanoseconds
        self._same = True

    def join(self, at: Mapping[str, int], arrived: int, replied: int) -> Join:
        """`at` has `sent`; without `answered` (a cancelled request) the way back is not known."""
        sent, answered = at["sent"], at.get("answered")
        before = at["sent"] - at["received"]
        if answered is None:
            there = arrived - sent if self._same else 0
            there = there if 0 <= there <= LONGEST_NS else 0  # another machine's clock
            return Join({"before": before // 1000, "there": there // 1000}, None)
        way = max(0, (answered - sent) - (replied - arrived))
        self._same = sent <= arrived and replied <= answered
        wrong = None if self._same else self._learn(way, (arrived - sent + replied - answered) // 2)
        offset = 0 if self._same else min(self._quickest)[1]
        there = min(way, max(0, arrived - sent - offset))
        told = (("before", sent), ("there", sent + there), ("back", sent + way))
        stages = _until(at["received"], told)
        if "replied" in at:
            stages["after"] = (at["replied"] - answered) // 1000
        return Join(stages, wrong)

    def ago_ns(self, moment: int, now: int) -> int:
        """How long ago a moment of the client's clock was, as far as that can be said."""
        if not self._same and not self._quickest:
            return 0
        offset = 0 if self._same else min(self._quickest)[1]
        ago = now - moment - offset
        return ago if 0 <= ago <= LONGEST_NS else 0

    def _learn(self, way: int, offset: int) -> int:
        self._quickest = [*self._quickest[1 - self.LATE :], (way, offset)]
        return min(self._quickest)[0] // 2000


def believed(at: Mapping[str, int]) -> dict[str, int]:
    """The moments that a client tells, if they are in order and no longer apart than a key lasts;
    else none."""
    found = {name: at[name] for name in TOLD if name in at}
    moments = list(found.values())
    if not moments or "received" not in found:
        return {}
    ordered = all(a <= b for a, b in zip(moments, moments[1:], strict=False))
    return found if ordered and moments[-1] - moments[0] <= LONGEST_NS else {}


def absurd(at: Mapping[str, int], arrived: int, replied: int, now: int) -> bool:
    """Whether the ways that a client's believed moments say cannot be: it tells of them at `now`,
    so an answer cannot have been on its way for longer than since the reply. On another clock the
    way there counts as much as the way back."""
    sent, answered = at["sent"], at.get("answered")
    if answered is None:
        return False
    way = (answered - sent) - (replied - arrived)
    if sent <= arrived and replied <= answered:
        return answered > now + SLACK_NS or arrived - sent > LONGEST_WAY_NS
    return way > 2 * min(now - replied, LONGEST_WAY_NS) + SLACK_NS


def _until(start: int, moments: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Microseconds of each stage by when it ended; rounding moments keeps the sum."""
    stages, at = {}, start // 1000
    for name, end in moments:
        stages[name] = max(0, end // 1000 - at)
        at = max(at, end // 1000)
    return stages
