"""Definitions of the names that stand near a cursor. Knows how to weigh a name and a definition.

What a name in front of a dot is of comes first: what can follow the dot stands nowhere else. What a
text defines is read once and kept while the text stays as it is.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from typing import NamedTuple

from completiond_lsp.retrieval.definitions import (
    Definition,
    by_lines,
    heads,
    importing,
    members,
    outline,
)
from completiond_lsp.retrieval.grammars import by_tree
from completiond_lsp.retrieval.imports import Import, imports
from completiond_lsp.retrieval.kept import Kept
from completiond_lsp.retrieval.languages import family
from completiond_lsp.retrieval.receivers import OURSELVES, Receiver, bases, receivers, typed
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
OF_RECEIVER = 2.0
"""What the type of a name in front of a dot counts, or the file that the name stands for."""
OF_PARENT = 0.8
"""What a type counts that another one is made of, by the other's weight."""
GENERATIONS = 3
LEAST = 0.05
MOST = 12
LINES = 14
"""Of a definition; a longer one is quoted in outline."""
MEMBERS = 1_300
"""Characters of all that can follow one dot."""

Imported = tuple[Source, Import]
ByName = Mapping[str, Sequence[Definition]]


class Around(NamedTuple):
    """The texts that may define a name: imported ones, open ones that are not, and on demand those
    that the imported ones import and that may know certain names."""

    imported: Sequence[Imported] = ()
    near: Sequence[Source] = ()
    further: Callable[[frozenset[str]], Iterable[Source]] = lambda names: ()


class Weighed(NamedTuple):
    """`definition` None is the whole file. `members`: what it holds is asked for."""

    weight: float
    source: Source
    definition: Definition | None
    members: bool = False


class Known:
    """What some texts define, by name and in the order of the texts."""

    def __init__(self) -> None:
        self._texts: list[tuple[Source, ByName]] = []

    def add(self, source: Source, definitions: ByName) -> None:
        self._texts.append((source, definitions))

    def of(self, name: str) -> list[tuple[Source, Definition]]:
        return [(source, one) for source, by in self._texts for one in by.get(name, ())]

    def of_any(self, names: Set[str]) -> Mapping[str, list[tuple[Source, Definition]]]:
        """What `of` says of each name that has a definition."""
        found: dict[str, list[tuple[Source, Definition]]] = defaultdict(list)
        for source, by in self._texts:
            for name in names & by.keys():
                found[name] += [(source, one) for one in by[name]]
        return found

    def __contains__(self, name: str) -> bool:
        return any(name in by for _, by in self._texts)


class Names:
    def __init__(self) -> None:
        self.imports = Kept(_imports)
        self._definitions = Kept(_defined)
        self._by_name = Kept(lambda source: _by_name(self._definitions.of(source)))
        self._quotes = Kept[dict[tuple[Definition | None, bool], str]](lambda source: {})

    def wanted(self, question: Question, around: Around, end: float) -> Iterator[Piece]:
        """Pieces that define what the cursor's lines use, the weightiest first."""
        own = question.source
        before = receivers(question)
        sources = [*(source for source, _ in around.imported), *around.near]
        known = self._read(own, sources, end)
        weights = _weights(question, self.imports.of(own))
        found = [*_modules(before, around.imported), *_named(weights, own, known, around)]
        types = _types_of(before, question, around.imported, end)
        found += self._of_types(types, known, around, end)
        yield from filter(None, map(self._piece, _ranked(found)))

    def _read(self, own: Source, sources: Iterable[Source], end: float) -> Known:
        """What the sources define, by name; those that can be read in time."""
        known = Known()
        # What is edited is read by its lines: a tree would be built at each edit.
        known.add(own, _by_name(_by_lines(own)))
        for source in sources:
            if time.monotonic() > end:
                break
            known.add(source, self._by_name.of(source))
        return known

    def _of_types(
        self, types: Mapping[str, float], known: Known, around: Around, end: float
    ) -> Iterator[Weighed]:
        """The definitions of these types, and their parents, in further files too."""
        waiting = dict(types)
        for _ in range(GENERATIONS):
            missing = frozenset(name for name in waiting if name not in known)
            for source in around.further(missing) if missing else ():
                known.add(source, self._by_name.of(source))
                if time.monotonic() > end:
                    return
            parents: dict[str, float] = {}
            for name, weight in waiting.items():
                for source, one in known.of(name):
                    if one.owner or weight * OF_RECEIVER <= LEAST:
                        continue
                    yield Weighed(OF_RECEIVER * weight, source, one, members=True)
                    for parent in bases(source.lines[one.first : one.first + 3], one.name):
                        parents[parent] = max(parents.get(parent, 0.0), weight * OF_PARENT)
            waiting = {name: weight for name, weight in parents.items() if name not in types}

    def _piece(self, found: Weighed) -> Piece | None:
        source, one = found.source, found.definition
        quotes, key = self._quotes.of(source), (one, found.members)
        if key not in quotes:
            quotes[key] = self._quote(found)
        text = quotes[key]
        if not text:
            return None
        whole = one is not None and text.count("\n") + 1 >= one.last - one.first
        first, last = (one.first, one.last) if one is not None and whole else (-1, -1)
        return Piece("definition", source.path, source.language, first, last, text)

    def _quote(self, found: Weighed) -> str:
        source, one = found.source, found.definition
        if one is None:
            text = heads(source.lines, self._definitions.of(source), MEMBERS)
            text = text or importing(source.lines, MEMBERS)
        elif found.members:
            text = members(source.lines, one, MEMBERS)
        else:
            text = outline(source.lines, one, LINES)
        return text.strip("\n")


def _types_of(
    before: Mapping[str, Receiver], question: Question, imported: Sequence[Imported], end: float
) -> dict[str, float]:
    """How much each type counts of which a name in front of a dot may be."""
    others = {name: one for name, one in before.items() if name not in OURSELVES}
    own = typed(question.text, others)
    named = {name for _, one in imported for name in one.names}
    unknown = [n for n, one in others.items() if n not in own and (one.attribute or n in named)]
    in_time = takewhile(lambda _: time.monotonic() <= end, imported if unknown else ())
    theirs = [typed(source.text, unknown) for source, _ in in_time]
    types: dict[str, float] = {}
    for name, (weight, _) in before.items():
        if name in OURSELVES:
            found: Iterable[str] = bases(question.text.split("\n")[: question.line + 1])
        else:
            elsewhere = {one for known in theirs for one in known.get(name, ())}
            found = own.get(name) or elsewhere or {name}
            found = {*found, name} if name[0].isupper() else found  # a type of its own
        for one in found:
            types[one] = max(types.get(one, 0.0), weight)
    return types


def _defined(source: Source) -> list[Definition]:
    found = by_tree(source.text, source.language, source.path)
    return _by_lines(source) if found is None else found


def _imports(source: Source) -> list[Import]:
    return imports(source.text, family(source.language, source.path))


def _by_name(definitions: Iterable[Definition]) -> ByName:
    found: dict[str, list[Definition]] = defaultdict(list)
    for one in definitions:
        found[one.name].append(one)
    return found


def _by_lines(source: Source) -> list[Definition]:
    return by_lines(source.text, family(source.language, source.path))


def _named(
    weights: Mapping[str, float], own: Source, known: Known, around: Around
) -> Iterator[Weighed]:
    """The definitions of the names that stand near the cursor."""
    for name, found in known.of_any(weights.keys()).items():
        weight = weights[name]
        ours = any(source is own and not one.owner for source, one in found)
        for source, one in found:
            here = weight * (FROM_OPEN if source in around.near else 1.0)
            here *= MEMBER if one.owner else 1.0
            if here > LEAST and (source is own or not ours):
                yield Weighed(here, source, one)


def _modules(before: Mapping[str, Receiver], imported: Iterable[Imported]) -> Iterator[Weighed]:
    """Files that a name in front of a dot stands for."""
    for source, one in imported:
        name = one.called(source.path)
        receiver = before.get(name)
        if receiver is not None and not name[0].isupper():  # such a name is a type
            yield Weighed(OF_RECEIVER * receiver.weight, source, None, members=True)


def _weights(question: Question, imported: Iterable[Import]) -> dict[str, float]:
    """How much each name near the cursor matters: the nearer the more."""
    lines = question.text.split("\n")
    weights: dict[str, float] = defaultdict(float)
    for one in imported:
        for name in one.names:
            weights[name] = ONLY_IMPORTED
    first = max(0, question.line - NEAR[0])
    for at, line in enumerate(lines[first : question.line + 1 + NEAR[1]], first):
        distance = question.line - at if at <= question.line else 2 * (at - question.line)
        for name in words(line):
            weights[name] = max(weights[name], 1.0 / (1.0 + distance / FADES))
    return weights


def _ranked(found: Iterable[Weighed]) -> list[Weighed]:
    """The best, each once; a name that many texts define says little about any of them."""
    best: dict[tuple[str, int], Weighed] = {}
    texts: dict[str, set[str]] = defaultdict(set)
    for one in found:
        key = (one.source.path, one.definition.first if one.definition else -1)
        if key not in best or best[key].weight < one.weight:
            best[key] = one
        if one.definition is not None:
            texts[one.definition.name].add(one.source.path)
    scored = [
        one._replace(weight=one.weight / max(1, len(texts[one.definition.name])))
        if one.definition
        else one
        for one in best.values()
    ]
    return sorted(scored, key=_place)[:MOST]


def _place(one: Weighed) -> tuple[float, str, int]:
    """What comes first; of equal weight always the same."""
    return -one.weight, one.source.path, one.definition.first if one.definition else -1
