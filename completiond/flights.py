"""Runs on their way: started, joined by the next request that still fits, followed, given up.

Knows prompts, text and the engine's door; knows no sockets, and decides no reply. A buffer has one
run at a time: a new one ends the one before it, and takes what that one predicted as its draft.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from completiond.config import Config
from completiond.core import CancelReason, Outcome, Sampling, Snapshot
from completiond.engine.door import Engine, Start
from completiond.engine.job import Job
from completiond.engine.run import Run
from completiond.model.checkpoint import describe
from completiond.postprocess.clean import clean
from completiond.prompt import stopping, templates
from completiond.prompt.builder import Built, PromptBuilder
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer, Tokenizer
from completiond.reuse import Answered, Answers, remainder, same_around, typed_since
from completiond.sessions import Buffer, Ticket

WARM = 0.6
"""Least temperature of the second candidate and those after it: greedy has only one answer."""

UNFINISHED = ("superseded", "abandoned", "timeout")
"""Reasons of runs that were ended from outside: what they said may break off anywhere."""

Tell = Callable[[str], None]


class Prompts(NamedTuple):
    """What turns text into prompts and back, for the model that is served."""

    builder: PromptBuilder
    tokenizer: AnyTokenizer


def prompts_of(config: Config, spec: Start) -> Prompts:
    """The tokenizer and the builder for the engine's model; needs no engine that is ready."""
    tokenizer: AnyTokenizer
    ends: tuple[int, ...] = ()
    if spec.kind == "scripted":
        tokenizer = ByteTokenizer()
        limit = int(spec.script.get("context", config.model.context))
    else:
        name, directory = spec.model
        tokenizer = Tokenizer.load(Path(directory), name=name)
        files = describe(name, Path(directory))
        ends, limit = files.eos_ids, files.context
    builder = PromptBuilder(
        tokenizer,
        templates.choose(tokenizer, config.model.template),
        context=min(config.model.context, limit),
        completion=config.completion,
        eos_ids=ends,
    )
    return Prompts(builder, tokenizer)


@dataclass(slots=True, eq=False)
class Flight:
    """A run, and the moment of the buffer that it was made for."""

    run: Run
    snapshot: Snapshot
    built: Built
    key: Hashable
    answers: Answers


class Answer(NamedTuple):
    """What one run says at a request's cursor: the text as it came, and as it may be shown."""

    raw: str
    shown: str
    reason: str
    outcome: Outcome


@dataclass(slots=True, eq=False)
class Work:
    """One admitted request on its way to its answers."""

    ticket: Ticket
    buffer: Buffer[Flight]
    max_tokens: int
    sampling: Sampling
    built: Built | None = None
    prompt_ns: int = 0
    answers: list[Answer] = field(default_factory=list)


class Flights:
    """Starts and follows the runs of all buffers on one engine."""

    def __init__(
        self, engine: Engine, prompts: Prompts, on_taken: Callable[[Flight], None]
    ) -> None:
        self._engine = engine
        self._prompts = prompts
        self._on_taken = on_taken

    async def answer(self, work: Work, candidate: int, tell: Tell | None) -> Answer:
        """The text of one candidate: from an earlier answer that holds, else from the run that is
        on its way if it fits, else from a new one."""
        found = self._reuse(work) if candidate == 0 else None
        if found is not None:
            return found
        joined = self._join(work) if candidate == 0 else None
        if joined is not None:
            answer = await self._follow(joined, work.ticket, tell)
            if answer is not None:
                return answer
        answer = await self._follow(self._launch(work, candidate), work.ticket, tell)
        assert answer is not None, "a run agrees with the text that it was made for"
        return answer

    def cut_off(self, work: Work) -> list[Answer]:
        """The request's time is up: what its run has said, if it has one. The run is given up."""
        flight = work.buffer.flight
        if flight is None:
            return []
        self.cancel(work.buffer, "abandoned")
        typed = _typed(flight, work.ticket.snapshot) or ""
        raw = remainder(self._text(flight, ""), typed) or ""
        shown, _ = clean(raw, work.ticket.snapshot)
        return [Answer(raw, shown, "timeout", Outcome(ids=list(flight.run.ids)))]

    def cancel(self, buffer: Buffer[Flight], reason: CancelReason, grace_s: float = 0.0) -> None:
        if buffer.flight is not None:
            self._engine.cancel(buffer.flight.run, reason, grace_s)

    def _reuse(self, work: Work) -> Answer | None:
        """What an earlier answer of this buffer still says here: no prompt and no pass."""
        found = work.buffer.answers.find(work.ticket.snapshot, _key(work, 0))
        if found is None:
            return None
        # The text after the cursor is the same, but what may be shown depends on both sides.
        shown, _ = clean(found.rest, work.ticket.snapshot)
        return Answer(found.rest, shown, found.answer.reason, Outcome()) if shown else None

    def _join(self, work: Work) -> Flight | None:
        """The buffer's run, if it may still answer this request; it is taken back from its grace.

        One that fits no more is abandoned here, before anything else is done.
        """
        flight = work.buffer.flight
        if flight is None or flight.run.over:
            return None
        typed = _typed(flight, work.ticket.snapshot)
        fits = typed is not None and remainder(self._text(flight, ""), typed) is not None
        if not fits or flight.key != _key(work, 0):
            self._engine.cancel(flight.run, "abandoned")
            return None
        self._engine.revive(flight.run)
        self._on_taken(flight)
        return flight

    def _launch(self, work: Work, candidate: int) -> Flight:
        """A new run. Raises EngineLoading and its like if the engine cannot take it."""
        built = self._build(work)
        hint = self._hint(work, built)
        ticket = work.ticket
        job = Job(
            id=0,
            buffer=f"{ticket.client.hex()}/{ticket.request.document}",
            client=ticket.client.hex(),
            prompt=built.prompt,
            max_tokens=built.max_tokens,
            sampling=_settings(work, candidate)[0],
            stop=built.stop,
            hint=hint,
            priority=1 if ticket.request.trigger == "invoked" else 0,
        )
        self.cancel(work.buffer, "abandoned")
        run, answers = self._engine.submit(job), work.buffer.answers
        flight = Flight(run, ticket.snapshot, built, _key(work, candidate), answers)
        work.buffer.flight = flight
        return flight

    def _build(self, work: Work) -> Built:
        if work.built is None:
            started = time.monotonic_ns()
            ticket = work.ticket
            work.built = self._prompts.builder.build(
                ticket.snapshot,
                ticket.chunks,
                max_tokens=work.max_tokens,
                kept=_kept(work.buffer.flight, ticket.snapshot),
            )
            work.prompt_ns = time.monotonic_ns() - started
        return work.built

    def _hint(self, work: Work, built: Built) -> tuple[int, ...]:
        """What the buffer's last run predicts to follow the new prompt, its healed part first."""
        flight = work.buffer.flight
        typed = _typed(flight, work.ticket.snapshot) if flight is not None else None
        if flight is None or typed is None:
            return ()
        rest = remainder(self._text(flight, ""), typed)
        return tuple(self._prompts.tokenizer.encode(built.healed + rest)) if rest else ()

    async def _follow(self, flight: Flight, ticket: Ticket, tell: Tell | None) -> Answer | None:
        """Its answer at the ticket's cursor; None if it contradicts what was typed, or is too old.

        Text that nobody reads on the way is decoded only once, at the end.
        """
        typed = _typed(flight, ticket.snapshot)
        assert typed is not None, "only a run that fits is followed"
        if typed or tell:
            async for _ in flight.run:
                rest = remainder(self._text(flight, ""), typed)
                if rest is None:
                    self._engine.cancel(flight.run, "abandoned")
                    return None
                if tell and rest:
                    tell(rest)
        outcome = await flight.run.outcome
        self._remember(flight, outcome)
        rest = remainder(self._text(flight, outcome.reason), typed)
        # The grace may have ended before we took it over, or the text before what was typed.
        if flight.snapshot is not ticket.snapshot and (
            not rest or outcome.reason in ("superseded", "abandoned")
        ):
            return None
        shown, _ = clean(rest or "", ticket.snapshot)
        return Answer(rest or "", shown, outcome.reason, outcome)

    def _remember(self, flight: Flight, outcome: Outcome) -> None:
        """A run that came to its own end may answer later keys."""
        if outcome.reason not in UNFINISHED:
            text = self._text(flight, outcome.reason)
            flight.answers.keep(Answered(flight.snapshot, flight.key, text, outcome.reason))

    def _text(self, flight: Flight, reason: str) -> str:
        """What the run has written after the cursor that it was made for."""
        text = self._prompts.tokenizer.decode(flight.run.ids)
        return stopping.trim(text, flight.built.stop, reason)


def _kept(flight: Flight | None, now: Snapshot) -> str | None:
    """The text before the last prompt's anchor, where window and text after the cursor stayed."""
    return flight.built.prefix if flight and same_around(flight.snapshot, now) else None


def _typed(flight: Flight, now: Snapshot) -> str | None:
    """What was typed since the run was made; models write LF whatever the buffer's line ends."""
    typed = typed_since(flight.snapshot, now)
    return typed if typed is None else typed.replace("\r\n", "\n")


def _key(work: Work, candidate: int) -> Hashable:
    """What an answer depends on beside the text around the cursor."""
    return _settings(work, candidate), tuple(chunk.hash for chunk in work.ticket.chunks)


def _settings(work: Work, candidate: int) -> tuple[Sampling, int]:
    asked = work.sampling
    if candidate:
        warm = asked.temperature or WARM
        asked = replace(asked, temperature=warm, seed=asked.seed + candidate)
    return asked, work.max_tokens
