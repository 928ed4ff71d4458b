"""Token text in which the earlier places of an n-gram are chained, the latest first.

For each order one table of the latest places, by hash, and one link a token to the place before,
as in LZ77 compressors: a token appends in a microsecond, the end can be taken back, and a search
follows a few links. Places are checked, so that a hash that two n-grams share costs only time.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from completiond.drafters.text import BOUNDARY

ORDERS = (6, 2, 1)
"""Lengths that are chained, longest first: where a long match exists, short ones are not sought."""
LONGEST = 16
"""Tokens of a match that are told apart; a longer one is as good."""
FOLLOWED = 8
"""Links that are followed per order: a common n-gram has its latest places looked at, no more."""
ENOUGH = 10
"""Places after which no shorter order is tried."""
SMALLEST_TABLE = 1 << 10

_MULTIPLIER, _MASK = 0x9E3779B1, 0xFFFFFFFF
_RISING = ORDERS[::-1]
_BULK = 64
"""From so many tokens on, numpy's constant cost is less than a loop."""


Place = tuple[int, int]
"""(at, length): the index behind a match, where a boundary may stand, and the tokens that match."""


class Tail(NamedTuple):
    """The end of a text, of LONGEST tokens at most and without a boundary, made ready to seek."""

    back: list[int]  # the last token first
    whole: "array[int]"
    keys: list[int]  # by order; -1 where it is too short

    @classmethod
    def of(cls, ids: Sequence[int]) -> "Tail":
        back = list(ids[::-1])
        return cls(back, array("i", ids), _keys(back))


def _keys(back: Sequence[int]) -> list[int]:
    """The hashes of a text's last n-grams, by order; -1 where the text is shorter."""
    keys, key, start, length = [], 0, 0, len(back)
    for order in _RISING:
        if order > length:
            keys.append(-1)
            continue
        for token in back[start:order]:
            key = (key + token + 2) * _MULTIPLIER & _MASK
        start = order
        keys.append(key)
    keys.reverse()
    return keys


class Chains:
    """One text, or many with boundaries between them. `tokens` are to be read only."""

    def __init__(self, room: int = SMALLEST_TABLE) -> None:
        """Up to `room` tokens its tables need not grow, for which all would be chained anew."""
        self.tokens = array("i")
        self._links = tuple(array("i") for _ in ORDERS)
        self._tables: tuple[array[int], ...] = ()
        self._resize(1 << (max(SMALLEST_TABLE, room) - 1).bit_length())

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def room(self) -> int:
        return self._size

    @property
    def bytes(self) -> int:
        cells = len(self.tokens) * (1 + len(ORDERS)) + sum(map(len, self._tables))
        return cells * self.tokens.itemsize

    def extend(self, ids: Sequence[int]) -> None:
        if len(self.tokens) + len(ids) > self._size:
            self._resize(1 << (2 * (len(self.tokens) + len(ids))).bit_length() - 1)
        if len(ids) >= _BULK:
            start = len(self.tokens)
            self.tokens.extend(ids)
            self._link_from(start)
        else:
            for token in ids:
                self._append(token)

    def cut(self, length: int) -> None:
        """Take back all behind `length`."""
        if len(self.tokens) - length > len(self.tokens) // 8 + _BULK:
            kept = self.tokens[:length]
            self.rebuild(kept)
            return
        while len(self.tokens) > length:
            keys = _keys(self.tokens[: -ORDERS[0] - 1 : -1])
            for table, links, key in zip(self._tables, self._links, keys, strict=True):
                before = links.pop()
                if key >= 0:
                    table[key >> self._shift] = before
            self.tokens.pop()

    def erase(self, start: int, end: int) -> None:
        """Make [start, end) match nothing any more; the room is had back by `rebuild`."""
        self.tokens[start:end] = array("i", [BOUNDARY]) * (end - start)

    def rebuild(self, tokens: "array[int]") -> None:
        """Start anew with `tokens`."""
        self.tokens = tokens
        for links in self._links:
            del links[:]
        self._resize(1 << max(SMALLEST_TABLE, 2 * len(tokens)).bit_length() - 1)

    def places(self, tail: "Tail") -> list[Place]:
        """Earlier places of the tail, longest order first, the latest of each order."""
        found: dict[int, int] = {}
        back, whole, tokens = tail.back, tail.whole, self.tokens
        end, longest, shift = len(tokens) - 1, len(tail.back), self._shift
        for order, key, table, links in zip(
            ORDERS, tail.keys, self._tables, self._links, strict=True
        ):
            if key < 0:
                continue
            at, left, last = table[key >> shift], FOLLOWED, whole[-order:]
            while at >= 0 and left:
                if at < end and at not in found and tokens[at + 1 - order : at + 1] == last:
                    n = order
                    while n < longest and n <= at and tokens[at - n] == back[n]:
                        n += 1
                    found[at] = n
                left -= 1
                at = links[at]
            if len(found) >= ENOUGH:
                break
        return [(at + 1, length) for at, length in found.items()]

    def latest(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where each of `ids` that occurs at all stands last."""
        slots = ((ids + 2) * _MULTIPLIER & _MASK) >> self._shift
        heads = np.frombuffer(self._tables[-1], np.int32)[slots]
        text = np.frombuffer(self.tokens, np.int32)
        known = heads >= 0
        heads, ids = heads[known], ids[known]
        found: npt.NDArray[np.int64] = heads[text[heads] == ids].astype(np.int64)
        return found

    def before(self, at: int) -> int:
        """The place before `at` whose token has the same hash; -1 without one."""
        return self._links[-1][at]

    def _append(self, token: int) -> None:
        at, shift = len(self.tokens), self._shift
        self.tokens.append(token)
        keys = _keys(self.tokens[: -ORDERS[0] - 1 : -1])
        for table, links, key in zip(self._tables, self._links, keys, strict=True):
            if key < 0:
                links.append(-1)
            else:
                links.append(table[key >> shift])
                table[key >> shift] = at

    def _resize(self, size: int) -> None:
        """New tables of `size`, and all tokens linked anew."""
        self._size = size
        self._shift = 33 - size.bit_length()
        self._tables = tuple(array("i", [-1]) * size for _ in ORDERS)
        for links in self._links:
            del links[:]
        self._link_from(0)

    def _link_from(self, start: int) -> None:
        """Chain all tokens from `start` on, which are stored but not linked."""
        reach = ORDERS[0] - 1
        first = max(0, start - reach)
        text = np.array(self.tokens[first:], np.uint64) + np.uint64(2)
        if not len(text):
            return
        key, shifted = np.zeros_like(text), text
        keys: dict[int, npt.NDArray[np.uint64]] = {}
        for back in range(ORDERS[0]):
            if back:
                shifted = np.concatenate([np.zeros(1, np.uint64), shifted[:-1]])
            key = (key + shifted) * np.uint64(_MULTIPLIER) & np.uint64(_MASK)
            keys[back + 1] = key
        for order, table, links in zip(ORDERS, self._tables, self._links, strict=True):
            self._link(keys[order][start - first :], order, start, table, links)

    def _link(
        self,
        keys: npt.NDArray[np.uint64],
        order: int,
        start: int,
        table: "array[int]",
        links: "array[int]",
    ) -> None:
        slots = (keys >> np.uint64(self._shift)).astype(np.int64)
        places = np.arange(start, start + len(slots), dtype=np.int32)
        short = max(0, order - 1 - start)  # at the text's start there is no whole n-gram
        before = np.full(len(slots), -1, np.int32)
        heads = np.frombuffer(table, np.int32)
        by_slot = np.argsort(slots[short:], kind="stable") + short
        ordered = slots[by_slot]
        first = np.ones(len(ordered), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        before[by_slot[first]] = heads[ordered[first]]
        again = np.flatnonzero(~first)
        before[by_slot[again]] = places[by_slot[again - 1]]
        last = np.roll(first, -1)
        heads[ordered[last]] = places[by_slot[last]]
        links.frombytes(before.tobytes())


def matching(tokens: "array[int]", at: int, tail: Tail) -> int:
    """How many tokens up to and with `at` equal the tail's."""
    n, back = 0, tail.back
    while n <= at and n < len(back) and tokens[at - n] == back[n]:
        n += 1
    return n
