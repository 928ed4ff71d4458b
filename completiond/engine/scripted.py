"""A core that answers from a script: no weights, exact answers. Knows ids, rules, flags and time.

It keeps every law of the seam (passes, chunks of prefill, one KV slot per buffer, masks, stop
rules, cancel flags, counts), so that all that stands in front of an engine can be tested, measured
and shown without one.
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from completiond.core import CancelToken, Outcome
from completiond.engine.job import Done, Event, Job, Progress, Rules
from completiond.errors import Overloaded, RequestError

LONGEST_MATCH = 64
"""Ids of the text before the cursor that are looked up in a scripted document."""


@dataclass(frozen=True, slots=True)
class Script:
    """What is answered, and how fast.

    With a `document`, the answer is what follows the text before the cursor in it. Otherwise it is
    `answers[0]`, or, when tokens are sampled, the one that the seed names.
    """

    answers: tuple[tuple[int, ...], ...] = ((),)
    document: tuple[int, ...] = ()
    tokens_per_pass: int = 1
    prefill_tokens_per_pass: int = 512
    pass_ms: float = 0.0
    width: int = 8
    """Runs that share one pass."""
    slots: int = 256
    """Buffers whose prompt is remembered; the longest idle is forgotten first."""
    context: int = 1 << 20


@dataclass(slots=True)
class _Run:
    job: Job
    rules: Rules
    cancel: CancelToken
    answer: tuple[int, ...]
    admitted: float
    outcome: Outcome = field(default_factory=Outcome)
    to_prefill: int = 0
    told: int = 0
    at: int = 0
    """How much of the answer has been said."""
    passes_at_cancel: int | None = None

    @property
    def ahead(self) -> bool:
        return self.cancel.nobody_asks(self.job.priority)


class ScriptedCore:
    """Implements Core. One pass serves all active runs.

    The queue goes by priority; clients with the fewest active runs come first, then those whose
    last turn is longest ago, then the oldest run.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._document = _spell(script.document)
        self._queue: list[_Run] = []
        self._active: deque[_Run] = deque()
        self._slots: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        self._turns: dict[str, int] = {}  # when a client that is here last started a run
        self._counts = dict.fromkeys(("passes", "prefilled", "generated", "runs", "cancelled"), 0)
        self._evicted = 0
        self._starts = 0

    @property
    def busy(self) -> bool:
        return bool(self._queue or self._active)

    def info(self) -> dict[str, Any]:
        return {"model": "scripted", "device": "none", "context": self._script.context}

    def stats(self) -> dict[str, Any]:
        return self._counts | {
            "waiting": len(self._queue),
            "running": len(self._active),
            "slots": len(self._slots),
            "evicted": self._evicted,
        }

    def admit(self, job: Job, rules: Rules, cancel: CancelToken) -> None:
        need = len(job.prompt.ids) + job.max_tokens
        if need > self._script.context:
            raise Overloaded(f"The prompt and its answer need {need} tokens; ask with less text.")
        if not job.prompt.ids:
            raise RequestError("The prompt has no tokens; send some text.")
        self._queue.append(_Run(job, rules, cancel, self._answer(job), time.monotonic()))
        self._queue.sort(key=lambda run: -run.job.priority)  # stable: equals stay in order

    def step(self) -> list[Event]:
        """Drop what was cancelled, fill the free places, one pass, tell."""
        events = [*self._end_cancelled(), *self._schedule()]
        if self._active:
            self._one_pass()
            events += self._commit()
        return events

    # -- schedule -------------------------------------------------------------------------------

    def _end_cancelled(self) -> list[Event]:
        """The flags, read once per pass. A queued run goes at once; a running one has its grace."""
        events: list[Event] = []
        for run in list(self._queue):
            reason = run.cancel.reason or ("timeout" if self._late(run) else None)
            if reason:
                self._queue.remove(run)
                events.append(self._end(run, reason))
        for run in [run for run in self._active if self._is_over(run)]:
            self._active.remove(run)
            events.append(self._end(run, str(run.cancel.reason)))
        return events

    def _is_over(self, run: _Run) -> bool:
        """Whether a cancel ends it now. Superseded: after its grace *and* one more pass."""
        if run.cancel.reason != "superseded":
            run.passes_at_cancel = None
            return run.cancel.reason == "abandoned"
        if run.passes_at_cancel is None:
            run.passes_at_cancel = run.outcome.passes
        had_a_pass = run.outcome.passes > run.passes_at_cancel
        return had_a_pass and time.monotonic() >= run.cancel.deadline

    def _schedule(self) -> list[Event]:
        """Start the next queued runs; two runs of one buffer never share its slot."""
        events: list[Event] = self._make_way()
        here = {run.job.client for run in [*self._queue, *self._active]}
        self._turns = {client: at for client, at in self._turns.items() if client in here}
        while (run := self._next_queued()) is not None:
            self._queue.remove(run)
            self._turns[run.job.client] = self._starts = self._starts + 1
            self._start(run)
            if run.job.max_tokens > 0:
                self._active.append(run)
            else:
                events.append(self._end(run, "length"))
        return events

    def _next_queued(self) -> _Run | None:
        held = {active.job.buffer for active in self._active}
        free = [run for run in self._queue if run.job.buffer not in held]
        if not free or len(self._active) >= self._script.width:
            return None
        runs = Counter(active.job.client for active in self._active)
        wanted = any(not run.ahead for run in [*self._queue, *self._active])
        urgent = [run for run in free if not (wanted and run.ahead)]

        def order(run: _Run) -> tuple[int, int, int]:
            client = run.job.client
            return -run.job.priority, runs[client], self._turns.get(client, -1)

        return min(urgent, key=order, default=None)  # of equals the first: the queue goes by age

    def _make_way(self) -> list[Event]:
        """Runs that were begun ahead hold no slot and no place that another one wants."""
        queued = [run for run in self._queue if not run.ahead]
        wanted = {run.job.buffer for run in queued}
        full = len(self._active) >= self._script.width and bool(queued)
        ending = [run for run in self._active if run.ahead and (full or run.job.buffer in wanted)]
        for run in ending:
            self._active.remove(run)
        return [self._end(run, "abandoned") for run in ending]

    def _start(self, run: _Run) -> None:
        ids = run.job.prompt.ids
        held = self._slots.pop(run.job.buffer, ())
        # The last token is always computed: its logits are what the first new token comes from.
        reused = min(_common(held, ids), len(ids) - 1)
        run.to_prefill = len(ids) - reused
        run.outcome.prompt_tokens, run.outcome.reused = len(ids), reused
        run.outcome.queued_ns = _ns_since(run.admitted)
        self._slots[run.job.buffer] = ids
        if len(self._slots) > self._script.slots:
            self._slots.popitem(last=False)
            self._evicted += 1

    # -- run and commit -------------------------------------------------------------------------

    def _one_pass(self) -> None:
        started = time.monotonic()
        if self._script.pass_ms:
            time.sleep(self._script.pass_ms / 1e3)
        self._counts["passes"] += 1
        wanted = [run for run in self._active if not run.ahead]
        for run in wanted or self._active:
            self._advance(run, started)

    def _advance(self, run: _Run, started: float) -> None:
        """One chunk of prefill, or some tokens; the last chunk yields the first token."""
        outcome = run.outcome
        outcome.passes += 1
        before = outcome.prefilled + len(outcome.ids)
        if run.to_prefill:
            chunk = min(run.to_prefill, self._script.prefill_tokens_per_pass)
            run.to_prefill -= chunk
            outcome.prefilled += chunk
            self._counts["prefilled"] += chunk
            if not run.to_prefill:
                self._generate(run, 1)
            outcome.prefill_ns += _ns_since(started)
        else:
            self._generate(run, self._script.tokens_per_pass)
            outcome.decode_ns += _ns_since(started)
        if run.cancel.reason and time.monotonic() > run.cancel.deadline:
            outcome.tokens_after_cancel += outcome.prefilled + len(outcome.ids) - before

    def _generate(self, run: _Run, count: int) -> None:
        """Commit up to `count` tokens; the outcome gets its reason when the run is complete."""
        outcome = run.outcome
        for _ in range(count):
            token = self._next(run)
            if token is None:
                outcome.reason = "eos"
                return
            outcome.ids.append(token)
            self._counts["generated"] += 1
            outcome.reason = run.rules.stop.step([token]) or ""
            if not outcome.reason and len(outcome.ids) >= run.job.max_tokens:
                outcome.reason = "length"
            if outcome.reason:
                return

    def _next(self, run: _Run) -> int | None:
        """The script's next id, or, where the mask forbids it, the least id that is allowed."""
        wanted = run.answer[run.at] if run.at < len(run.answer) else None
        mask = run.rules.mask
        allowed = mask.allowed(run.outcome.ids) if mask is not None else None
        if allowed is not None and wanted not in allowed:
            return allowed[0] if allowed else None
        run.at += 1
        return wanted

    def _commit(self) -> list[Event]:
        events: list[Event] = []
        for run in list(self._active):
            news = tuple(run.outcome.ids[run.told :])
            run.told += len(news)
            if news:
                out = run.outcome
                out.strip.append((len(news), (), ()))
                events.append(Progress(run.job.id, news, out.passes, out.prefilled))
            if not run.outcome.reason and self._late(run):
                run.outcome.reason = "timeout"
            if run.outcome.reason:
                self._active.remove(run)
                events.append(self._end(run, run.outcome.reason))
        self._active.rotate(-1)
        return events

    def _late(self, run: _Run) -> bool:
        return run.job.max_ms > 0 and _ns_since(run.admitted) >= run.job.max_ms * 1_000_000

    def _end(self, run: _Run, reason: str) -> Done:
        """The one place where a run ends; its slot keeps what was computed."""
        outcome = run.outcome
        outcome.reason = reason
        if run.cancel.reason:
            outcome.cancel_to_free_ns = _ns_since(run.cancel.deadline)
            self._counts["cancelled"] += 1
        if outcome.passes:
            known = run.job.prompt.ids[: outcome.prompt_tokens - run.to_prefill]
            self._slots[run.job.buffer] = known + tuple(outcome.ids)
        self._counts["runs"] += 1
        return Done(run.job.id, outcome)

    # -- the script -----------------------------------------------------------------------------

    def _answer(self, job: Job) -> tuple[int, ...]:
        if self._document:
            return self._continuation(job)
        answers = self._script.answers
        return answers[job.sampling.seed % len(answers) if job.sampling.temperature > 0 else 0]

    def _continuation(self, job: Job) -> tuple[int, ...]:
        """What follows, in the document, the longest end of the text before the cursor."""
        ids, segments = job.prompt.ids, job.prompt.segments
        text = [segment for segment in segments if segment.kind in ("prefix", "typed")]
        before = "".join(_spell(ids[start:end]) for _, start, end in text)[-LONGEST_MATCH:]
        if not before:
            return self._script.document
        for start in range(len(before)):
            found = self._document.find(before[start:])
            if found >= 0:
                return self._script.document[found + len(before) - start :]
        return ()


def _spell(ids: tuple[int, ...]) -> str:
    """Ids as characters, so that the text search of the language finds them."""
    return "".join(map(chr, ids))


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Length of the common start."""
    n = min(len(a), len(b))
    return n if a[:n] == b[:n] else next(i for i in range(n) if a[i] != b[i])


def _ns_since(moment: float) -> int:
    return max(0, int((time.monotonic() - moment) * 1e9))


def script_of(values: Mapping[str, Any]) -> Script:
    """A script from plain data, as the front sends it; `answers` and `document` hold ids."""
    lists = {
        "answers": tuple(tuple(answer) for answer in values.get("answers", ((),))),
        "document": tuple(values.get("document", ())),
    }
    return Script(**(dict(values) | lists))
