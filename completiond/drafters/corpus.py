"""Documents of one client that drafts are taken from, within a bound; the oldest go first.

Knows ids and names; knows no runs. A document that changed takes the place of its old version.
Texts are apart: between two documents, and where a control token was, stands a boundary.
"""

from array import array
from collections import OrderedDict
from collections.abc import Collection, Sequence

from completiond.drafters.ngrams import Chains
from completiond.drafters.text import BOUNDARY

DOCUMENT_SHARE = 4
"""No document gets more than this part of the bound: a huge one must not drive all others out."""


class Corpus:
    """`limit` counts tokens; ids in `controls` end a text where they stand."""

    def __init__(self, limit: int, controls: Collection[int] = ()) -> None:
        self.chains = Chains()
        self._limit = limit
        self._controls = frozenset(controls)
        self._spans: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._live = 0

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
        return self.chains.bytes

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
        if len(self.chains) + len(text) > 2 * self._limit:
            self._compact()
        start = len(self.chains)
        self.chains.extend(text)
        self._spans[name] = (start, start + len(text))
        self._live += len(text)

    def forget(self, name: str) -> None:
        span = self._spans.pop(name, None)
        if span is not None:
            self.chains.erase(*span)
            self._live -= span[1] - span[0]

    def _plain(self, ids: Sequence[int]) -> Sequence[int]:
        if not ids or (self._controls.isdisjoint(ids) and min(ids) >= 0):
            return ids
        return [BOUNDARY if i < 0 or i in self._controls else i for i in ids]

    def _holds(self, name: str, text: "array[int]") -> bool:
        start, end = self._spans.get(name, (0, 0))
        return self.chains.tokens[start:end] == text

    def _compact(self) -> None:
        """Close the gaps that forgotten documents left; document order stays."""
        kept = array("i")
        for name, (start, end) in self._spans.items():
            self._spans[name] = (len(kept), len(kept) + end - start)
            kept += self.chains.tokens[start:end]
        self.chains.rebuild(kept)
