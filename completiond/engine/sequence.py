"""One run on the device: its ids, its slot, its account. Knows no text and no sockets."""

import time
from collections.abc import Sequence as Ids
from dataclasses import dataclass, field

from completiond.core import CancelToken, Outcome
from completiond.drafters.base import DraftContext
from completiond.engine.job import Job, Rules
from completiond.model.kv_cache import Slot


@dataclass(slots=True, eq=False)
class Sequence:
    """A job in progress. `ids` are the prompt and what was committed; the slot lags behind them."""

    job: Job
    rules: Rules
    cancel: CancelToken
    slot: Slot | None = None
    outcome: Outcome = field(default_factory=Outcome)
    ids: list[int] = field(default_factory=list)
    arrived: float = field(default_factory=time.monotonic)
    started: float = 0.0
    first_token: float = 0.0
    waited: int = 0  # passes since it last had a turn
    passes: list[tuple[float, int]] = field(default_factory=list)  # (end, rows) of each pass

    def start(self, slot: Slot) -> None:
        """Take the slot, rolled back to what it shares with the prompt."""
        self.slot = slot
        self.ids = list(self.job.prompt.ids)
        self.started = time.monotonic()
        self.outcome.prompt_tokens = len(self.ids)
        self.outcome.reused = slot.rewind(self.ids)

    @property
    def ahead(self) -> bool:
        """Whether nobody asks for this run now: it must not cost another one anything."""
        return self.cancel.nobody_asks(self.job.priority)

    @property
    def hinted(self) -> int:
        """Tokens of the hint that its first pass may verify; afterwards it is a draft like any."""
        return 0 if self.first_token or self.job.astray else len(self.job.hint)

    @property
    def held(self) -> Slot:
        assert self.slot is not None, "a sequence needs its slot before it can be computed"
        return self.slot

    @property
    def pending(self) -> Ids[int]:
        """Committed ids that are not in the cache yet; the last one always is among them."""
        return self.ids[len(self.held) :]

    @property
    def generated(self) -> Ids[int]:
        return self.ids[len(self.job.prompt.ids) :]

    @property
    def left(self) -> int:
        return self.job.max_tokens - len(self.generated)

    def context(self) -> DraftContext:
        job = self.job
        return DraftContext(
            buffer=job.buffer,
            client=job.client,
            ids=self.ids,
            prompt=len(job.prompt.ids),
            segments=job.prompt.segments,
            sampling=job.sampling,
            mask=self.rules.mask,
            hint=job.hint,
            astray=job.astray,
            stop_ids=job.stop.get("stop_ids", ()),
            healed=job.prompt.healed,
        )

    def ended(self, now: float) -> str | None:
        """Why the run must stop before its next pass: a cancel whose grace is over, or its time."""
        reason = self.cancel.reason
        if reason == "abandoned":
            return reason
        if reason == "superseded" and now > self.cancel.deadline and self._passed_since_cancel():
            return reason
        limit = self.job.max_ms
        return "timeout" if limit and (now - self.arrived) * 1000 > limit else None

    def _passed_since_cancel(self) -> bool:
        """Whether the one more pass that a grace allows is over; a queued run gets none."""
        if not self.passes:
            return True
        return self.passes[-1][0] > self.cancel.since

    def finish(self, reason: str, now: float) -> Outcome:
        """Let the slot go and close the account."""
        out = self.outcome
        if self.slot is not None:
            self.slot.release()
        out.reason = reason
        out.ids = list(self.generated) if self.ids else []
        start, first = self.started or now, self.first_token or now
        out.queued_ns = _ns(start - self.arrived)
        out.prefill_ns = _ns(first - start)
        out.decode_ns = _ns(now - first)
        if self.cancel.reason is not None:
            over = self.cancel.deadline  # of an abandonment: the moment of the cancel itself
            out.cancel_to_free_ns = _ns(now - over)
            out.tokens_after_cancel = sum(rows for end, rows in self.passes if end > over)
        return out


def _ns(seconds: float) -> int:
    return max(0, int(seconds * 1e9))
