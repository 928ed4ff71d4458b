"""Keys and values of the tokens that were computed, one slot per buffer.

Knows token ids and tensors; knows no model and no text. Rollback is a length change; a tree's
accepted path is gathered to the front. Slots grow in steps and are evicted, longest idle first,
when the byte budget is spent. Where the tensors lie is the storage's business: here each slot has
its own, in block_pool.py all share one.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from completiond.errors import Overloaded

GROWTH = 512
"""Tokens by which a slot's storage grows, so that a decode step seldom copies it."""


@dataclass(frozen=True, slots=True)
class KVShape:
    """What one token costs: layers × 2 × heads × width elements of `dtype`."""

    layers: int
    heads: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def token_bytes(self) -> int:
        return 2 * self.layers * self.heads * self.width * self.dtype.itemsize


def stepped(tokens: int, step: int) -> int:
    """`tokens`, rounded up to whole steps."""
    return -(-tokens // step) * step


_Views = list[tuple[Tensor, ...]]


class Slot:
    """The cache of one sequence. `ids` are exactly the tokens whose keys and values are stored."""

    step = GROWTH

    def __init__(self, shape: KVShape) -> None:
        self.shape = shape
        self.ids: list[int] = []
        self.reserved = 0  # tokens that a running job may still store here; 0: idle
        self.idle_since = 0  # nanoseconds of the monotonic clock
        self._keys, self._values = self._empty()
        self._opened: dict[tuple[int, int, int], _Views] = {}

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def capacity(self) -> int:
        return self._values.shape[2]

    @property
    def bytes(self) -> int:
        """What it holds, or will hold once its job has filled what it reserved."""
        return max(self.capacity, stepped(self.reserved, self.step)) * self.shape.token_bytes

    @property
    def busy(self) -> bool:
        return self.reserved > 0

    def release(self) -> None:
        """The job is over; what was computed stays for the next one until it is evicted."""
        self.reserved = 0
        self.idle_since = time.monotonic_ns()

    def reserve(self, tokens: int) -> None:
        """Room for `tokens` more behind the current length."""
        need = len(self.ids) + tokens
        if need > self.capacity:
            keys, values = self._storage(stepped(need, self.step))
            keys[..., : len(self.ids)] = self._keys[..., : len(self.ids)]
            values[:, :, : len(self.ids)] = self._values[:, :, : len(self.ids)]
            self._keys, self._values = keys, values
            self._opened.clear()

    def write(
        self, layer: int, k: Tensor, v: Tensor, columns: int | None = None, at: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Store k, v [heads, n, width] behind the length, or from `at` on, in the cache's own type.

        What the layer has now: keys [heads, width, at+n], values [heads, at+n, width]. With
        `columns`, that many instead, within the capacity: what lies behind at+n is finite.
        """
        start = len(self.ids) if at is None else at
        end = start + k.shape[1]
        into_keys, into_values, keys, values = self._views(start, end, columns or end)[layer]
        into_keys.copy_(k.transpose(1, 2))
        into_values.copy_(v)
        return keys, values

    def _views(self, start: int, end: int, seen: int) -> _Views:
        """By layer: where keys and values of [start, end) go, and those of [0, seen)."""
        views = self._opened.get((start, end, seen))
        if views is None:  # once a pass: a view costs as much as a copy
            parts = (
                self._keys[..., start:end],
                self._values[:, :, start:end],
                self._keys[..., :seen],
                self._values[:, :, :seen],
            )
            views = list(zip(*(part.unbind(0) for part in parts), strict=True))
            self._opened[start, end, seen] = views
        return views

    def keep(self, ids: Sequence[int], rows: Sequence[int]) -> None:
        """Commit `ids`, which the last pass stored at `rows` (offsets behind the old length)."""
        if list(rows) != list(range(len(rows))):
            self._gather([len(self.ids) + row for row in rows])
        self.ids.extend(ids)
        self._opened.clear()

    def rewind(self, ids: Sequence[int]) -> int:
        """Roll back to the longest common prefix with `ids`, but short of its last token."""
        common = 0
        for mine, theirs in zip(self.ids, ids[:-1], strict=False):
            if mine != theirs:
                break
            common += 1
        del self.ids[common:]
        return common

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """What is committed of one layer, [heads, L, width] each (for tests and audits)."""
        seen = len(self.ids)
        return self._keys[layer, ..., :seen].transpose(1, 2), self._values[layer, :, :seen]

    def discard(self) -> None:
        """Give the storage back; the slot is not used any more."""

    def _empty(self) -> tuple[Tensor, Tensor]:
        return self._storage(0)

    def _gather(self, places: Sequence[int]) -> None:
        """Move what is stored at `places` to right behind the length, in that order."""
        start, n = len(self.ids), len(places)
        index = torch.tensor(places, device=self._values.device)
        self._keys[..., start : start + n] = self._keys[..., index]
        self._values[:, :, start : start + n] = self._values[:, :, index]

    @torch.inference_mode(False)  # a plain tensor may be written to in and out of inference mode
    def _storage(self, capacity: int) -> tuple[Tensor, Tensor]:
        """Keys [layers, heads, width, capacity], as a product with queries reads them, and values
        [layers, heads, capacity, width]."""
        s = self.shape
        keys = torch.zeros((s.layers, s.heads, s.width, capacity), dtype=s.dtype, device=s.device)
        values = torch.zeros((s.layers, s.heads, capacity, s.width), dtype=s.dtype, device=s.device)
        return keys, values


class Storage(Protocol):
    """Where slots come from, and how much there is for all of them."""

    shape: KVShape
    room: int  # bytes for keys and values
    step: int  # tokens by which a slot grows

    def slot(self) -> Slot: ...


@dataclass(frozen=True, slots=True)
class Apart:
    """A storage that gives each slot tensors of its own, which lie in one piece."""

    shape: KVShape
    room: int
    step: int = GROWTH

    def slot(self) -> Slot:
        return Slot(self.shape)


class KVCache:
    """All slots of one model under one budget in bytes."""

    def __init__(self, shape: KVShape, budget: int, storage: Storage | None = None) -> None:
        self.shape = shape
        self.storage = storage or Apart(shape, budget)
        self.budget = min(budget, self.storage.room)
        self.evicted = 0
        self._slots: dict[str, Slot] = {}

    @property
    def bytes(self) -> int:
        return sum(slot.bytes for slot in self._slots.values())

    def __len__(self) -> int:
        return len(self._slots)

    def acquire(self, name: str, tokens: int, *, evict: bool = True) -> Slot:
        """The slot of `name`, reserved for `tokens` (> 0) in all until it is released.

        Raises Overloaded when the busy slots (without `evict`, all others) leave no room for it.
        """
        slot = self._slots.get(name)
        self._make_room(name, max(tokens, slot.capacity if slot else 0), evict)
        if slot is None:
            slot = self._slots[name] = self.storage.slot()
        slot.reserved = tokens
        return slot

    def peek(self, name: str) -> Slot | None:
        """The slot of `name`, as it is."""
        return self._slots.get(name)

    def held(self, name: str) -> bool:
        slot = self._slots.get(name)
        return slot is not None and slot.busy

    def forget(self, name: str) -> None:
        """Drop an idle slot; nothing happens if there is none."""
        if name in self._slots and not self._slots[name].busy:
            self._slots.pop(name).discard()

    def _make_room(self, name: str, tokens: int, evict: bool) -> None:
        need = stepped(tokens, self.storage.step) * self.shape.token_bytes
        others = {n: s for n, s in self._slots.items() if n != name}
        idle = {n: s for n, s in others.items() if evict and not s.busy}
        free = self.budget - sum(s.bytes for s in others.values())
        room = free + sum(s.bytes for s in idle.values())
        if need > room:
            raise Overloaded(
                f"The KV cache has no room for {tokens} tokens: {need >> 20} MiB are needed, "
                f"{max(0, room) >> 20} of {self.budget >> 20} MiB are free. "
                "Raise engine.kv_mb or ask for less context."
            )
        for other in sorted(idle, key=lambda n: idle[n].idle_since):
            if need <= free:
                break
            free += idle[other].bytes
            self._slots.pop(other).discard()
            self.evicted += 1
