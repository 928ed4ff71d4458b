"""How often guesses hold: what drafters say of their chances, corrected by what the target kept.

One cell per source, length of the match and depth. A cell compares what was promised with what
held, so that differences between guesses of one cell are kept; until it has seen enough, it is
corrected like the depth above it, which is tried more often. Old passes fade.
"""

from typing import NamedTuple

from completiond.core import Draft
from completiond.drafters.tree import depths, matched_of, tried

FADES = 0.98
"""Weight of a cell's past at each new outcome: some fifty outcomes are remembered."""
FORGETS = 0.995
"""The same for each pass in which a guess was not tried."""
PRIOR = 4.0
"""Outcomes that a drafter's own word counts for."""
LEAST, MOST = 0.005, 0.995
_LENGTH_OF = (0, 1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6)
_DEPTH_OF = (0, 1, 2, 2, 3, 3, 3, 3, 4)
"""The cell of a match of so many tokens, and of a depth; beyond the last it is the last one's."""
MOST_SOURCES = 32
"""Names beyond these share a cell: state stays bounded whatever drafters are called."""

Cell = tuple[str, int, int]


class _Record(NamedTuple):
    """Faded sums over tried guesses: those that held, what was promised, how many there were."""

    held: float = 0.0
    promised: float = 0.0
    tried: float = 0.0

    def plus(self, held: bool, promised: float) -> "_Record":
        return _Record(
            FADES * self.held + held, FADES * self.promised + promised, FADES * self.tried + 1
        )

    def faded(self) -> "_Record":
        return _Record(*(FORGETS * part for part in self))


class Chances:
    def __init__(self) -> None:
        self._cells: dict[Cell, _Record] = {}
        self._by_depth: dict[tuple[str, int], _Record] = {}
        self._names: set[str] = set()

    def __len__(self) -> int:
        return len(self._cells)

    def of(self, draft: Draft) -> list[float]:
        """Corrected probability of the path down to each node."""
        paths: list[float] = []
        for node, (parent, depth) in enumerate(zip(draft.parents, depths(draft), strict=True)):
            chance = _said(draft, node) * self._correction(*self._cell(draft, node, depth))
            chance = min(MOST, max(LEAST, chance))
            paths.append(chance * (paths[parent] if parent >= 0 else 1.0))
        return paths

    def observe(self, draft: Draft, ids: tuple[int, ...]) -> None:
        """Learn from the nodes that a pass decided on when it committed `ids`."""
        levels = depths(draft)
        for node, held in tried(draft, ids):
            cell = self._cell(draft, node, levels[node])
            said = _said(draft, node)
            self._cells[cell] = self._cells.get(cell, _Record()).plus(held, said)
            level = (cell[0], cell[2])
            self._by_depth[level] = self._by_depth.get(level, _Record()).plus(held, said)

    def forget(self, draft: Draft) -> None:
        """Trust the past of these guesses a little less: they were not tried again."""
        for cell in {self._cell(draft, n, d) for n, d in enumerate(depths(draft))}:
            if cell in self._cells:
                self._cells[cell] = self._cells[cell].faded()

    def doubt(self, source: str, depth: int) -> None:
        """Trust `holds` at a depth a little less: no guess was asked for there."""
        level = (self._name(source), _DEPTH_OF[min(depth, 8)])
        if level in self._by_depth:
            self._by_depth[level] = self._by_depth[level].faded()

    def holds(self, source: str, depth: int, unknown: float) -> float:
        """How often a guess of `source` holds at `depth`; `unknown` counts as the first few."""
        level = self._by_depth.get((self._name(source), _DEPTH_OF[min(depth, 8)]), _Record())
        return (level.held + PRIOR * unknown) / (level.tried + PRIOR)

    def _correction(self, source: str, length: int, depth: int) -> float:
        """What a promise of this cell is multiplied with."""
        factor = 1.0
        for level in range(depth + 1):
            cell = self._cells.get((source, length, level))
            if cell is not None:
                factor = (cell.held + PRIOR * factor) / (cell.promised + PRIOR)
        return factor

    def _cell(self, draft: Draft, node: int, depth: int) -> Cell:
        length = _LENGTH_OF[min(matched_of(draft, node), 16)]
        return self._name(draft.sources[node]), length, _DEPTH_OF[min(depth, 8)]

    def _name(self, source: str) -> str:
        if source not in self._names and len(self._names) >= MOST_SOURCES:
            return ""
        self._names.add(source)
        return source


def _said(draft: Draft, node: int) -> float:
    """The drafter's own chance of a node once the one above it held."""
    parent = draft.parents[node]
    above = draft.probs[parent] if parent >= 0 else 1.0
    return min(MOST, max(LEAST, draft.probs[node] / above)) if above > 0 else LEAST
