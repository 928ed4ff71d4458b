"""What was read in texts, kept while they stay as they are, under a bound. Reads nothing itself."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from completiond_lsp.retrieval.sources import Source

TEXTS = 2_048
"""Texts of which something is kept: what 200 open files import."""

T = TypeVar("T")


class Kept(Generic[T]):
    """What `read` found in each text, while the text and its language (their hash) stay as they
    are; of the latest used ones. Holds no text."""

    def __init__(
        self,
        read: Callable[[Source], T],
        *,
        cost: Callable[[T], int] = lambda _: 1,
        most: int = TEXTS,
    ) -> None:
        """`most`: of the costs of all that is kept together; the newest stays whatever it costs."""
        self._read, self._cost, self._most = read, cost, most
        self._held = 0
        self._kept: OrderedDict[str, tuple[int, T]] = OrderedDict()

    def of(self, source: Source) -> T:
        kept = self._kept.get(source.path)
        stamp = hash((source.language, source.text))
        if kept is not None and kept[0] == stamp:
            self._kept.move_to_end(source.path)
            return kept[1]
        if kept is not None:
            self._held -= self._cost(self._kept.pop(source.path)[1])
        found = self._read(source)
        self._kept[source.path] = stamp, found
        self._held += self._cost(found)
        while self._held > self._most and len(self._kept) > 1:
            self._held -= self._cost(self._kept.popitem(last=False)[1][1])
        return found
