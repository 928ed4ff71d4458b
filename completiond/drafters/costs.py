"""What a pass costs by its rows: measured at the start, corrected by every pass since.

Costs come in steps, so that points are kept, not a formula: between two of them lies a line, and
each width that is used becomes a point of its own. Knows rows and milliseconds only.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

MOST_POINTS = 512
"""Widths up to this have points of their own."""
EACH, ALL = 0.03, 0.1
"""Share of a new time in its own width's cost, and in all costs: a longer text, a busy machine."""
GUESSED = 512
"""Rows up to which `rows_within` looks."""
WILD = 3.0
"""A pass that takes more than so many times what was expected was disturbed: it counts as this."""


class Costs:
    """`measured` are milliseconds by rows, of one width at least; `fork_ms` is what each branch of
    a tree beyond the first adds."""

    def __init__(self, measured: Mapping[int, float], fork_ms: float = 0.0) -> None:
        assert measured, "a cost table needs a point"
        self.fork_ms = fork_ms
        self._points = dict(measured)
        self._rows = sorted(self._points)
        self._drift = 1.0

    def ms(self, rows: int, forks: int = 0) -> float:
        """Milliseconds of a pass of `rows` in trees with so many branches beyond their first."""
        return self._drift * (self._at(rows) + forks * self.fork_ms)

    def rows_within(self, ms: float) -> int:
        """Rows of the widest pass that takes no longer than `ms`; 1 at the least."""
        return bisect_right(range(1, GUESSED + 1), ms, key=self.ms) or 1

    def observe(self, rows: int, took_ms: float, forks: int = 0) -> None:
        """Learn from a pass of `rows` in all, whoever they belonged to."""
        took_ms -= self._drift * forks * self.fork_ms
        if took_ms <= 0 or rows < 1:
            return
        expected = self._at(rows)
        ratio = min(WILD, max(1 / WILD, took_ms / (self._drift * expected)))
        took = ratio * expected  # at the drift of now
        self._drift *= 1 + ALL * (ratio - 1)
        if rows <= MOST_POINTS:
            if rows not in self._points:
                self._rows.insert(bisect_left(self._rows, rows), rows)
            self._points[rows] = expected + EACH * (took - expected)

    def _at(self, rows: int) -> float:
        """On the line through the points around `rows`; beyond the last it goes on."""
        known, points = self._rows, self._points
        place = bisect_left(known, rows)
        if place < len(known) and known[place] == rows:
            return points[rows]
        if place == 0:
            return points[known[0]]
        if place == len(known):
            if place == 1:
                return points[known[0]]
            place -= 1
        few, many = known[place - 1], known[place]
        slope = (points[many] - points[few]) / (many - few)
        if rows > many:
            return points[many] + max(0.0, slope) * (rows - many)
        return points[few] + slope * (rows - few)
