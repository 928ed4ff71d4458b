"""What other texts say that helps at a cursor: found, ranked, without repetitions, in a budget.

Knows every finder and the order in which they come; knows no editor, no threads and no daemon. What
it reads is given to it, so the same question about the same texts has the same answer.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Protocol

from completiond.protocol.messages import Chunk
from completiond_lsp.retrieval.ask import TOKENS, chunks_of
from completiond_lsp.retrieval.imports import Import, resolve
from completiond_lsp.retrieval.languages import family
from completiond_lsp.retrieval.names import Around, Imported, Names
from completiond_lsp.retrieval.recent import Past, around
from completiond_lsp.retrieval.similar import Similar
from completiond_lsp.retrieval.sources import Kind, Piece, Question, Source
from completiond_lsp.retrieval.words import Words, likeness, words

SHARES: Mapping[Kind, float] = {
    "definition": 0.75,
    "changed": 0.35,
    "yanked": 0.2,
    "similar": 0.6,
    "visited": 0.2,
}
"""How much of the budget one kind may take, in the order in which they are served."""
CHARACTERS_A_TOKEN = 3.2
LEAST_TOKENS = 24.0
FILES = 20
"""Open files, and imported ones, that are looked at for similar windows and definitions."""
SIMILAR = 12
NEARLY_SAME = 0.9
"""Of two pieces that are so alike one is enough."""
LIKE_THE_WINDOW = 0.5
"""What is so like the text at the cursor makes a model repeat it."""
TELLING = 10
"""Words; a window of fewer is like many things."""
SEEN = (5_000, 1_600)
"""Characters before and after the cursor that the prompt shows anyway."""
WINDOW = 20
"""Lines around the cursor that a piece must not repeat."""


class Files(Protocol):
    """The files of a workspace that are not open."""

    def named(self, stem: str) -> Sequence[str]: ...
    def source(self, path: str) -> Source | None: ...


class NoFiles:
    def named(self, stem: str) -> Sequence[str]:
        return ()

    def source(self, path: str) -> Source | None:
        return None


@dataclass(frozen=True)
class Material:
    """What may be quoted: open texts (the latest used first), files, and where a person was."""

    open: Sequence[Source] = ()
    files: Files = field(default_factory=NoFiles)
    past: Past = Past()

    @cached_property
    def _by_path(self) -> dict[str, Source]:
        return {source.path: source for source in reversed(self.open)}  # the latest used one

    @cached_property
    def _by_stem(self) -> dict[str, list[str]]:
        stems: dict[str, list[str]] = defaultdict(list)
        for path in self._by_path:
            stems[path.rpartition("/")[2].split(".")[0]].append(path)
        return stems

    def source(self, path: str) -> Source | None:
        """The text of an open buffer before that of its file."""
        return self._by_path.get(path) or self.files.source(path)

    def named(self, stem: str) -> Sequence[str]:
        opened, others = self._by_stem.get(stem, ()), self.files.named(stem)
        return list(dict.fromkeys([*opened, *others])) if opened else others


class Gatherer:
    """Keeps what it has read from each text, so that the next question costs less."""

    def __init__(self, shares: Mapping[Kind, float] = SHARES) -> None:
        """A kind that is not in `shares` is not quoted."""
        self._shares = shares
        self._similar = Similar()
        self._names = Names()

    def pieces(
        self,
        question: Question,
        material: Material,
        *,
        tokens: int = TOKENS,
        within_s: float = float("inf"),
    ) -> list[Piece]:
        """The best pieces in the order of their kinds; after `within_s` what is found by then."""
        end = time.monotonic() + within_s
        chosen = Chosen(question, tokens, self._shares)
        for found in self._found(question, material, chosen, end):
            chosen.offer(found)
            if time.monotonic() > end:
                break
        return chosen.pieces

    def _found(
        self, question: Question, material: Material, chosen: "Chosen", end: float
    ) -> Iterator[Piece]:
        own = question.source
        kin = family(own.language, own.path)
        imported = self._imported(own, material)
        known = {source.path for source, _ in imported} | {question.path}
        others = (source for source in material.open if source.path not in known)
        kindred = (source for source in others if family(source.language, source.path) == kin)
        near = list(islice(kindred, FILES))

        def further(names: frozenset[str]) -> Iterator[Source]:
            return self._further(names, [source for source, _ in imported], material, known)

        around_it = Around(imported, near, further)
        for piece in self._names.wanted(question, around_it, end):
            yield piece
            if not chosen.has_room("definition"):
                break

        def text_of(path: str) -> Source | None:
            return own if path == own.path else material.source(path)

        for place in material.past.changed:
            if changed := around(place, text_of, "changed"):
                yield changed
        for yank in material.past.yanked:
            yield Piece("yanked", yank.path, yank.language, -1, -1, yank.text)
        looked_at = [*(source for source, _ in imported), *near][:FILES]
        for found in self._similar.find(question, looked_at, SIMILAR):
            yield found.piece
        for place in material.past.visited:
            if visited := around(place, text_of, "visited"):
                yield visited

    def _imported(self, own: Source, material: Material) -> list[Imported]:
        found = resolve(self._names.imports.of(own), own.path, material.named)[:FILES]
        sources = ((material.source(path), one) for path, one in found)
        return [(source, one) for source, one in sources if source is not None]

    def _further(
        self,
        names: frozenset[str],
        imported: Iterable[Source],
        material: Material,
        known: Iterable[str],
    ) -> Iterator[Source]:
        """What the imported texts import, where the import or the file's name may mean one of
        these."""
        seen = set(known)
        for source in imported:
            found = [one for one in self._names.imports.of(source) if _may_mean(one, names)]
            for path, _ in resolve(found, source.path, material.named):
                text = material.source(path) if path not in seen else None
                seen.add(path)
                if text is not None and any(name in text.text for name in names):
                    yield text
                if len(seen) > 2 * FILES:
                    return


def _may_mean(one: Import, names: frozenset[str]) -> bool:
    return not names.isdisjoint(one.names) or "*" in one.names or not one.names


class Chosen:
    """Pieces taken so far, none of them twice, and what is left of the budget."""

    def __init__(self, question: Question, tokens: int, shares: Mapping[Kind, float]) -> None:
        self.pieces: list[Piece] = []
        self._words: list[Words] = []
        self._left = float(tokens)
        self._shares = {kind: shares.get(kind, 0.0) * tokens for kind in SHARES}
        self._question = question
        lines = question.text.split("\n")
        low, high = max(0, question.line - WINDOW), question.line + WINDOW
        self._window = words("\n".join(lines[low:high]))
        self._shown = _shown(lines, min(question.line, len(lines) - 1))

    def offer(self, piece: Piece) -> bool:
        """Take the piece if there is room and it says something new."""
        for other in self.pieces:
            if piece.overlaps(other):
                rest = piece.without(other)
                if rest is None:
                    return False
                piece = rest
        cost = tokens_of(piece)
        if cost > min(self._left, self._shares[piece.kind]) or self._is_shown(piece):
            return False
        said = words(piece.text)
        if not said:
            return False
        if len(self._window) >= TELLING and likeness(said, self._window) > LIKE_THE_WINDOW:
            return False
        if any(likeness(said, theirs) > NEARLY_SAME for theirs in self._words):
            return False
        self.pieces.append(piece)
        self._words.append(said)
        self._left -= cost
        self._shares[piece.kind] -= cost
        return True

    def has_room(self, kind: Kind) -> bool:
        """Whether another piece of this kind is worth looking for."""
        return min(self._left, self._shares[kind]) >= LEAST_TOKENS

    def _is_shown(self, piece: Piece) -> bool:
        if piece.text in self._question.text and piece.path != self._question.path:
            return True
        first, last = self._shown
        same = piece.path == self._question.path
        return same and piece.first < last and first < piece.last


def _shown(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The lines that the prompt holds around the cursor."""
    first, room = line, SEEN[0]
    while first > 0 and room > 0:
        first -= 1
        room -= len(lines[first]) + 1
    last, room = line + 1, SEEN[1]
    while last < len(lines) and room > 0:
        room -= len(lines[last]) + 1
        last += 1
    return first, last


def tokens_of(piece: Piece) -> float:
    """About how many tokens it takes in a prompt, its heading included."""
    return (len(piece.text) + len(piece.path)) / CHARACTERS_A_TOKEN + 4


def gather(question: Question, material: Material, *, tokens: int = TOKENS) -> list[Chunk]:
    """One question with nothing kept: the chunks as a request carries them."""
    return chunks_of(Gatherer().pieces(question, material, tokens=tokens))
