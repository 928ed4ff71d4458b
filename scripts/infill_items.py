"""Holes in files, and what was there: the items of infill sets, read, sampled and spread out.

A set is a file of JSON lines; its fields beyond the common ones stay as they are in `more`.
"""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from completiond.core import Snapshot

LINE_KINDS = ("single-line", "line-rest")
"""Their answers are one line."""
BLOCK_KINDS = ("multi-line", "body", "safim-block")
"""Their answers are whole lines; those of all other kinds are a span that may end anywhere."""


class Item(NamedTuple):
    """A hole in a file: what is before and behind it, and what was there."""

    set: str
    id: str
    kind: str
    language: str
    prefix: str
    suffix: str
    middle: str
    more: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        return f"{self.set}/{self.id}"

    @property
    def group(self) -> str:
        """What it shares with other items: holes of one text are not independent of each other."""
        names = ("trace", "repository", "entry_point")
        return str(next((self.more[name] for name in names if name in self.more), self.key))

    @property
    def path(self) -> str:
        """Inside its repository; a hole in a trace has it behind the commit in `source` only."""
        if "trace" in self.more:
            return str(self.more["source"]).split()[1]
        return str(self.more.get("path", ""))

    def snapshot(self) -> Snapshot:
        """The buffer with the hole at its cursor."""
        return Snapshot.around(
            self.prefix + self.suffix,
            len(self.prefix),
            document=self.key,
            version=1,
            language=self.language,
            path=self.path,
        )


COMMON = ("id", "kind", "language", "prefix", "suffix", "middle")


def read_items(directory: Path, sets: Sequence[str] = ()) -> list[Item]:
    """The items of every set in `directory`, or of those named, by set and as they come."""
    found = []
    for path in sorted(directory.glob("*.jsonl")):
        if sets and path.stem not in sets:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            common = [fields.pop(name) for name in COMMON]
            found.append(Item(path.stem, *common, fields))
    if not found:
        wanted = f" of {', '.join(sets)}" if sets else ""
        raise SystemExit(f"{directory} holds no infill items{wanted}; name their place: --data")
    return found


def sample(items: Sequence[Item], count: int, seed: int = 1) -> list[Item]:
    """`count` of them (0: all), each language by its share, in an order that is mixed: so the
    beginning of a run that is cut off is a fair sample too."""
    shuffled = list(items)
    random.Random(seed).shuffle(shuffled)
    of_language: dict[str, list[Item]] = {}
    for item in shuffled:
        of_language.setdefault(item.language, []).append(item)
    placed = [
        ((rank + 0.5) / len(found), item)
        for found in of_language.values()
        for rank, item in enumerate(found)
    ]
    placed.sort(key=lambda pair: pair[0])
    return [item for _, item in placed][: count or None]


def spread_out(things: Sequence[Any], count: int) -> list[Any]:
    """`count` of them at equal distances, the same each time."""
    if not 0 < count < len(things):
        return list(things)
    return [things[i * len(things) // count] for i in range(count)]
