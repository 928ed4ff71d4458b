"""What drafts bring: counts by source and depth, tokens a pass, seconds beside plain decoding.

Arithmetic on runs that others made, and nothing else; `as_json` is the shape that is written.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from completiond.core import Step
from completiond.drafters.tree import depths, tried
from completiond.measure.lab import PLAIN
from completiond.measure.passes import Ran

DEPTHS = 16
"""Deepest place of a draft that is told apart."""


@dataclass(slots=True)
class Source:
    """What one source drafted in one arm. `at` and `held` are by depth: decided on, and kept."""

    drafted: int = 0
    accepted: int = 0
    passes: int = 0
    at: Counter[int] = field(default_factory=Counter)
    held: Counter[int] = field(default_factory=Counter)

    def hazard(self) -> list[float | None]:
        """Of the nodes at each depth whose parents were kept, the share that was kept too."""
        deepest = max(self.at, default=-1)
        return [
            self.held[depth] / self.at[depth] if self.at[depth] else None
            for depth in range(deepest + 1)
        ]


@dataclass(slots=True)
class Way:
    """Everything that one arm did, spot by spot."""

    name: str
    tokens: int = 0
    passes: int = 0
    other: int = 0
    seconds: list[float] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def tokens_per_second(self) -> float:
        spent = sum(self.seconds)
        return self.tokens / spent if spent else 0.0

    def coverage(self, source: str) -> float:
        """The share of all passes in which the source had something to propose."""
        return self.sources[source].passes / self.passes if self.passes else 0.0

    def add(self, ran: Ran, plain: Ran) -> None:
        self.tokens += len(ran.ids)
        self.passes += len(ran.steps)
        self.other += ran.ids != plain.ids
        self.seconds.append(ran.seconds)
        for step in ran.steps:
            self._count(step)

    def _count(self, step: Step) -> None:
        for name, drafted in step.drafted.items():
            source = self.sources.setdefault(name, Source())
            source.drafted += drafted
            source.accepted += step.accepted.get(name, 0)
            source.passes += drafted > 0
        depth = depths(step.tree)
        for node, kept in tried(step.tree, step.ids):
            source = self.sources.setdefault(step.tree.sources[node], Source())
            place = min(depth[node], DEPTHS - 1)
            source.at[place] += 1
            source.held[place] += kept


class Account:
    """Ways by name; each spot adds one run to every one of them, so that pairs are comparable."""

    def __init__(self) -> None:
        self.ways: dict[str, Way] = {}
        self.spots = 0

    def add(self, runs: dict[str, Ran]) -> None:
        """The runs of one spot by arm, plain decoding among them."""
        self.spots += 1
        for name, ran in runs.items():
            self.ways.setdefault(name, Way(name)).add(ran, runs[PLAIN])

    def speeds(self, name: str) -> list[float]:
        """How many times as fast as plain decoding, spot by spot."""
        pairs = zip(self.ways[PLAIN].seconds, self.ways[name].seconds, strict=True)
        return [plain / other for plain, other in pairs if other]

    def speed(self, name: str) -> float:
        """The same over the whole run: long answers count more, as they do for a person."""
        spent = sum(self.ways[name].seconds)
        return sum(self.ways[PLAIN].seconds) / spent if spent else 0.0

    def as_json(self) -> dict[str, Any]:
        return {"spots": self.spots} | {
            "tokens_per_pass": {n: round(w.tokens_per_pass, 3) for n, w in self.ways.items()},
            "tokens_per_second": {n: round(w.tokens_per_second, 1) for n, w in self.ways.items()},
            "speedup_vs_plain": {name: round(self.speed(name), 3) for name in self.ways},
            "speedup_quartiles": {name: quartiles(self.speeds(name)) for name in self.ways},
            "mismatches": sum(way.other for way in self.ways.values()),
            "ways": {name: _way(way) for name, way in self.ways.items() if name != PLAIN},
        }


def _way(way: Way) -> dict[str, Any]:
    return {
        "tokens": way.tokens,
        "passes": way.passes,
        "mismatches": way.other,
        "sources": {
            name: {
                "drafted": source.drafted,
                "accepted": source.accepted,
                "coverage": round(way.coverage(name), 4),
                "hazard": [None if h is None else round(h, 4) for h in source.hazard()],
                "decided": [source.at[depth] for depth in range(len(source.hazard()))],
            }
            for name, source in way.sources.items()
        },
    }


def quartiles(values: Sequence[float]) -> list[float]:
    """First quartile, median, third quartile; of one value three times itself."""
    if len(values) < 2:
        return [round(value, 3) for value in values] * 3
    return [round(value, 3) for value in statistics.quantiles(values, n=4, method="inclusive")]
