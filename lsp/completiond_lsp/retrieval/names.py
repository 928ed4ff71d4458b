"""Definitions of the names that stand near a cursor. Knows how to weigh a name and a definition.

What a text defines is read once and kept while the text stays as it is.
"""

import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from completiond_lsp.retrieval.definitions import Definition, by_lines, outline
from completiond_lsp.retrieval.grammars import by_tree
from completiond_lsp.retrieval.imports import imports
from completiond_lsp.retrieval.languages import family
from completiond_lsp.retrieval.sources import Piece, Question, Source
from completiond_lsp.retrieval.words import words

NEAR = (40, 8)
"""Lines before and after the cursor whose names are looked up."""
FADES = 8.0
"""Lines after which a name counts half."""
ONLY_IMPORTED = 0.15
"""What a name counts that is imported and not used near the cursor yet."""
MEMBER = 0.5
"""What a definition inside another one counts: such names mean many things."""
FROM_OPEN = 0.4
"""What a definition counts in a text that is not imported."""
LEAST = 0.05
MOST = 12
LINES = 14
"""Of a definition; a longer one is quoted in outline."""
TEXTS = 256
"""Texts whose definitions are kept."""


class Weighed(NamedTuple):
    weight: float
    source: Source
    definition: Definition


class Names:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Source, list[Definition]]] = OrderedDict()

    def wanted(
        self, question: Question, imported: Sequence[Source], near: Iterable[Source], end: float
    ) -> Iterator[Piece]:
        """Pieces that define what the cursor's lines use, the weightiest first."""
        weights = _weights(question)
        own = Source(question.path, question.language, question.text)
        kin = family(question.language, question.path)
        ours = by_lines(own.text, kin)  # it has just been edited: a tree would be built each time
        defined = {one.name for one in ours if not one.owner}
        found: list[Weighed] = []
        for source in [own, *near]:
            base = 1.0 if source is own or source in imported else FROM_OPEN
            for one in ours if source is own else self.definitions(source):
                weight = weights.get(one.name, 0.0) * base * (MEMBER if one.owner else 1.0)
                if weight > LEAST and (source is own or one.name not in defined):
                    found.append(Weighed(weight, source, one))
            if time.monotonic() > end:
                break
        yield from map(_piece, _ranked(found))

    def definitions(self, source: Source) -> list[Definition]:
        kept = self._kept.get(source.path)
        if kept is not None and (kept[0] is source or kept[0].text == source.text):
            self._kept.move_to_end(source.path)
            return kept[1]
        found = by_tree(source.text, source.language, source.path)
        if found is None:
            found = by_lines(source.text, family(source.language, source.path))
        self._kept[source.path] = source, found
        self._kept.move_to_end(source.path)
        if len(self._kept) > TEXTS:
            self._kept.popitem(last=False)
        return found


def _weights(question: Question) -> dict[str, float]:
    """How much each name near the cursor matters: the nearer the more."""
    lines = question.text.split("\n")
    weights: dict[str, float] = defaultdict(float)
    for one in imports(question.text, family(question.language, question.path)):
        for name in one.names:
            weights[name] = ONLY_IMPORTED
    first = max(0, question.line - NEAR[0])
    for at, line in enumerate(lines[first : question.line + 1 + NEAR[1]], first):
        distance = question.line - at if at <= question.line else 2 * (at - question.line)
        for name in words(line):
            weights[name] = max(weights[name], 1.0 / (1.0 + distance / FADES))
    return weights


def _ranked(found: list[Weighed]) -> list[Weighed]:
    """The best; a name that many texts define says little about any of them."""
    texts = Counter(name for name, _ in {(w.definition.name, w.source.path) for w in found})
    scored = [w._replace(weight=w.weight / texts[w.definition.name]) for w in found]
    return sorted(scored, key=lambda w: -w.weight)[:MOST]


def _piece(found: Weighed) -> Piece:
    source, one = found.source, found.definition
    text = outline(source.lines, one, LINES).strip("\n")
    return Piece("definition", source.path, source.language, one.first, one.last, text)
