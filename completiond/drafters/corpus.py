"""Documents of one client that drafts are taken from, within a bound; the oldest go first.

Knows ids and names; knows no runs. A document that changed takes the place of its old version.
Texts are apart: between two documents, and where a control token was, stands a boundary. Gaps are
closed by writing all anew, beside what is in use and a few times what is put at each put: no pass
waits for the whole.
"""

from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence

from completiond.drafters.ngrams import Chains
from completiond.drafters.text import BOUNDARY

DOCUMENT_SHARE = 4
"""No document gets more than this part of the bound: a huge one must not drive all others out."""
CROWDED, FULL = 1.25, 0.7
"""All is written anew when gaps and texts are so many times the bound, or so much of the tables."""
COPIES = 4
"""Tokens that are written anew for each that is put: done before there are two bounds of them."""


class Corpus:
    """`limit` counts tokens; ids in `controls` end a text where they stand."""

    def __init__(self, limit: int, controls: Collection[int] = ()) -> None:
        self.chains = Chains()
        self._limit = limit
        self._controls = frozenset(controls)
        self._spans: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._live = 0
        self._anew: _Anew | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._spans

    def __len__(self) -> int:
        return len(self._spans)

    @property
    def tokens(self) -> int:
        """Tokens of documents that are there, their boundaries too."""
        return self._live

    @property
    def bytes(self) -> int:
        return self.chains.bytes + (self._anew.chains.bytes if self._anew else 0)

    def put(self, name: str, ids: Sequence[int]) -> None:
        """Hold `ids` as document `name`, the newest; what does not fit of it is left out."""
        text = array("i", [BOUNDARY])
        text.extend(self._plain(ids[: self._limit // DOCUMENT_SHARE]))
        if self._holds(name, text):
            self._spans.move_to_end(name)
            return
        self.forget(name)
        if len(text) == 1:
            return
        while self._spans and self._live + len(text) > self._limit:
            self.forget(next(iter(self._spans)))
        self._live += len(text)
        if self._anew is None and self._is_crowded(len(self.chains) + len(text)):
            self._anew = _Anew(2 * self._live)
        self._spans[name] = _append(self.chains, text)
        if self._anew is not None and self._anew.take(self, COPIES * len(text)):
            spans = self._anew.spans
            self.chains, self._anew = self._anew.chains, None
            self._spans = OrderedDict((name, spans[name]) for name in self._spans)

    def forget(self, name: str) -> None:
        span = self._spans.pop(name, None)
        if span is not None:
            self.chains.erase(*span)
            self._live -= span[1] - span[0]
            if self._anew is not None:
                self._anew.forget(name)

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Each document's name, and where it stands, the oldest first."""
        return ((name, start, end) for name, (start, end) in self._spans.items())

    def _is_crowded(self, tokens: int) -> bool:
        return tokens > CROWDED * self._limit or tokens > FULL * self.chains.room

    def _plain(self, ids: Sequence[int]) -> Sequence[int]:
        if not ids or (self._controls.isdisjoint(ids) and min(ids) >= 0):
            return ids
        return [BOUNDARY if i < 0 or i in self._controls else i for i in ids]

    def _holds(self, name: str, text: "array[int]") -> bool:
        start, end = self._spans.get(name, (0, 0))
        return self.chains.tokens[start:end] == text


class _Anew:
    """The documents without gaps, as far as they have been copied."""

    def __init__(self, room: int) -> None:
        self.chains = Chains(room)
        self.spans: dict[str, tuple[int, int]] = {}

    def take(self, corpus: Corpus, tokens: int) -> bool:
        """Copy documents of so many tokens, one at least; whether all are there now."""
        for name, start, end in corpus.spans():
            if name in self.spans:
                continue
            if tokens <= 0:
                return False
            tokens -= end - start
            self.spans[name] = _append(self.chains, corpus.chains.tokens[start:end])
        return True

    def forget(self, name: str) -> None:
        span = self.spans.pop(name, None)
        if span is not None:
            self.chains.erase(*span)


def _append(chains: Chains, text: "array[int]") -> tuple[int, int]:
    start = len(chains)
    chains.extend(text)
    return start, len(chains)
