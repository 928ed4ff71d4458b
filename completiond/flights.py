"""Runs on their way: started, joined by the next request that still fits, followed, given up.

Knows prompts, text and the engine's door; knows no sockets, and decides no reply. A buffer has one
run at a time: a new one ends the one before it, and takes what that one predicted as its draft.
Beside it there may be one that nobody asked for yet: what follows if the answer is accepted.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from completiond import brackets
from completiond.config import Config
from completiond.core import CancelReason, Outcome, Sampling, Snapshot
from completiond.engine.desk import Engine, Start
from completiond.engine.job import Job
from completiond.errors import CompletiondError
from completiond.flight import Continued, Flight, continued, on_its_way, typed_at
from completiond.model.checkpoint import describe
from completiond.moments import accepted
from completiond.postprocess.clean import clean
from completiond.prompt import stopping, templates
from completiond.prompt.builder import Built, PromptBuilder
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer, Tokenizer
from completiond.reuse import Answered, Answers, made_at, remainder
from completiond.sessions import Buffer, Ticket

WARM = 0.6
"""Least temperature of the second candidate and those after it: greedy has only one answer."""

UNFINISHED = ("superseded", "abandoned", "timeout")
"""Reasons of runs that were ended from outside: what they said may break off anywhere."""

REPEATS = ("repeats_suffix", "repeats_next_lines")
"""Reasons of `clean` by which an answer says that what is there already comes next."""

AHEAD = -1
"""Priority of a run that nobody asked for: the engine passes it over for any other."""

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
    continued: Continued = field(init=False)
    prompt_ns: int = 0
    answers: list[Answer] = field(default_factory=list)


class Flights:
    """Starts and follows the runs of all buffers on one engine."""

    def __init__(
        self,
        engine: Engine,
        prompts: Prompts,
        on_taken: Callable[[Flight], None],
        counts: Counter[str],
    ) -> None:
        self._engine = engine
        self._prompts = prompts
        self._on_taken = on_taken
        self._counts = counts

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

    def ahead(self, work: Work, text: str) -> None:
        """Begin on what follows if `text`, which is shown at `work`'s cursor, is accepted: also on
        what the model would have said past the end of a line or a block.

        Only where that continues the prompt that the buffer's slot holds: to begin another one
        there would cost the next key what it saves the one after.
        """
        buffer, now = work.buffer, self._accepted(work, text)
        work = replace(work, ticket=replace(work.ticket, snapshot=now))
        flight, ahead = buffer.flight, buffer.ahead
        known = buffer.answers.find(now, _key(work, 0)) is not None
        same = ahead is not None and not ahead.run.over and ahead.snapshot.before == now.before
        if known or same or flight is None or not flight.run.over:
            return
        if self._build(work).prefix != flight.built.prefix or not flight.run.ids:
            return
        self._abandon_ahead(buffer)
        try:
            buffer.ahead = self._submit(work, 0, AHEAD)
        except CompletiondError:
            return  # nobody asked for it
        self._counts["prefetch runs"] += 1
        buffer.ahead.counts = "prefetch hits"
        buffer.ahead.run.when_over(self._count_ahead)

    def _accepted(self, work: Work, text: str) -> Snapshot:
        """The buffer with `text` in it, and behind the closer that it ends before: nothing but
        typing over that one can follow."""
        buffer, snapshot = work.buffer, work.ticket.snapshot
        now = accepted(snapshot, text)
        closer = brackets.first(continued(buffer.flight, snapshot).closers)
        found = buffer.answers.find(now, _key(work, 0))
        if not closer.strip() or found is None or not found.rest.startswith(closer):
            return now
        return replace(accepted(now, closer), after=now.after[len(closer) :])

    def cut_off(self, work: Work) -> list[Answer]:
        """The request's time is up: what its run has said, if it has one. The run is given up."""
        flight = work.buffer.flight
        if flight is None:
            return []
        self._engine.cancel(flight.run, "abandoned")
        typed = typed_at(flight, work.ticket.snapshot) or ""
        raw = remainder(self._text(flight, ""), typed) or ""
        shown, _ = clean(raw, work.ticket.snapshot)
        return [Answer(raw, shown, "timeout", Outcome(ids=list(flight.run.ids)))]

    def leave(self, buffer: Buffer[Flight], reason: CancelReason, grace_s: float = 0.0) -> None:
        """Nobody waits for the buffer's run any more; in its grace another request may take it."""
        flight = buffer.flight
        if flight is None or flight.run.over:
            return
        self._counts["superseded runs"] += reason == "superseded" and not flight.left
        flight.left = True
        self._engine.cancel(flight.run, reason, grace_s)

    def read(self, ticket: Ticket) -> None:
        """What a request brings of other files may be drafted from, for its client alone."""
        for chunk in ticket.request.chunks:
            self._engine.read(ticket.client.hex(), chunk.path or chunk.hash, chunk.text)

    def forget_client(self, client: bytes) -> None:
        self._engine.forget(client.hex())

    def forget(self, buffer: Buffer[Flight]) -> None:
        """The buffer's client is gone."""
        self.leave(buffer, "abandoned")
        self._abandon_ahead(buffer)

    def _reuse(self, work: Work) -> Answer | None:
        """What an earlier answer of this buffer still says here: no prompt and no pass."""
        buffer, now = work.buffer, work.ticket.snapshot
        if buffer.ahead is not None and not on_its_way(buffer.ahead, now):
            self._abandon_ahead(buffer)
        found = buffer.answers.find(now, _key(work, 0))
        if found is None:
            return None
        # The text after the cursor says the same, but what may be shown depends on both sides.
        shown, why = clean(found.rest, now)
        if not (shown or why in REPEATS or made_at(found.answer, now)):
            return None
        self._count_use(buffer.answers, found.answer)
        if buffer.ahead is not None and buffer.ahead.snapshot is found.answer.snapshot:
            buffer.flight, buffer.ahead = buffer.ahead, None
        return Answer(found.rest, shown, found.answer.reason, Outcome())

    def _join(self, work: Work) -> Flight | None:
        """The buffer's run, if it may still answer this request; it is taken back from its grace.

        One that fits no more is abandoned here, before anything else is done.
        """
        buffer = work.buffer
        for flight in (buffer.flight, buffer.ahead):
            if flight is None or flight.run.over:
                continue
            typed = typed_at(flight, work.ticket.snapshot)
            fits = typed is not None and remainder(self._text(flight, ""), typed) is not None
            if fits and flight.key == _key(work, 0):
                return self._take(flight, buffer)
            self._engine.cancel(flight.run, "abandoned")
        return None

    def _take(self, flight: Flight, buffer: Buffer[Flight]) -> Flight:
        """The run is a request's now, also if nobody had asked for it."""
        self._engine.revive(flight.run)
        if flight is buffer.ahead:
            buffer.flight, buffer.ahead = flight, None
        else:
            self._on_taken(flight)
        flight.left = False
        return flight

    def _launch(self, work: Work, candidate: int) -> Flight:
        """A new run. Raises EngineLoading and its like if the engine cannot take it."""
        buffer = work.buffer
        self._build(work)  # which reads the run that is given up
        if buffer.flight is not None:
            self._engine.cancel(buffer.flight.run, "abandoned")
        self._abandon_ahead(buffer)
        invoked = work.ticket.request.trigger == "invoked"
        buffer.flight = self._submit(work, candidate, 1 if invoked else 0)
        return buffer.flight

    def _submit(self, work: Work, candidate: int, priority: int) -> Flight:
        built, ticket = self._build(work), work.ticket
        job = Job(
            id=0,
            buffer=f"{ticket.client.hex()}/{ticket.request.document}",
            client=ticket.client.hex(),
            prompt=built.prompt,
            max_tokens=built.max_tokens,
            sampling=_settings(work, candidate)[0],
            stop=built.stop,
            hint=self._hint(work, built),
            priority=priority,
        )
        run = self._engine.submit(job)
        key, answers = _key(work, candidate), work.buffer.answers
        flight = Flight(run, ticket.snapshot, built, key, answers, work.continued.origin)
        run.when_over(lambda outcome: self._remember(flight, outcome))
        return flight

    def _build(self, work: Work) -> Built:
        if work.built is None:
            started = time.monotonic_ns()
            ticket = work.ticket
            work.continued = kept = continued(work.buffer.flight, ticket.snapshot)
            work.built = self._prompts.builder.build(
                ticket.snapshot,
                ticket.chunks,
                max_tokens=work.max_tokens,
                kept=kept.prefix,
                closers=kept.closers,
            )
            work.prompt_ns = time.monotonic_ns() - started
        return work.built

    def _hint(self, work: Work, built: Built) -> tuple[int, ...]:
        """What the buffer's last run predicts to follow the new prompt, its healed part first."""
        flight = work.buffer.flight
        typed = typed_at(flight, work.ticket.snapshot) if flight is not None else None
        if flight is None or typed is None:
            return ()
        rest = remainder(self._text(flight, ""), typed)
        return tuple(self._prompts.tokenizer.encode(built.healed + rest)) if rest else ()

    async def _follow(self, flight: Flight, ticket: Ticket, tell: Tell | None) -> Answer | None:
        """Its answer at the ticket's cursor; None if it contradicts what was typed, or is too old.

        Text that nobody reads on the way is decoded only once, at the end.
        """
        typed = typed_at(flight, ticket.snapshot)
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
        rest = remainder(self._text(flight, outcome.reason), typed)
        # The grace may have ended before we took it over, or the text before what was typed.
        if flight.snapshot is not ticket.snapshot and (
            not rest or outcome.reason in ("superseded", "abandoned")
        ):
            return None
        if flight.kept is not None:
            self._count_use(flight.answers, flight.kept)
        shown, _ = clean(rest or "", ticket.snapshot)
        return Answer(rest or "", shown, outcome.reason, outcome)

    def _remember(self, flight: Flight, outcome: Outcome | None) -> None:
        """A run that came to its own end may answer later keys, whoever waited for it."""
        if outcome is None or outcome.reason in UNFINISHED:
            return
        text = self._text(flight, outcome.reason)
        counts = flight.counts or ("superseded hits" if flight.left else "")
        flight.kept = Answered(flight.snapshot, flight.key, text, outcome.reason, counts)
        flight.answers.keep(flight.kept)

    def _count_use(self, answers: Answers, answer: Answered) -> None:
        if counted := answers.use(answer):
            self._counts[counted] += 1

    def _count_ahead(self, outcome: Outcome | None) -> None:
        if outcome is not None:
            self._counts["prefetch tokens"] += outcome.prefilled + len(outcome.ids)

    def _abandon_ahead(self, buffer: Buffer[Flight]) -> None:
        if buffer.ahead is not None:
            self._engine.cancel(buffer.ahead.run, "abandoned")
            buffer.ahead = None

    def _text(self, flight: Flight, reason: str) -> str:
        """What the run has written after the cursor that it was made for."""
        text = self._prompts.tokenizer.decode(flight.run.ids)
        return stopping.trim(text, flight.built.stop, reason)


def _key(work: Work, candidate: int) -> Hashable:
    """What an answer depends on beside the text around the cursor."""
    return _settings(work, candidate), tuple(chunk.hash for chunk in work.ticket.chunks)


def _settings(work: Work, candidate: int) -> tuple[Sampling, int]:
    asked = work.sampling
    if candidate:
        warm = asked.temperature or WARM
        asked = replace(asked, temperature=warm, seed=asked.seed + candidate)
    return asked, work.max_tokens
