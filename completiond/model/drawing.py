"""The rows of a pass to tokens, all together and without waiting for the device.

Knows tensors only; the law is that of sampling.py, row by row. What is known of the rows before
the pass (masks, positions) is brought to the device before it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from completiond.core import Sampling
from completiond.model import sampling

HOST = ("cpu",)
"""Devices on which nothing waits for a number: rows go one by one, and only ids that may be drawn
get noise."""


class Row(NamedTuple):
    """How one row is drawn: the position that it fills, and the ids that may (None: all)."""

    sampling: Sampling
    position: int
    allowed: Tensor | None = None


class Rows:
    """How the rows of a pass are drawn, prepared for `device`."""

    def __init__(self, rows: Sequence[Row], vocabulary: int, device: torch.device) -> None:
        self._rows = rows
        self._on_host = device.type in HOST
        if not self._on_host:
            self._prepare(vocabulary, device)

    def _prepare(self, vocabulary: int, device: torch.device) -> None:
        masked = [(i, row.allowed) for i, row in enumerate(self._rows) if row.allowed is not None]
        flat = [allowed + n * vocabulary for n, (_, allowed) in enumerate(masked)]
        self._masked = torch.tensor([i for i, _ in masked], dtype=torch.long, device=device)
        self._allowed = torch.cat(flat).to(device) if flat else None
        alike: dict[Sampling, list[int]] = {}
        for i, row in enumerate(self._rows):
            alike.setdefault(row.sampling, []).append(i)
        self._alike = [
            (
                how,
                torch.tensor(of, dtype=torch.long, device=device),
                torch.tensor([self._rows[i].position for i in of], device=device),
            )
            for how, of in alike.items()
        ]

    def draw(self, logits: Tensor) -> Tensor:
        """The token of each row, [R] int64, from logits [R, V] as the pass computed them."""
        if self._on_host:
            pairs = zip(self._each(logits), self._rows, strict=True)
            drawn = [sampling.draw(line, row.sampling, row.position) for line, row in pairs]
            return torch.tensor(drawn, dtype=torch.long)
        logits = self._restricted(logits)
        if len(self._alike) == 1:
            how, _, positions = self._alike[0]
            return draw_rows(sampling.process(logits, how), how, positions)
        tokens = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        for how, rows, positions in self._alike:
            processed = sampling.process(logits[rows], how)
            tokens.index_copy_(0, rows, draw_rows(processed, how, positions))
        return tokens

    def processed(self, logits: Tensor) -> Tensor:
        """The processed logits [R, V] of rows that share one sampling."""
        if self._on_host:
            return torch.stack(list(self._each(logits)))
        ((how, _, _),) = self._alike
        return sampling.process(self._restricted(logits), how)

    def _each(self, logits: Tensor) -> Iterator[Tensor]:
        for line, row in zip(logits, self._rows, strict=True):
            yield sampling.process(line, row.sampling, row.allowed)

    def _restricted(self, logits: Tensor) -> Tensor:
        """Ids that a row's mask excludes are -inf."""
        if self._allowed is None:
            return logits
        some = logits[self._masked]
        kept = torch.full_like(some, -torch.inf)
        kept.view(-1).index_copy_(0, self._allowed, some.view(-1)[self._allowed])
        return logits.index_copy(0, self._masked, kept)


def draw_rows(
    processed: Tensor, how: Sampling, positions: Tensor, stream: int = sampling.DRAW
) -> Tensor:
    """The tokens [R] at `positions` [R] from processed logits [R, V], as `sampling.draw` does."""
    if how.temperature == 0:
        return processed.argmax(-1)
    if processed.device.type in HOST:
        pairs = zip(processed, positions.tolist(), strict=True)
        return torch.tensor([sampling.draw(line, how, at, stream) for line, at in pairs])
    ids = torch.arange(processed.shape[-1], device=processed.device)
    noise = sampling.gumbel(how.seed, positions[:, None], ids, stream)
    return (processed.double() + noise).argmax(-1)
