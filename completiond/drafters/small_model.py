"""A small model of the same vocabulary drafts a chain, with slots of its own.

It draws with the target's own noise (same seed and position), so that a draft that agrees in
distribution agrees in the token. With `rejection`, it draws with independent noise and hands its
distributions to the rejection sampler instead (Leviathan et al., arXiv:2211.17192).
"""

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
        ids, probs, rows = list(context.ids), [], []
        path = 1.0
        for _ in range(budget):
            allowed = self._allowed(context, ids)
            if allowed is not None and not len(allowed):
                break  # all that may follow is outside this model's vocabulary
            how = Row(context.sampling, len(ids), allowed)
            token, chance, row = self._drawn(how, self.runner.prefill(slot, ids[len(slot) :]))
            path *= chance
            ids.append(token)
            probs.append(path)
            rows.append(row)
        if not rows:
            return NO_DRAFT
        drafted = tuple(ids[len(context.ids) :])
        q = torch.stack(rows) if self._scored(context) else None
        n = len(drafted)
        return Draft(drafted, tuple(range(-1, n - 1)), tuple(probs), (self.name,) * n, q)

    def _drawn(self, how: Row, logits: Tensor) -> tuple[int, float, Tensor]:
        """A token, its probability and the distribution [V]; waits for the device once."""
        device, stream = logits.device, INDEPENDENT if self._rejection else sampling.DRAW
        processed = Rows([how], self.runner.vocab_size, device).processed(logits[None])
        token = draw_rows(processed, how.sampling, torch.tensor([how.position]).to(device), stream)
        row = sampling.probabilities(processed[0])
        drawn, chance = torch.cat([token.double(), row.index_select(0, token)]).tolist()
        return int(drawn), chance, row

    def _scored(self, context: DraftContext) -> bool:
        """Greedy drafts are point masses: their q is not what was sampled from."""
        return self._rejection and context.sampling.temperature > 0

    def _allowed(self, context: DraftContext, ids: list[int]) -> Tensor | None:
        """The ids of this model's vocabulary that may follow; None when every id may."""
        allowed = context.mask.allowed(ids[context.prompt :]) if context.mask else None
        return sampling.index_of(allowed, self.runner.vocab_size)
