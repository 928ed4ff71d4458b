"""Simple rules for the draft's length, to compare the planner with. They know no costs.

FixedK always drafts as much; SimpleRule is the rule of thumb that many write down: halve the length
while less than half is accepted, decode plainly below 0.3.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from completiond.core import Draft, Step
from completiond.drafters.tree import cut

HALVES, PLAIN = 0.5, 0.3
"""Accepted part of the drafts below which K is halved, and below which nothing is drafted."""
WINDOW = 8
"""Passes with drafts between two decisions."""
RETRY = 32
"""Passes without drafts until it is tried again: the rule itself does not say how."""
CLIENTS = 64


class FixedK:
    def __init__(self, k: int) -> None:
        self.name = f"fixed {k}"
        self._k = k

    def budget(self, client: str, source: str, most: int, beside: Sequence[Draft] = ()) -> int:
        return min(self._k, most)

    def choose(self, client: str, draft: Draft, rows: int) -> Draft:
        return draft if draft.q is not None else cut(draft, draft.probs, self._k)

    def observe(self, client: str, step: Step, spent_ms: Mapping[str, float]) -> None:
        pass  # nothing is learned


@dataclass(slots=True)
class _Window:
    k: int
    passes: int = 0
    drafted: int = 0
    accepted: int = 0
    plain: int = 0


class SimpleRule:
    name = "simple"

    def __init__(self, k: int = 8) -> None:
        self._k = k
        self._clients: OrderedDict[str, _Window] = OrderedDict()

    def budget(self, client: str, source: str, most: int, beside: Sequence[Draft] = ()) -> int:
        return min(self._window(client).k, most)

    def choose(self, client: str, draft: Draft, rows: int) -> Draft:
        k = self._window(client).k
        return draft if draft.q is not None else cut(draft, draft.probs, k)

    def observe(self, client: str, step: Step, spent_ms: Mapping[str, float]) -> None:
        window = self._window(client)
        if not window.k:
            window.plain += 1
            if window.plain >= RETRY:
                self._clients[client] = _Window(self._k)
        elif len(step.tree):
            window.passes += 1
            window.drafted += len(step.tree)
            window.accepted += sum(step.accepted.values())
            if window.passes >= WINDOW:
                rate = window.accepted / window.drafted
                self._clients[client] = _Window(self._next(window.k, rate))

    def _next(self, k: int, rate: float) -> int:
        if rate < PLAIN:
            return 0
        return max(1, k // 2) if rate < HALVES else min(self._k, 2 * k)

    def _window(self, client: str) -> _Window:
        held = self._clients.get(client)
        if held is None:
            held = self._clients[client] = _Window(self._k)
            if len(self._clients) > CLIENTS:
                self._clients.popitem(last=False)
        return held
