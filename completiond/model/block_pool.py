"""The GPU cache's storage: blocks of one tensor, handed out to slots and taken back.

A slot is a list of blocks and a length, so that many buffers share one budget without holes and
without copies when one grows. Block 0 belongs to nobody: padding rows of a pass write there.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from completiond.errors import Overloaded
from completiond.model.kv_cache import KVShape, Slot, stepped

BLOCK = 32
"""Tokens of a block: a buffer wastes half of one, and a pass looks up one number per block."""
SCRATCH = 0
"""The block that padding rows write to and padding tables point at."""


class BlockPool:
    """All blocks of one model, in at most `budget` bytes with the scratch block among them."""

    step = BLOCK

    def __init__(self, shape: KVShape, budget: int) -> None:
        block_bytes = BLOCK * shape.token_bytes
        self.shape = shape
        self.blocks = max(2, budget // block_bytes)
        self.room = (self.blocks - 1) * block_bytes
        self._free = list(range(self.blocks - 1, SCRATCH, -1))
        self.kv = self._storage()  # [layers, 2, blocks * BLOCK, heads, width], never moved

    @property
    def free(self) -> int:
        return len(self._free)

    def slot(self) -> "BlockSlot":
        return BlockSlot(self)

    def take(self, count: int) -> list[int]:
        """`count` blocks. Raises Overloaded if fewer are free; then none is taken."""
        if count > len(self._free):
            raise Overloaded(
                f"The KV cache has {len(self._free)} of {self.blocks - 1} blocks free and a pass "
                f"needs {count}. Raise engine.kv_mb or ask for less context."
            )
        return [self._free.pop() for _ in range(count)]

    def give_back(self, blocks: Sequence[int]) -> None:
        self._free.extend(blocks)
        assert len(self._free) < self.blocks, "a block was given back twice"

    @torch.inference_mode(False)  # a plain tensor may be written to in and out of inference mode
    def _storage(self) -> Tensor:
        s = self.shape
        size = (s.layers, 2, self.blocks * BLOCK, s.heads, s.width)
        return torch.zeros(size, dtype=s.dtype, device=s.device)  # hidden rows must be finite


class BlockSlot(Slot):
    """A slot whose tokens lie in blocks of a pool, in the order of `blocks`."""

    step = BLOCK

    def __init__(self, pool: BlockPool) -> None:
        self.blocks: list[int] = []
        self._pool = pool
        super().__init__(pool.shape)

    @property
    def capacity(self) -> int:
        return len(self.blocks) * BLOCK

    def reserve(self, tokens: int) -> None:
        """Blocks for `tokens` more behind the current length."""
        need = stepped(len(self.ids) + tokens, BLOCK) // BLOCK - len(self.blocks)
        if need > 0:
            self.blocks += self._pool.take(need)

    def release(self) -> None:
        """The job is over; blocks behind the length hold nothing that anyone wants."""
        super().release()
        self._trim(stepped(len(self.ids), BLOCK) // BLOCK)

    def discard(self) -> None:
        self._trim(0)
        self.ids.clear()

    def places(self, start: int, end: int) -> list[int]:
        """Where the tokens [start, end) lie along the pool's third dimension."""
        blocks = [*self.blocks, *[SCRATCH] * (end // BLOCK + 1 - len(self.blocks))]
        return [blocks[i // BLOCK] * BLOCK + i % BLOCK for i in range(start, end)]

    def write(
        self, layer: int, k: Tensor, v: Tensor, columns: int | None = None, at: int | None = None
    ) -> tuple[Tensor, Tensor]:
        start = len(self.ids) if at is None else at
        end = start + k.shape[1]
        stored = self._pool.kv[layer]
        index = self._index(self.places(start, end))
        stored[0, index] = k.transpose(0, 1)
        stored[1, index] = v.transpose(0, 1)
        keys, values = self._seen(layer, columns or end)
        return keys.transpose(1, 2), values

    def keys_values(self, layer: int) -> tuple[Tensor, Tensor]:
        return self._seen(layer, len(self.ids))

    def _empty(self) -> tuple[Tensor, Tensor]:
        """Everybody's; what of it is this slot's, `blocks` say."""
        return self._pool.kv[:, 0], self._pool.kv[:, 1]

    def _gather(self, places: Sequence[int]) -> None:
        start = len(self.ids)
        theirs = self.places(0, max(places) + 1)
        moved = self._pool.kv[:, :, self._index([theirs[i] for i in places])]
        self._pool.kv[:, :, self._index(self.places(start, start + len(places)))] = moved

    def _seen(self, layer: int, end: int) -> tuple[Tensor, Tensor]:
        """[heads, end, width] each, copied together from the blocks."""
        stored = self._pool.kv[layer, :, self._index(self.places(0, end))].transpose(1, 2)
        return stored[0], stored[1]

    def _index(self, places: Sequence[int]) -> Tensor:
        return torch.tensor(places, dtype=torch.long, device=self._pool.kv.device)

    def _trim(self, blocks: int) -> None:
        """Keep the first `blocks`."""
        self._pool.give_back(self.blocks[blocks:])
        del self.blocks[blocks:]
