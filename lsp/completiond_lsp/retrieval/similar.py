"""Windows of other texts that look like the lines at a cursor. Knows words; ranks one per text.

A text is cut into blocks once and kept cut; an edit costs the cutting of that one text.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from completiond_lsp.retrieval.sources import Piece, Question, Source
from completiond_lsp.retrieval.words import Words, words

BLOCK = 10
"""Lines; a window is two blocks."""
NEAR = (16, 4)
"""Lines before and after the cursor that a window should look like."""
LEAST = 0.04
"""Likeness of a window that is worth its place."""
NONE: Words = frozenset()
PER_TEXT = 3
MAX_BLOCKS = 4_096
"""Blocks that are kept cut, of all texts together: some 10 MiB."""


class Block(NamedTuple):
    """`window`: how many words it has together with the next one."""

    first: int
    words: Words
    window: int


class Found(NamedTuple):
    score: float
    piece: Piece


class Similar:
    """Texts cut into blocks, the latest used last, under a bound."""

    def __init__(self, limit: int = MAX_BLOCKS) -> None:
        self._limit = limit
        self._count = 0
        self._cut: OrderedDict[str, tuple[Source, list[Block]]] = OrderedDict()

    def find(self, question: Question, sources: Iterable[Source], most: int) -> list[Found]:
        """The best windows: first the best one of each text, then what else looks alike."""
        wanted = words(_near(question))
        firsts: list[Found] = []
        others: list[Found] = []
        for source in sources if wanted else ():
            found = self._windows(wanted, source)
            firsts += found[:1]
            others += found[1:PER_TEXT]
        return [*sorted(firsts, key=_by_score), *sorted(others, key=_by_score)][:most]

    def _windows(self, wanted: Words, source: Source) -> list[Found]:
        """The windows of one text that are like enough and do not overlap, best first."""
        blocks = self._blocks(source)
        common = [wanted & block.words for block in blocks]
        scored: list[tuple[float, int]] = []
        for i, (first, second) in enumerate(pairwise([*common, NONE])):
            both = len(first | second)
            if both:
                score = both / (len(wanted) + blocks[i].window - both)
                if score >= LEAST:
                    scored.append((-score, i))
        found: list[Found] = []
        taken: set[int] = set()
        for score, i in sorted(scored):
            if not taken & {i - 1, i, i + 1}:
                taken.add(i)
                found.append(Found(-score, _window(source, blocks[i].first)))
            if len(found) == PER_TEXT:
                break
        return found

    def _blocks(self, source: Source) -> list[Block]:
        cut = self._cut.get(source.path)
        if cut is not None and (cut[0] is source or cut[0].text == source.text):
            self._cut.move_to_end(source.path)
            return cut[1]
        if cut is not None:
            self._count -= len(self._cut.pop(source.path)[1])
        blocks = _cut(source.lines)
        self._cut[source.path] = source, blocks
        self._count += len(blocks)
        while self._count > self._limit and len(self._cut) > 1:
            self._count -= len(self._cut.popitem(last=False)[1][1])
        return blocks


def _cut(lines: list[str]) -> list[Block]:
    starts = range(0, len(lines), BLOCK)
    said = [words("\n".join(lines[at : at + BLOCK])) for at in starts]
    pairs = pairwise([*said, NONE])
    return [
        Block(at, one, len(one | other)) for at, (one, other) in zip(starts, pairs, strict=True)
    ]


def _by_score(found: Found) -> float:
    return -found.score


def _near(question: Question) -> str:
    lines = question.text.split("\n")
    before, after = NEAR
    return "\n".join(lines[max(0, question.line - before) : question.line + 1 + after])


def _window(source: Source, first: int) -> Piece:
    lines = source.lines
    last = min(len(lines), first + 2 * BLOCK)
    text = "\n".join(lines[first:last])
    return Piece("similar", source.path, source.language, first, last, text)
