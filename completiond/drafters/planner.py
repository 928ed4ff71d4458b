"""How much is drafted and verified: the width that brings the most tokens per second.

Knows drafts, their chances and what passes cost; knows no tensors and no text. The tree may depend
on what drafters said before anything was sampled, never on a sampled token: sampled drafts are
sized by `budget` and not cut. Simpler policies stand beside it to be compared with (policies.py).
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.chances import Chances
from completiond.drafters.costs import Costs
from completiond.drafters.tree import cut, falling, forks, likeliest, merge, pick

CLIENTS = 64
"""Clients whose experience is kept, the longest idle dropped first."""
STARTS = 1.03
"""Behind a pass without drafts, drafts must promise so much more than none."""
TRIAL = 16
"""Passes that a source is judged by at the least."""
LOSES, WINS = -0.02, 0.02
"""A source is switched off and on again at this gain per pass, in plain passes."""
REMEMBERS = 0.96
"""Weight of the past in a source's gain."""
PROBE, PROBE_MOST, PROBING = 32, 512, 4
"""Passes until a source that lost is tried again, doubled each time; passes of such a try."""
DEAR = 0.02
"""A source that costs this part of a plain pass is judged, and its chains are sized by what a token
of them costs. Of cheaper ones only the width decides: they are verified where that pays."""
OWES, PAID_IN = 40, 64
"""Plain passes that a dear source may take to get ready, and drafts that pay for them: it reads a
prompt once, and drafts from then on."""
UNKNOWN = 0.6
"""Chance of a guess of a dear source of which nothing is known."""


class Policy(Protocol):
    """Decides what is asked of each drafter and how much of the tree is verified."""

    name: str

    def budget(self, client: str, source: str, most: int, beside: Sequence[Draft] = ()) -> int:
        """Nodes to ask `source` for, `most` at most, where others found `beside`; 0: do not."""

    def choose(self, client: str, draft: Draft, rows: int) -> Draft:
        """The part of `draft` to verify in a pass that has `rows` without it."""

    def observe(self, client: str, step: Step, spent_ms: Mapping[str, float]) -> None:
        """What a pass kept of `step.tree`, and what each source that was asked had cost."""


@dataclass(slots=True)
class _Source:
    """What one source brought: gain per pass, in milliseconds, and whether it is asked.

    `owed` are milliseconds in which it drafted nothing, as a model that still reads the prompt.
    """

    gain: float = 0.0
    asked: int = 0
    pass_ms: float = 0.0
    token_ms: float = 0.0
    owed: float = 0.0
    off: bool = False
    wait: int = PROBE
    idle: int = 0


@dataclass(slots=True)
class _Client:
    chances: Chances = field(default_factory=Chances)
    sources: dict[str, _Source] = field(default_factory=dict)
    drafting: bool = True


class Planner:
    name = "auto"

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    def budget(self, client: str, source: str, most: int, beside: Sequence[Draft] = ()) -> int:
        """Call it once a pass for each source: a source that is off counts these calls."""
        state = self._client(client)
        known = state.sources.get(source)
        if known is None or most < 1:
            return max(0, most)
        if known.off:
            known.idle += 1
            return most if known.idle > known.wait else 0
        if self._dear(known):
            rate, length = self._length(state.chances, source, known.token_ms, most)
            return length if rate > self._rate(state.chances, beside, most) else 0
        return most

    def choose(self, client: str, draft: Draft, rows: int) -> Draft:
        """The beginning of the sorted tree that brings the most tokens per millisecond."""
        state = self._client(client)
        if draft.q is not None or not len(draft):
            return draft
        paths = state.chances.of(draft)
        plain = 1 / self.costs.ms(rows)
        whole = cut(draft, paths, len(draft))
        held = sorted(falling(draft.parents, paths), reverse=True)
        ways = [(whole, held)]
        if forks(whole.parents):
            path = likeliest(whole)  # branches cost more than rows: without them may be better
            ways.append((pick(whole, path), [held[i] for i in path]))
        best, chosen, width = plain, NO_DRAFT, 0
        for tree, chances in ways:
            rate, count = self._widest(tree, chances, rows)
            if rate > best:
                best, chosen, width = rate, tree, count
        if not state.drafting and best < STARTS * plain:
            width = 0
        state.drafting = width > 0
        if not width:
            state.chances.forget(draft)  # else what lost once would never be tried again
        return pick(chosen, range(width)) if width else NO_DRAFT

    def _widest(self, tree: Draft, chances: Sequence[float], rows: int) -> tuple[float, int]:
        """(tokens per millisecond, nodes) of the best beginning of a sorted tree."""
        best, width, tokens, parents, forked = 0.0, 0, 1.0, set[int](), 0
        for count, (parent, chance) in enumerate(zip(tree.parents, chances, strict=True), 1):
            tokens += chance
            forked += parent in parents
            parents.add(parent)
            rate = tokens / self.costs.ms(rows + count, forked)
            if rate > best:
                best, width = rate, count
        return best, width

    def observe(self, client: str, step: Step, spent_ms: Mapping[str, float]) -> None:
        state, tree = self._client(client), step.tree
        if not step.ids:
            return
        state.chances.observe(tree, step.ids)
        base = max(1, step.rows - len(tree))
        verify = self.costs.ms(base + len(tree)) - self.costs.ms(base)
        for source in {*spent_ms, *tree.sources}:
            drafted, accepted = step.drafted.get(source, 0), step.accepted.get(source, 0)
            cost = spent_ms.get(source, 0.0)
            share = verify * drafted / len(tree) if len(tree) else 0.0
            known = state.sources.setdefault(source, _Source())
            known.asked += 1
            known.pass_ms = _mean(known.pass_ms, cost, known.asked)
            if drafted:
                known.token_ms = _mean(known.token_ms, cost / drafted, known.asked)
            if self._dear(known):
                charged = self._charged(known, cost, drafted) + share
                self._judge(known, accepted * self.costs.ms(1) - charged)

    def _charged(self, source: _Source, cost: float, drafted: int) -> float:
        """What a pass bears of a source's time: of that without drafts each its part, later."""
        if not drafted and source.owed < OWES * self.costs.ms(1):
            source.owed += cost
            return 0.0
        due = source.owed / PAID_IN
        source.owed -= due
        return cost + due

    def _judge(self, source: _Source, gain: float) -> None:
        """Switch a source by its gain so far; one that is off is being tried."""
        source.gain = _mean(source.gain, gain, source.asked)
        plain = self.costs.ms(1)
        if not source.off and source.asked >= TRIAL and source.gain < LOSES * plain:
            source.off, source.idle, source.asked, source.gain = True, 0, 0, 0.0
        elif source.off and source.asked >= PROBING:
            won = source.gain > WINS * plain
            source.wait = PROBE if won else min(PROBE_MOST, 2 * source.wait)
            source.off, source.idle, source.asked = not won, 0, 0

    def _dear(self, source: _Source) -> bool:
        return source.pass_ms > DEAR * self.costs.ms(1)

    def _rate(self, chances: Chances, drafts: Sequence[Draft], most: int) -> float:
        """Tokens per millisecond with the best part of `drafts`; 0 without any."""
        whole = merge(drafts, most) if drafts else NO_DRAFT
        paths = chances.of(whole)
        tree = cut(whole, paths, len(whole))
        return self._widest(tree, sorted(falling(whole.parents, paths), reverse=True), 1)[0]

    def _length(
        self, chances: Chances, source: str, token_ms: float, most: int
    ) -> tuple[float, int]:
        """(tokens per millisecond, tokens) of the chain that pays, each costing `token_ms`."""
        best, length, tokens, path = 0.0, 1, 1.0, 1.0
        for count in range(1, most + 1):
            path *= chances.holds(source, count - 1, UNKNOWN)
            tokens += path
            rate = tokens / (self.costs.ms(1 + count) + count * token_ms)
            if rate > best:
                best, length = rate, count
        chances.doubt(source, length)  # what is not asked for must not look bad for ever
        return best, length

    def _client(self, name: str) -> _Client:
        held = self._clients.get(name)
        if held is None:
            held = self._clients[name] = _Client()
            if len(self._clients) > CLIENTS:
                self._clients.popitem(last=False)
        else:
            self._clients.move_to_end(name)
        return held


def _mean(held: float, new: float, count: int) -> float:
    """The mean of the first few, later one in which the past fades."""
    return held + max(1 - REMEMBERS, 1 / count) * (new - held)
