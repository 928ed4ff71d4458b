"""A small model of the same vocabulary drafts a chain, with slots of its own.

It draws with the target's own noise (same seed and position), so that a draft that agrees in
distribution agrees in the token. With `rejection`, it draws with independent noise and hands its
distributions to the rejection sampler instead (Leviathan et al., arXiv:2211.17192).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.errors import Overloaded
from completiond.model import sampling
from completiond.model.drawing import Row, Rows, draw_rows
from completiond.model.kv_cache import Slot
from completiond.model.runner import Runner

INDEPENDENT = 3
"""Noise stream of drafts that are scored by rejection; 0-2 are the target's."""


class SmallModel:
    name = "small_model"

    def __init__(
        self, runner: Runner, budget: int, *, chunk: int = 64, rejection: bool = False
    ) -> None:
        self.runner = runner
        self.cache = runner.cache(budget)
        self._chunk = chunk
        self._rejection = rejection

    def propose(self, context: DraftContext, budget: int) -> Draft:
        """Empty while it is behind: it catches up by one chunk a call, to keep passes short."""
        if budget < 1 or max(context.ids) >= self.runner.vocab_size:
            return NO_DRAFT
        try:
            slot = self.cache.acquire(context.buffer, len(context.ids) + budget)
        except Overloaded:
            return NO_DRAFT
        try:
            slot.rewind(context.ids)
            behind = context.ids[len(slot) :]
            if len(behind) > self._chunk:
                self.runner.prefill(slot, behind[: self._chunk])
                return NO_DRAFT
            return self._chain(context, slot, budget)
        finally:
            slot.release()

    def observe(self, context: DraftContext, step: Step) -> None:
        pass  # `propose` rewinds to what was kept

    def _chain(self, context: DraftContext, slot: Slot, budget: int) -> Draft:
        stream = INDEPENDENT if self._rejection else sampling.DRAW
        drawn = draw_chain(self.runner, slot, context, budget, stream)
        if not drawn.ids:
            return NO_DRAFT
        q = torch.stack(drawn.rows) if self._scored(context) else None
        n = len(drawn.ids)
        return Draft(drawn.ids, tuple(range(-1, n - 1)), drawn.probs, (self.name,) * n, q)

    def _scored(self, context: DraftContext) -> bool:
        """Greedy drafts are point masses: their q is not what was sampled from."""
        return self._rejection and context.sampling.temperature > 0


class DrawnChain(NamedTuple):
    """Tokens that a model drew one by one, the probability of each path, the rows drawn from."""

    ids: tuple[int, ...]
    probs: tuple[float, ...]
    rows: list[Tensor]


class Drawing(Protocol):
    """A model that goes on with a slot token by token: a Runner, or a part of one."""

    @property
    def vocab_size(self) -> int: ...

    def prefill(self, slot: Slot, ids: Sequence[int]) -> Tensor:
        """Store and commit a chain; the logits [V] after its last token."""


def draw_chain(
    model: Drawing, slot: Slot, context: DraftContext, budget: int, stream: int
) -> DrawnChain:
    """What `model` draws behind the context; its slot then holds all but the last token."""
    ids, probs, rows = list(context.ids), [], []
    path = 1.0
    for _ in range(budget):
        allowed = _allowed(context, ids, model.vocab_size)
        if allowed is not None and not len(allowed):
            break  # all that may follow is outside this model's vocabulary
        how = Row(context.sampling, len(ids), allowed)
        token, chance, row = _drawn(how, model.prefill(slot, ids[len(slot) :]), stream)
        path *= chance
        ids.append(token)
        probs.append(path)
        rows.append(row)
    return DrawnChain(tuple(ids[len(context.ids) :]), tuple(probs), rows)


def _drawn(how: Row, logits: Tensor, stream: int) -> tuple[int, float, Tensor]:
    """A token, its probability and the distribution [V]; waits for the device once."""
    device = logits.device
    processed = Rows([how], len(logits), device).processed(logits[None])
    token = draw_rows(processed, how.sampling, torch.tensor([how.position]).to(device), stream)
    row = sampling.probabilities(processed[0])
    drawn, chance = torch.cat([token.double(), row.index_select(0, token)]).tolist()
    return int(drawn), chance, row


def _allowed(context: DraftContext, ids: list[int], vocab_size: int) -> Tensor | None:
    """The ids of this model's vocabulary that may follow; None when every id may."""
    allowed = context.mask.allowed(ids[context.prompt :]) if context.mask else None
    return sampling.index_of(allowed, vocab_size)
