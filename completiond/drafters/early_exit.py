"""The target's own first layers draft, the rest verifies (LayerSkip, arXiv:2404.16710).

The first layers write their keys and values into the run's own slot, behind what is committed; the
slot is then cut back, and the verifying pass writes all layers there again. No memory of its own.
"""

from collections.abc import Callable

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.small_model import Drawing, draw_chain
from completiond.model import sampling
from completiond.model.kv_cache import Slot

CHUNK = 64
"""A run that has more than this to compute is in its prefill: its rows are not computed twice."""


class EarlyExit:
    """`shallow` runs the first layers and the head; `slot_of` finds the slot of a buffer's run."""

    name = "early_exit"

    def __init__(self, shallow: Drawing, slot_of: Callable[[str], Slot | None]) -> None:
        self._shallow = shallow
        self._slot_of = slot_of

    def propose(self, context: DraftContext, budget: int) -> Draft:
        slot = self._slot_of(context.buffer)
        if slot is None or budget < 1:
            return NO_DRAFT
        committed = len(slot)
        if not 0 < len(context.ids) - committed <= CHUNK:
            return NO_DRAFT
        try:
            drawn = draw_chain(self._shallow, slot, context, budget, sampling.DRAW)
        finally:
            slot.rewind(context.ids[: committed + 1])  # deep layers have not seen the rest
        n = len(drawn.ids)
        return Draft(drawn.ids, tuple(range(-1, n - 1)), drawn.probs, (self.name,) * n)

    def observe(self, context: DraftContext, step: Step) -> None:
        pass  # the slot is the target's
