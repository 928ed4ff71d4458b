"""The real engine behind the worker: queue, slots, passes, accounts. Single-threaded.

Knows jobs, sequences and one decoding loop; builds no rules and sends nothing.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from completiond.core import CancelToken, Step
from completiond.drafters.costs import Costs
from completiond.drafters.tree import forks, nodes
from completiond.engine import scheduler
from completiond.engine.decode import Decoding, Turn
from completiond.engine.job import Done, Event, Failed, Job, Progress, Rules
from completiond.engine.sequence import Sequence
from completiond.engine.threads import Threads
from completiond.errors import CompletiondError, EngineError, Overloaded
from completiond.model.kv_cache import KVCache, Slot

log = logging.getLogger(__name__)


class ModelCore:
    """Runs jobs on one model. `context` bounds a prompt and its answer together, in tokens.

    `keep_drafts`: a run's account names the drafted tokens, not only their number.
    """

    def __init__(
        self,
        decoding: Decoding,
        cache: KVCache,
        size: scheduler.PassSize,
        *,
        context: int,
        threads: Threads | None = None,
        draft_rows: int = 8,
        costs: Costs | None = None,
        facts: Mapping[str, Any] | None = None,
        keep_drafts: bool = False,
    ) -> None:
        self.decoding = decoding
        self.cache = cache
        self.size = size
        self._context = context
        self._threads = threads
        self._draft_rows = draft_rows
        self._costs = costs
        self._facts = dict(facts or {})
        self._keep_drafts = keep_drafts
        self._waiting: list[Sequence] = []
        self._running: list[Sequence] = []
        self._counts = dict.fromkeys(
            ("runs", "passes", "rows", "tokens", "cancelled", "tokens_after_cancel", "failed"), 0
        )
        self._drafted: Counter[str] = Counter()
        self._accepted: Counter[str] = Counter()
        self._longest_ms = 0.0
        self._served: dict[str, int] = {}  # the pass in which a client last had prefill rows

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    def info(self) -> dict[str, Any]:
        return {"context": self._context, "pass_rows": self.size.rows} | self._facts

    def stats(self) -> dict[str, Any]:
        return self._counts | {
            "waiting": len(self._waiting),
            "running": len(self._running),
            "kv_bytes": self.cache.bytes,
            "kv_budget": self.cache.budget,
            "kv_slots": len(self.cache),
            "kv_evicted": self.cache.evicted,
            "pass_rows": self.size.rows,
            "threads_now": self._threads.count if self._threads else 0,
            "longest_pass_ms": round(self._longest_ms, 1),
            "drafted": dict(self._drafted),
            "accepted": dict(self._accepted),
            "draft_ms": round(self.decoding.drafting.spent_ms, 1),
        }

    def admit(self, job: Job, rules: Rules, cancel: CancelToken) -> None:
        """Queue a run. Raises EngineError for a prompt that the context cannot hold."""
        vocabulary = self.decoding.runner.vocab_size
        if not job.prompt.ids or job.max_tokens < 1:
            raise EngineError("A run needs a prompt and at least one token to answer.")
        if not all(0 <= token < vocabulary for token in job.prompt.ids):
            raise EngineError(f"The prompt has ids outside the vocabulary of {vocabulary}.")
        if len(job.prompt.ids) + job.max_tokens > self._context:
            raise EngineError(
                f"{len(job.prompt.ids)} prompt tokens and {job.max_tokens} to answer are more than "
                f"the context of {self._context}; ask for less."
            )
        self._waiting.append(Sequence(job, rules, cancel))

    def step(self) -> list[Event]:
        events: list[Event] = self._sweep()
        events += self._start_waiting()
        if not self._running:
            return events
        count = self._counts["passes"]
        turns = scheduler.plan(self._running, self.size.rows, self._draft_rows, count, self._served)
        clients = {s.job.client for s in [*self._running, *self._waiting]}
        begins = [s for s, _ in turns if len(s.pending) > 1 or s.hinted]
        now = {s.job.client: count for s in begins}
        self._served = {c: n for c, n in (self._served | now).items() if c in clients}
        return events + self._pass(turns)

    def _sweep(self) -> list[Event]:
        """End what was cancelled or ran out of time: read each flag once per pass."""
        now = time.monotonic()
        ended = [(s, s.ended(now)) for s in [*self._waiting, *self._running]]
        return [self._finish(s, reason, now) for s, reason in ended if reason]

    def _start_waiting(self) -> list[Event]:
        """Give slots, newest first; a run whose slot is held by another waits for it."""
        events: list[Event] = []
        for sequence in self._by_need():
            buffer = sequence.job.buffer
            if not sequence.ahead:
                events += self._make_way([s for s in self._running if s.job.buffer == buffer])
            if self.cache.held(buffer):
                continue
            try:
                slot = self._slot(sequence, events)
            except Overloaded as exc:
                if not self._running:
                    events.append(self._fail(sequence, exc))
                continue
            sequence.start(slot)
            self._waiting.remove(sequence)
            self._running.append(sequence)
        return events

    def _by_need(self) -> list[Sequence]:
        """Who waits, in the order in which slots are given: clients with the fewest runs first,
        then those that have been served longest ago."""
        runs = Counter(s.job.client for s in self._running)
        waiting = sorted(self._waiting, key=scheduler.newest_first)
        if any(not s.ahead for s in [*waiting, *self._running]):
            waiting = [s for s in waiting if not s.ahead]
        served = self._served
        return sorted(waiting, key=lambda s: (runs[s.job.client], served.get(s.job.client, -1)))

    def _slot(self, sequence: Sequence, events: list[Event]) -> Slot:
        """Its slot. Runs that were begun ahead hold up nobody, and push out nobody's idle slot.

        Raises Overloaded.
        """
        job = sequence.job
        tokens = len(job.prompt.ids) + job.max_tokens
        try:
            return self.cache.acquire(job.buffer, tokens, evict=not sequence.ahead)
        except Overloaded:
            ahead = [] if sequence.ahead else list(self._running)
            ended = self._make_way(ahead)
            if not ended:
                raise
            events += ended
        return self.cache.acquire(job.buffer, tokens)

    def _make_way(self, among: list[Sequence]) -> list[Event]:
        """End those that were begun ahead."""
        now = time.monotonic()
        return [self._finish(s, "abandoned", now) for s in among if s.ahead]

    def _pass(self, turns: list[Turn]) -> list[Event]:
        started, drafting = time.monotonic(), self.decoding.drafting
        drafted_ms = drafting.spent_ms
        try:
            steps = self.decoding.step(turns)
        except Exception as exc:  # whatever one run brings: the process and the others live on
            if not isinstance(exc, (MemoryError, RuntimeError, CompletiondError)):
                log.exception("A pass failed in a way that is not known; please report this.")
            return self._fail_pass(turns, exc)
        now = time.monotonic()
        took_ms = (now - started) * 1000
        self._learn(steps, took_ms, took_ms - (drafting.spent_ms - drafted_ms))
        self._account(turns, steps)
        events: list[Event] = []
        for turn, step in zip(turns, steps, strict=True):
            events += self._report(turn.sequence, step, now)
        return events

    def _learn(self, steps: list[Step], took_ms: float, forward_ms: float) -> None:
        """What a pass of so many rows takes: with its drafting, and the model's part alone."""
        rows = sum(step.rows for step in steps)
        self._longest_ms = max(self._longest_ms, took_ms)
        self.size.observe(rows, took_ms)
        if self._threads is not None:
            self._threads.observe(rows, forward_ms)
        if self._costs is not None:
            forked = sum(forks(step.tree.parents) for step in steps)
            self._costs.observe(rows, forward_ms, forked)

    def _account(self, turns: list[Turn], steps: list[Step]) -> None:
        self._counts["passes"] += 1
        self._counts["rows"] += sum(step.rows for step in steps)
        for step in steps:
            self._drafted.update(step.drafted)
            self._accepted.update(step.accepted)
        for sequence in self._running:
            sequence.waited += 1
        for sequence, _ in turns:
            sequence.waited = 0
            sequence.outcome.passes += 1

    def _report(self, sequence: Sequence, step: Step, now: float) -> list[Event]:
        out = sequence.outcome
        sequence.passes.append((now, step.rows))
        out.logprob += step.logprob
        if not sequence.first_token:
            out.prefilled += step.rows - sum(step.drafted.values())
        for total, part in ((out.drafted, step.drafted), (out.accepted, step.accepted)):
            for source, count in part.items():
                total[source] = total.get(source, 0) + count
        if step.ids or step.drafted:
            drafts = [(name, n, step.accepted.get(name, 0)) for name, n in step.drafted.items()]
            out.strip.append((len(step.ids), drafts, nodes(step) if self._keep_drafts else ()))
        if not step.ids:
            return []
        sequence.first_token = sequence.first_token or now
        self._counts["tokens"] += len(step.ids)
        events: list[Event] = [Progress(sequence.job.id, step.ids, out.passes, out.prefilled)]
        return [*events, self._finish(sequence, step.reason, now)] if step.reason else events

    def _finish(self, sequence: Sequence, reason: str, now: float) -> Done:
        outcome = sequence.finish(reason, now)
        self._drop(sequence)
        self._counts["runs"] += 1
        if sequence.cancel.reason is not None:
            self._counts["cancelled"] += 1
            self._counts["tokens_after_cancel"] += outcome.tokens_after_cancel
        return Done(sequence.job.id, outcome)

    def _fail(self, sequence: Sequence, exc: CompletiondError) -> Failed:
        sequence.finish("failed", time.monotonic())
        self._drop(sequence)
        self._counts["failed"] += 1
        return Failed(sequence.job.id, exc.code, str(exc))

    def _fail_pass(self, turns: list[Turn], exc: BaseException) -> list[Event]:
        """Out of memory or worse: these runs end with a reason, their slots are not trusted."""
        why = str(exc).strip().partition("\n")[0][:200] or type(exc).__name__
        error = EngineError(f"A pass failed ({why}); ask again.")
        events: list[Event] = []
        for sequence, _ in turns:
            events.append(self._fail(sequence, error))
            self.cache.forget(sequence.job.buffer)
        return events

    def _drop(self, sequence: Sequence) -> None:
        for queue in (self._waiting, self._running):
            if sequence in queue:
                queue.remove(sequence)
