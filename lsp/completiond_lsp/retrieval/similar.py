"""Windows of other texts that look like the lines at a cursor. Knows words; ranks one per text.

A text is cut into blocks once and kept cut; an edit costs the cutting of that one text.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from completiond_lsp.retrieval.kept import Kept
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
MAX_BYTES = 48 << 20
"""Of all texts that are kept cut, about."""
WORD_BYTES = 120
"""Of a word and its place in a dictionary; its bits come on top."""


class Cut(NamedTuple):
    """A text in blocks: of each word the windows that have it, as bits from the first one on, and
    how many words each window has. A window is a block and the next one."""

    having: Mapping[str, int]
    sizes: Sequence[int]

    @property
    def bytes(self) -> int:
        """About how much it holds."""
        return len(self.having) * (WORD_BYTES + len(self.sizes) // 8) + 8 * len(self.sizes)


class Found(NamedTuple):
    """The window of `source` that begins at line `first`."""

    score: float
    source: Source
    first: int

    @property
    def piece(self) -> Piece:
        lines = self.source.lines
        last = min(len(lines), self.first + 2 * BLOCK)
        text = "\n".join(lines[self.first : last])
        return Piece("similar", self.source.path, self.source.language, self.first, last, text)


class Similar:
    """Texts cut into blocks, and the windows of them that look like something."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        """`limit`: bytes."""
        self._cuts = Kept(_cut, cost=lambda cut: cut.bytes, most=limit)

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
        cut = self._cuts.of(source)
        scored: list[tuple[float, int]] = []
        for i, both in enumerate(_common(wanted, cut)):
            if both:
                score = both / (len(wanted) + cut.sizes[i] - both)
                if score >= LEAST:
                    scored.append((-score, i))
        found: list[Found] = []
        taken: set[int] = set()
        for score, i in sorted(scored):
            if not taken & {i - 1, i, i + 1}:
                taken.add(i)
                found.append(Found(-score, source, i * BLOCK))
            if len(found) == PER_TEXT:
                break
        return found


def _cut(source: Source) -> Cut:
    lines = source.lines
    said = [words("\n".join(lines[at : at + BLOCK])) for at in range(0, len(lines), BLOCK)]
    blocks: dict[str, int] = defaultdict(int)
    for at, block in enumerate(said):
        for word in block:
            blocks[word] |= 1 << at
    having = {sys.intern(word): bits | bits >> 1 for word, bits in blocks.items()}
    return Cut(having, [len(one | other) for one, other in pairwise([*said, NONE])])


def _common(wanted: Words, cut: Cut) -> Iterator[int]:
    """How many of the words each window has: binary numbers of which `digits` holds one digit of
    all windows, so that a word is added to all of them at once."""
    digits: list[int] = []
    for word in wanted & cut.having.keys():
        carried = cut.having[word]
        for at, digit in enumerate(digits):
            digits[at], carried = digit ^ carried, digit & carried
            if not carried:
                break
        if carried:
            digits.append(carried)
    spelled = [f"{digit:0{len(cut.sizes)}b}"[::-1] for digit in reversed(digits)]
    return (int("".join(number), 2) for number in zip(*spelled, strict=True))


def _by_score(found: Found) -> float:
    return -found.score


def _near(question: Question) -> str:
    lines = question.text.split("\n")
    before, after = NEAR
    return "\n".join(lines[max(0, question.line - before) : question.line + 1 + after])
