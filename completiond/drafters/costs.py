"""What a pass costs by its rows: measured at the start, corrected by every pass since.

Costs come in steps, so that points are kept, not a formula: between two of them lies a line, and
each width that is used becomes a point of its own. Knows rows and milliseconds only.
"""

from bisect import bisect_left
from collections.abc import Mapping

MOST_POINTS = 512
"""Widths up to this have points of their own."""
EACH, ALL = 0.03, 0.1
"""Share of a new time in its own width's cost, and in all costs: a longer text, a busy machine."""
WILD = 3.0
"""A pass that takes more than so many times what was expected was disturbed: it counts as this."""


class Costs:
    """`measured` are milliseconds by rows, of one width at least."""

    def __init__(self, measured: Mapping[int, float]) -> None:
        assert measured, "a cost table needs a point"
        self._points = dict(measured)
        self._rows = sorted(self._points)
        self._drift = 1.0

    def ms(self, rows: int) -> float:
        """Milliseconds of a pass of `rows`."""
        return self._drift * self._at(rows)

    def observe(self, rows: int, took_ms: float) -> None:
        """Learn from a pass of `rows` in all, whoever they belonged to."""
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
