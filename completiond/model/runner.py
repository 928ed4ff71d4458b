"""One forward primitive: a packed pass of token trees over any decoder.

Knows how to lay segments end to end and which rows need logits; the decoder knows the weights, the
slots hold keys and values. Prefill chunks, single tokens, chains and trees, one client or many,
are the same call.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from completiond.model.attention import Pack, Segment
from completiond.model.kv_cache import KVCache, KVShape, Slot


class Attends(Protocol):
    """What a decoder asks for attention: the pass's Pack, or a frame of fixed shapes."""

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, *, scale: float, window: int | None
    ) -> Tensor:
        """q [Hq, N, D], k and v [Hkv, N, D] → [N, Hq, D]; stores k and v."""


class Decoder(Protocol):
    """The weights of one model, behind one call."""

    kv: KVShape
    layers: int
    vocab_size: int

    @property
    def kernel(self) -> str:
        """What its linear layers are computed with."""

    def __call__(
        self, ids: Tensor, positions: Tensor, pack: Pack, rows: Tensor, want: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """ids, positions [N], rows [R] → logits [R, V'], and hidden states [N, H] by layer."""


class Output(NamedTuple):
    """What a pass found; logits may lie in a buffer that the next pass writes to."""

    logits: list[Tensor]  # per segment [len(segment.logits), vocab_size] float
    hidden: dict[int, Tensor]  # by layer [N, H], for the layers that were wanted
    rows: Tensor  # [R, vocab_size], the logits of all segments one below the other


class Runner:
    """A decoder with its slots' shape and the real size of its vocabulary."""

    def __init__(self, decoder: Decoder, vocab_size: int) -> None:
        self.decoder = decoder
        self.vocab_size = min(vocab_size, decoder.vocab_size)

    @property
    def kv(self) -> KVShape:
        return self.decoder.kv

    def cache(self, budget: int) -> KVCache:
        """The slots for this runner's passes, in at most `budget` bytes."""
        return KVCache(self.kv, budget)

    @torch.inference_mode()
    def forward(self, segments: Sequence[Segment], want_hidden: Sequence[int] = ()) -> Output:
        """One pass. Keys and values are stored behind each slot's length, but not committed.

        Logits of padded vocabulary rows are cut off here, for target and draft alike.
        """
        pack = Pack(segments, self.kv.dtype)
        logits, hidden = self._pass(pack, want_hidden)
        rows = logits[:, : self.vocab_size]
        counts = [len(s.logits) for s in segments]
        return Output(list(torch.split(rows, counts)), hidden, rows)

    def _pass(self, pack: Pack, want: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Logits of the wanted rows, padded vocabulary and all, and the wanted hidden states."""
        ids, positions, rows = inputs(pack, self.kv.device)
        return self.decoder(ids, positions, pack, rows, want)

    def finish(self) -> None:
        """Wait for a pass of which nothing was read, so that its time is known."""
        if self.kv.device.type == "cuda":
            torch.cuda.current_stream(self.kv.device).synchronize()

    def prefill(self, slot: Slot, ids: Sequence[int]) -> Tensor:
        """Store and commit a chain; the logits [V] after its last token."""
        out = self.forward([Segment(slot, ids, None, (len(ids) - 1,))])
        slot.keep(ids, range(len(ids)))
        return out.logits[0][0]


def inputs(pack: Pack, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """A pass's ids and positions, and its rows that need logits, as tensors."""
    return (
        torch.tensor(pack.ids, device=device),
        torch.tensor(pack.positions, device=device),
        torch.tensor(pack.logit_rows, dtype=torch.long, device=device),
    )
