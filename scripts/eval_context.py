"""Where an item's chunks of other files come from, by name; both sides are given the same ones.

`given` takes what the set itself holds: the chunks of a cross-file set, or of a trace's other open
files the window that shares most words with the text around the hole. `gather` is the product's own
retrieval, `gather-KIND` leaves out one kind of what it quotes, `early` looks a line earlier, and
`reversed` has the best piece last.
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from eval_gather import Places, early, gather
from infill_items import Item

from completiond_lsp.retrieval.gather import SHARES

WINDOW, STEP = 40, 20
"""Lines of a window, and between the beginnings of two."""
NEAR = 1500
"""Characters on each side of the hole that a window is compared with."""
MOST = 4

_WORD = re.compile(r"\w{3,}")


class Chunk(NamedTuple):
    """A piece of another file."""

    path: str
    language: str
    text: str


def given(item: Item, places: Places) -> list[Chunk]:
    """The chunks that the item's set holds, the best last: next to what they are for."""
    if "cross_file" in item.more:
        held = item.more["cross_file"][:MOST]
        return [Chunk(one["path"], item.language, one["text"]) for one in reversed(held)]
    if "trace" not in item.more:
        return []
    near = _words(item.prefix[-NEAR:] + item.suffix[:NEAR])
    found = [
        (*_best(text, near), path) for path, text in _open_files(places.data / item.more["trace"])
    ]
    found.sort()
    return [Chunk(path, item.language, text) for score, text, path in found[-MOST:] if score]


@cache
def _open_files(path: Path) -> list[tuple[str, str]]:
    trace = json.loads(path.read_text(encoding="utf-8"))
    return [(one["path"], one["text"]) for one in trace["other_open_files"]]


def _best(text: str, near: frozenset[str]) -> tuple[float, str]:
    """The window of `text` that is most like the words `near`, and how much it is."""
    lines = text.split("\n")
    starts = range(0, max(1, len(lines) - STEP), STEP)
    windows = ["\n".join(lines[at : at + WINDOW]) for at in starts]
    return max((_likeness(_words(window), near), window) for window in windows)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


Source = Callable[[Item, Places], Sequence[Any]]
SOURCES: dict[str, Source] = {
    "none": lambda item, places: (),
    "given": given,
    "gather": gather,
    "early": early,
    "reversed": lambda item, places: gather(item, places)[::-1],
    **{f"gather-{kind}": partial(gather, without=kind) for kind in SHARES},
}
