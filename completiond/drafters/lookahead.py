"""Lookahead decoding (Fu et al., arXiv:2402.02057): guesses from the target's own parallel draws.

A window of columns, each a little ahead of the text, goes through the pass as branches of the
tree; what the target draws behind each column makes it one token longer. Finished columns are
n-grams of a pool, and those that begin with the text's last token are what is drafted.
"""

from collections import OrderedDict
from collections.abc import Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.tree import merge

COLUMNS, LEVELS = 4, 3
"""Columns of the window and tokens of each: a pass carries COLUMNS · LEVELS nodes for it."""
GUESSES = 4
"""N-grams of the pool that are drafted at most."""
POOL, PER_TOKEN = 4096, 8
"""N-grams of a client's pool, and of them with the same first token."""
CLIENTS, RUNS = 8, 16
HOLDS, LATER, WINDOW = 0.3, 0.6, 0.03
"""Chance of a pooled guess's first token, of each further one, and of a column's tokens."""


class Pool:
    """N-grams by their first token, the latest first; the oldest go."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._by_first: dict[int, list[tuple[int, ...]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def put(self, ngram: tuple[int, ...]) -> None:
        self._drop(ngram)
        same = self._by_first.setdefault(ngram[0], [])
        same.insert(0, ngram)
        self._held[ngram] = None
        if len(same) > PER_TOKEN:
            self._drop(same[-1])
        if len(self._held) > POOL:
            self._drop(next(iter(self._held)))

    def behind(self, token: int) -> list[tuple[int, ...]]:
        """What followed `token`, the latest first."""
        return [ngram[1:] for ngram in self._by_first.get(token, ())]

    def _drop(self, ngram: tuple[int, ...]) -> None:
        if ngram in self._held:
            del self._held[ngram]
            same = self._by_first[ngram[0]]
            same.remove(ngram)
            if not same:
                del self._by_first[ngram[0]]


class Window:
    """Token `levels[l][j]` is a guess for the place 1 + j + l behind the text's last token."""

    def __init__(self, seed: Sequence[int]) -> None:
        """Begins with tokens of the text: what they are matters little, they are drawn over."""
        self._seed, self._taken = list(seed), 0
        self.levels = [[self._any() for _ in range(COLUMNS)] for _ in range(LEVELS)]

    def paths(self) -> list[tuple[int, ...]]:
        """Of each column, the tokens from the text down to its last: first level, then its own."""
        first = self.levels[0]
        return [(*first[: j + 1], *(level[j] for level in self.levels[1:])) for j in range(COLUMNS)]

    def draft(self, source: str) -> Draft:
        """All columns as one tree."""
        chains = [_chain(path, source, WINDOW, 1.0) for path in self.paths()]
        return merge(chains, COLUMNS * LEVELS + COLUMNS * COLUMNS)

    def grow(self, drawn: Sequence[int | None], kept: int) -> list[tuple[int, ...]]:
        """Take what was drawn behind each column, and move on by `kept` tokens (1 or more).

        Gives the n-grams that are finished; None is a column that was not computed.
        """
        columns = list(zip(*self.levels, strict=True))
        done = [
            (*column, new) for column, new in zip(columns, drawn, strict=True) if new is not None
        ]
        top = [self._any() if new is None else new for new in drawn]
        levels = [*self.levels[1:], top]
        self.levels = [
            [*level[kept - 1 :], *(self._any() for _ in range(kept - 1))][-COLUMNS:]
            for level in levels
        ]
        return done

    def _any(self) -> int:
        self._taken += 1
        return self._seed[-1 - (7 * self._taken) % len(self._seed)]


class Lookahead:
    """Needs `Step.tree` and `Step.drawn`; without them it has nothing to learn from."""

    name = "lookahead"

    def __init__(self) -> None:
        self._pools: OrderedDict[str, Pool] = OrderedDict()
        self._windows: OrderedDict[tuple[str, str], Window] = OrderedDict()

    def propose(self, context: DraftContext, budget: int) -> Draft:
        """Guesses from the pool first, then the window if it fits whole."""
        if budget < 1 or not context.ids:
            return NO_DRAFT
        guesses = self._pool(context.client).behind(context.ids[-1])[:GUESSES]
        found = [_chain(guess, self.name, HOLDS, LATER) for guess in guesses]
        window = self._window(context).draft(self.name)
        whole = merge([*found, window], budget + 1)
        return whole if len(whole) <= budget else merge(found, budget)

    def observe(self, context: DraftContext, step: Step) -> None:
        key = (context.client, context.buffer)
        window = self._windows.get(key)
        if window is None or not step.ids:
            return
        behind = _draws(step.tree, step.drawn)
        for ngram in window.grow([behind.get(path) for path in window.paths()], len(step.ids)):
            self._pool(context.client).put(ngram)
        if step.reason:
            del self._windows[key]

    def _window(self, context: DraftContext) -> Window:
        key = (context.client, context.buffer)
        if key not in self._windows:
            self._windows[key] = Window(context.ids[-64:])
            if len(self._windows) > RUNS:
                self._windows.popitem(last=False)
        return self._windows[key]

    def _pool(self, client: str) -> Pool:
        held = self._pools.setdefault(client, Pool())
        self._pools.move_to_end(client)
        if len(self._pools) > CLIENTS:
            self._pools.popitem(last=False)
        return held


def _chain(ids: Sequence[int], source: str, first: float, later: float) -> Draft:
    n = len(ids)
    probs = tuple(first * later**i for i in range(n))
    return Draft(tuple(ids), tuple(range(-1, n - 1)), probs, (source,) * n)


def _draws(tree: Draft, drawn: Sequence[int]) -> dict[tuple[int, ...], int]:
    """What the target drew behind each path of the tree."""
    found: dict[tuple[int, ...], int] = {}
    paths: list[tuple[int, ...]] = []
    for node, (token, parent) in enumerate(zip(tree.ids, tree.parents, strict=True)):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
        if node + 1 < len(drawn):
            found[paths[-1]] = drawn[node + 1]
    return found
