"""Runs on their way: started, joined by the next request that still fits, followed, given up.

Knows prompts, text and the engine's door; knows no sockets, and decides no reply. A buffer has one
run at a time: a new one ends the one before it, and takes what that one predicted as its draft.
Beside it there may be one that nobody asked for yet: what follows if the answer is accepted.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from completiond import brackets
from completiond.core import CancelReason, Outcome, Snapshot
from completiond.engine.desk import Engine
from completiond.engine.job import Job
from completiond.errors import CompletiondError
from completiond.flight import Flight, continued, on_its_way, predicted, typed_at
from completiond.moments import accepted
from completiond.postprocess.clean import as_typed, clean
from completiond.prompt import stopping
from completiond.prompt.builder import Built
from completiond.prompts import Prompts
from completiond.reuse import Answered, Answers, made_at, remainder
from completiond.sessions import Buffer, Ticket
from completiond.sources import Sources
from completiond.work import Answer, Work, key_of, settings_of

UNFINISHED = ("superseded", "abandoned", "timeout")
"""Reasons of runs that were ended from outside: what they said may break off anywhere."""

REPEATS = ("repeats_suffix", "repeats_next_lines")
"""Reasons of `clean` by which an answer says that what is there already comes next."""

AHEAD = -1
"""Priority of a run that nobody asked for: the engine passes it over for any other."""

Tell = Callable[[str], None]


class Watcher(Protocol):
    """Who wants to know how answers come about. It changes nothing."""

    def answered(
        self, flights: "Flights", work: Work, answer: Answer, source: Flight | Answered
    ) -> None:
        """A candidate, and the run or the kept answer that said it."""

    def follows(self, work: Work, flight: Flight) -> None:
        """A request begins to wait for this run, be it that another one had it begun."""

    def ended(self, flight: Flight, outcome: Outcome) -> None:
        """A run is over."""


class Flights:
    """Starts and follows the runs of all buffers on one engine."""

    def __init__(
        self,
        engine: Engine,
        prompts: Prompts,
        on_taken: Callable[[Flight], None],
        counts: Counter[str],
        watcher: Watcher | None = None,
    ) -> None:
        self._engine = engine
        self.sources = Sources(engine)
        self._prompts = prompts
        self._on_taken = on_taken
        self._counts = counts
        self._watcher = watcher

    async def answer(self, work: Work, candidate: int, tell: Tell | None) -> Answer:
        """The text of one candidate: from an earlier answer that holds, else from the run that is
        on its way if it fits, else from a new one."""
        found = self._reuse(work) if candidate == 0 else None
        if found is not None:
            return found
        joined = self._join(work) if candidate == 0 else None
        if joined is not None:
            answer = await self._follow(joined, work, tell)
            if answer is not None:
                return self._seen(work, answer, joined)
        flight = self._launch(work, candidate)
        answer = await self._follow(flight, work, tell)
        assert answer is not None, "a run agrees with the text that it was made for"
        if joined is not None:
            answer = answer.beside(joined.cost(joined.so_far()))
        return self._seen(work, answer, flight)

    def prompt_of(self, work: Work, flight: Flight) -> Built:
        """What `work` would be asked with, the anchor staying where that run has it."""
        return self._build(replace(work, buffer=replace(work.buffer, flight=flight), built=None))

    def known(self, work: Work) -> Answer | None:
        """What an earlier answer says here; starts nothing."""
        return self._reuse(work)

    def follows(self, work: Work) -> bool:
        """Whether the request comes from typing what a run of the buffer says."""
        now = work.ticket.snapshot
        for flight in (work.buffer.flight, work.buffer.ahead):
            typed = typed_at(flight, now) if flight is not None else None
            if flight is not None and typed and self._text(flight, "").startswith(typed):
                return True
        return False

    def ahead(self, work: Work, text: str) -> None:
        """Begin on what follows if `text`, which is shown at `work`'s cursor, is accepted: also on
        what the model would have said past the end of a line or a block.

        Only where that continues the prompt that the buffer's slot holds: to begin another one
        there would cost the next key what it saves the one after.
        """
        buffer, now = work.buffer, self._accepted(work, text)
        work = replace(work, ticket=replace(work.ticket, snapshot=now))
        flight, ahead = buffer.flight, buffer.ahead
        known = buffer.answers.find(now, key_of(work, 0)) is not None
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
        found = buffer.answers.find(now, key_of(work, 0))
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
        found = buffer.answers.find(now, key_of(work, 0))
        if found is None:
            return None
        # The text after the cursor says the same, but what may be shown depends on both sides.
        shown, why = clean(found.rest, now)
        if not (shown or why in REPEATS or made_at(found.answer, now)):
            return None
        self._count_use(buffer.answers, found.answer)
        if buffer.ahead is not None and buffer.ahead.snapshot is found.answer.snapshot:
            buffer.flight, buffer.ahead = buffer.ahead, None
        answer = Answer(found.rest, shown, found.answer.reason, Outcome())
        return self._seen(work, answer, found.answer)

    def _seen(self, work: Work, answer: Answer, source: Flight | Answered) -> Answer:
        if self._watcher is not None:
            self._watcher.answered(self, work, answer, source)
        return answer

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
            if fits and flight.key == key_of(work, 0):
                return self._take(flight, buffer)
            self._engine.cancel(flight.run, "abandoned")
        return None

    def _take(self, flight: Flight, buffer: Buffer[Flight]) -> Flight:
        """The run is a request's now, also if nobody had asked for it."""
        self._engine.revive(flight.run)
        if flight is buffer.ahead:
            buffer.flight, buffer.ahead = flight, None
        elif flight.streak is None:
            self._on_taken(flight)
        else:
            self._end_streak(flight)
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
        hint, astray = self._hint(work, built)
        job = Job(
            id=0,
            buffer=f"{ticket.client.hex()}/{ticket.request.document}",
            client=ticket.client.hex(),
            prompt=built.prompt,
            max_tokens=built.max_tokens,
            sampling=settings_of(work, candidate)[0],
            stop=built.stop,
            hint=hint,
            astray=astray,
            priority=priority,
            scored=ticket.request.n > 1,
        )
        run = self._engine.submit(job)
        self.sources.around(ticket, work.buffer, built)
        key, answers = key_of(work, candidate), work.buffer.answers
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
                kept=kept.kept,
                closers=kept.closers,
                invoked=ticket.request.trigger == "invoked",
            )
            work.prompt_ns = time.monotonic_ns() - started
        return work.built

    def _hint(self, work: Work, built: Built) -> tuple[tuple[int, ...], bool]:
        """What the buffer's last run predicts to follow the new prompt, its healed part first, or
        (True) somewhere behind what contradicts it."""
        flight = work.buffer.flight
        if flight is None:
            return (), False
        text, astray = predicted(self._text(flight, ""), flight, work.ticket.snapshot)
        whole = text if astray or not text else built.healed + text
        return tuple(self._prompts.tokenizer.encode(whole)), astray

    async def _follow(self, flight: Flight, work: Work, tell: Tell | None) -> Answer | None:
        """Its answer at the request's cursor; None if it contradicts what was typed, or is too old.

        Text that nobody reads on the way is decoded only once, at the end.
        """
        ticket = work.ticket
        typed = typed_at(flight, ticket.snapshot)
        assert typed is not None, "only a run that fits is followed"
        if self._watcher is not None:
            self._watcher.follows(work, flight)
        if typed or tell or ticket.enough_ns:
            async for _ in flight.run:
                rest = remainder(self._text(flight, ""), typed)
                if rest is None:
                    self._engine.cancel(flight.run, "abandoned")
                    return None
                if tell and rest:
                    tell(rest)
                if (lines := self._lines(flight, ticket, rest)) is not None:
                    return lines
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
        return Answer(rest or "", shown, outcome.reason, flight.cost(outcome))

    def _lines(self, flight: Flight, ticket: Ticket, text: str) -> Answer | None:
        """The whole lines of what has been said, if they are enough by now: the run goes on, when
        nobody asks for another one, for the request that comes when they are accepted."""
        if not ticket.enough_ns or time.monotonic_ns() < ticket.enough_ns or flight.run.over:
            return None
        raw = text.rpartition("\n")[0]
        shown, _ = clean(raw, ticket.snapshot)
        if not shown:
            return None
        self._engine.demote(flight.run)
        self._counts["streak runs"] += not flight.counts
        flight.counts = flight.counts or "streak hits"
        flight.streak = len(flight.run.ids)
        return Answer(raw, shown, "line", flight.cost(flight.so_far()))

    def _end_streak(self, flight: Flight) -> None:
        """A run that went on for nobody is over, or a request has taken it."""
        if flight.streak is not None:
            self._counts["streak tokens"] += len(flight.run.ids) - flight.streak
            flight.streak = None

    def _remember(self, flight: Flight, outcome: Outcome | None) -> None:
        """A run that came to its own end may answer later keys, whoever waited for it."""
        flight.final = outcome
        self._end_streak(flight)
        self._count_drafts(outcome)
        if self._watcher is not None and outcome is not None:
            self._watcher.ended(flight, outcome)
        if outcome is None or outcome.reason in UNFINISHED:
            return
        text = self._text(flight, outcome.reason)
        counts = flight.counts or ("superseded hits" if flight.left else "")
        flight.kept = Answered(flight.snapshot, flight.key, text, outcome.reason, counts)
        flight.answers.keep(flight.kept)

    def _count_drafts(self, outcome: Outcome | None) -> None:
        """Also of runs whose reply came before their end, or never."""
        for source, tokens in outcome.accepted.items() if outcome is not None else ():
            self._counts[f"accepted {source}"] += tokens

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
        return as_typed(stopping.trim(text, flight.built.stop, reason), flight.snapshot)
