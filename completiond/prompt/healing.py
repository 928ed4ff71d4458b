"""Word healing: the next tokens must first spell the text that was taken back from the prompt.

Knows the bytes of a vocabulary and the order in which a run's ids spell them; knows no text of the
user beyond the healed part. Runs in the engine process only, so it may use numpy.
"""

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from completiond.prompt.spelling import Spelling

_KEPT = 64
"""Answers that are remembered: a pass asks once per drafted node, mostly for the same bytes."""


class VocabularyIndex:
    """The ids of a vocabulary in the order of their bytes; ids without bytes are not in it."""

    def __init__(self, spelling: Spelling) -> None:
        self._keys = [spelling.every[i] for i in spelling.order]
        self._longest = max(map(len, self._keys), default=0)
        self._ids: NDArray[np.int64] = np.array(spelling.order, dtype=np.int64)
        self._kept: OrderedDict[bytes, array[int]] = OrderedDict()

    def continuing(self, text: bytes) -> "array[int]":
        """Sorted ids whose bytes begin `text`, or begin with all of it."""
        found = self._kept.get(text)
        if found is None:
            found = self._kept[text] = self._search(text)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _search(self, text: bytes) -> "array[int]":
        shorter = [self._equal(text[:n]) for n in range(1, min(len(text), self._longest + 1))]
        start = bisect_left(self._keys, text)
        end = bisect_left(self._keys, _after(text), start) if _after(text) else len(self._keys)
        found = np.sort(np.concatenate([*shorter, self._ids[start:end]]))
        return array("q", found.tobytes())

    def _equal(self, text: bytes) -> NDArray[np.int64]:
        start = bisect_left(self._keys, text)
        same = takewhile(lambda at: self._keys[at] == text, range(start, len(self._keys)))
        return self._ids[start : start + sum(1 for _ in same)]


def _after(text: bytes) -> bytes:
    """The first byte string that is behind everything that starts with `text`; empty if none is."""
    stem = text.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else b""


class HealingMask:
    """core.TokenMask for one run: only what spells `healed`, then everything."""

    def __init__(
        self, index: VocabularyIndex, token_bytes: Callable[[int], bytes], healed: bytes
    ) -> None:
        self._index = index
        self._token_bytes = token_bytes
        self._healed = healed

    def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
        """Sorted ids that may follow `generated`; None when every id may.

        None as well for a run that has left the healed text, or that no token can continue: a
        wrong word is better than no answer.
        """
        rest = self._healed
        for token in generated:
            if not rest:
                return None
            spelled = self._token_bytes(token)
            if not rest.startswith(spelled):
                return None
            rest = rest[len(spelled) :]
        return (self._index.continuing(rest) or None) if rest else None
