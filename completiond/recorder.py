"""What the daemon knows of each key, noted where it happens: the reply, the run behind it.

A run's cost is told once: to the keys that it answered, each what no key before it has told, and
the rest to the last one. Knows tickets, replies and flights; what clients tell is in told.py.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from completiond.core import Outcome
from completiond.flight import Flight
from completiond.flights import Flights, Watcher
from completiond.protocol import messages as m
from completiond.record.rows import Drafted, Key, Pass, Said, Spelled
from completiond.record.stages import Course
from completiond.record.wall import now_ms
from completiond.remembered import Entry, Remembered
from completiond.reuse import Answered
from completiond.sessions import Ticket
from completiond.work import Answer, Work

LONGEST_PATH = 200
KEPT = 1_024
"""Requests whose reply is awaited, and runs whose cost is not told yet."""
SETTLED_S = 0.1
"""A run that is over belongs to the key that it answers, which is told in this time."""
ENDED = ("superseded", "abandoned")


class Editors(NamedTuple):
    """Whom a client serves, and where the model's name is found."""

    editor: Callable[[bytes], str]
    model: Callable[[], str]


@dataclass(slots=True)
class _How:
    """How a request came by its answers, so far."""

    kind: str
    work: Work
    answered: int
    flights: list[Flight] = field(default_factory=list)


@dataclass(slots=True)
class _Cost:
    """What has been told of a run, and the key that it belongs to now."""

    owner: Entry
    told: Outcome = field(default_factory=Outcome)
    wrote: int = 0
    closed: bool = False


class Recorder:
    """A watcher of flights that is also told of each reply. `beside` is another watcher, `spell`
    the text of tokens, which is asked for only if text is recorded."""

    def __init__(self, keys: Remembered, about: Editors, *, text: bool = False) -> None:
        self._keys = keys
        self._about = about
        self._text = text
        self.spell: Callable[[list[int]], str] | None = None
        self._how: OrderedDict[Ticket, _How] = OrderedDict()
        self._waits: OrderedDict[Ticket, tuple[Work, Flight]] = OrderedDict()
        self._costs: OrderedDict[int, _Cost] = OrderedDict()
        self.beside: Watcher | None = None

    # -- what flights tell ----------------------------------------------------------------------

    def answered(
        self, flights: Flights, work: Work, answer: Answer, source: Flight | Answered
    ) -> None:
        """A candidate, and the run or the kept answer that said it."""
        how = self._how.get(work.ticket)
        if how is None:
            how = self._how[work.ticket] = _How(_kind(work, source), work, 0)
            if len(self._how) > KEPT:  # of clients that are gone
                self._how.popitem(last=False)
        how.answered = time.monotonic_ns()
        if isinstance(source, Flight):
            how.flights.append(source)
        if self.beside is not None:
            self.beside.answered(flights, work, answer, source)

    def follows(self, work: Work, flight: Flight) -> None:
        """A request waits for a run: should it never be answered, that is where its time went."""
        self._waits[work.ticket] = work, flight
        if len(self._waits) > KEPT:
            self._waits.popitem(last=False)
        if self.beside is not None:
            self.beside.follows(work, flight)

    def ended(self, flight: Flight, outcome: Outcome) -> None:
        """A run is over."""
        if self.beside is not None:
            self.beside.ended(flight, outcome)

    # -- replies --------------------------------------------------------------------------------

    def replied(self, ticket: Ticket, reply: m.Completion | m.Failure, at: int) -> None:
        """A request was told this, at that moment of our monotonic clock, nanoseconds."""
        how, waited = self._how.pop(ticket, None), self._waits.pop(ticket, None)
        flights = how.flights if how is not None else [waited[1]] if waited is not None else []
        course = Course(ticket.arrived_ns, at)
        if waited is not None:
            course = course._replace(prompt=waited[0].prompt_ns)
        course = _course(course, how, flights)
        key = Key(
            at_ms=now_ms(),
            model=self._about.model(),
            editor=self._about.editor(ticket.client),
            kind=how.kind
            if how is not None
            else "refused"
            if _reason(reply) == "not_asked"
            else "none",
            text_us=_text_us(ticket, flights),
            **_asked(ticket),
            **_told(reply),
            **_times(course),
        )
        entry = self._keys.add(ticket.client, key, course)
        for one in flights:
            self._charge(one, entry)
        if self._text:
            entry.text = _said(ticket, reply)
        self._keys.put(entry)

    def _charge(self, flight: Flight, entry: Entry) -> None:
        """The run's cost that no key has told yet is this one's."""
        job = flight.run.job.id
        cost = self._costs.get(job)
        if cost is None:
            cost = self._costs[job] = _Cost(entry)
            while len(self._costs) > KEPT:
                self._costs.popitem(last=False)
            loop = asyncio.get_running_loop()
            flight.run.when_over(lambda _: _later(loop, self._close, flight))
        if not cost.closed:
            cost.owner = entry
            self._tell(cost, flight, flight.so_far())

    def _tell(self, cost: _Cost, flight: Flight, now: Outcome, **more: Any) -> None:
        entry, was, cost.told = cost.owner, cost.told, now
        wrote, cost.wrote = cost.wrote, flight.run.wrote
        key = entry.key
        entry.drafts = _more(entry.drafts, now, was)
        entry.passes += _passes(now, len(was.strip), self.spell if self._text else None)
        entry.key = replace(
            key,
            prompt=max(key.prompt, now.prompt_tokens),
            reused=max(key.reused, now.reused),
            prefilled=key.prefilled + now.prefilled - was.prefilled,
            generated=key.generated + len(now.ids) - len(was.ids),
            passes=key.passes + now.passes - was.passes,
            wrote=key.wrote + cost.wrote - wrote,
            drafted=sum(draft.drafted for draft in entry.drafts),
            held=sum(draft.held for draft in entry.drafts),
            **more,
        )

    def _close(self, flight: Flight) -> None:
        """The run is over: its last owner is told the rest, and what only the engine knew."""
        cost = self._costs.get(flight.run.job.id)
        if cost is None or cost.closed or flight.final is None:
            return
        cost.closed = True
        out, entry = flight.final, cost.owner
        more: dict[str, Any] = {}
        if out.reason in ENDED:
            more = {
                "free_us": out.cancel_to_free_ns // 1000,
                "after_cancel": out.tokens_after_cancel,
            }
        if entry.course is not None and entry.course.opened == flight.run.opened_ns:
            entry.course = _measured(entry.course, out)
            more |= _times(entry.course)
        self._tell(cost, flight, out, **more)
        cost.told = Outcome()
        self._keys.put(entry)

    def forget(self, client: bytes) -> None:
        """The client is gone: its requests get no reply."""
        for kept in (self._how, self._waits):
            for ticket in [ticket for ticket in kept if ticket.client == client]:
                del kept[ticket]


# -- facts -----------------------------------------------------------------------------------------


def _kind(work: Work, source: Flight | Answered) -> str:
    if source.counts == "prefetch hits":
        return "ahead"
    if isinstance(source, Answered):
        return "reuse"
    return "model" if source.snapshot is work.ticket.snapshot else "joined"


def _reason(reply: m.Completion | m.Failure) -> str:
    return reply.code if isinstance(reply, m.Failure) else reply.reason


def _asked(ticket: Ticket) -> dict[str, Any]:
    request = ticket.request
    return {
        "path": (request.path or request.document)[-LONGEST_PATH:],
        "language": request.language[-LONGEST_PATH:],
        "request": request.id,
        "position": request.offset + len(request.before),
        "trigger": request.trigger,
    }


def _told(reply: m.Completion | m.Failure) -> dict[str, Any]:
    if isinstance(reply, m.Failure):
        return {"reason": reply.code, "why": reply.code, "details": {"message": reply.message}}
    found = reply.candidates
    details: dict[str, Any] = {"ended": [one.reason for one in found]} if found else {}
    if len(found) > 1:
        details["characters"] = [len(one.text) for one in found]
    if reply.removed:
        details["removed"] = dict(reply.removed)
    return {
        "reason": reply.reason,
        "why": reply.why,
        "candidates": len(found),
        "shown": len(found[0].text) if found else 0,
        "details": details,
    }


def _said(ticket: Ticket, reply: m.Completion | m.Failure) -> Said:
    request = ticket.request
    answers = () if isinstance(reply, m.Failure) else tuple(one.text for one in reply.candidates)
    return Said(0, request.document, request.offset, request.before, request.after, answers)


def _course(course: Course, how: _How | None, flights: list[Flight]) -> Course:
    """The moments of a request: of its run, and those that the engine has told by now."""
    if how is not None:
        course = course._replace(answered=how.answered, prompt=how.work.prompt_ns)
    if not flights:
        return course
    run, final = flights[0].run, flights[0].final
    course = course._replace(opened=run.opened_ns, first=run.first_ns)
    course = _measured(course, final) if final is not None else course
    others = [flight.final for flight in flights[1:] if flight.final is not None]
    if course.decoded is None or not others:
        return course
    beside = sum(out.queued_ns + out.prefill_ns + out.decode_ns for out in others)
    return course._replace(decoded=course.decoded + beside)


def _measured(course: Course, out: Outcome) -> Course:
    """With what the engine says of the run."""
    times = {"queued": out.queued_ns, "prefilled": out.prefill_ns, "decoded": out.decode_ns}
    return course._replace(**times)


def _times(course: Course) -> dict[str, Any]:
    return {f"{name}_us": us for name, us in course.stages().items()}


def _text_us(ticket: Ticket, flights: list[Flight]) -> int | None:
    first = flights[0].run.first_ns if flights else 0
    return max(0, first - ticket.arrived_ns) // 1000 if first else None


def _later(
    loop: asyncio.AbstractEventLoop, close: Callable[[Flight], None], flight: Flight
) -> None:
    loop.call_later(SETTLED_S, close, flight)


def _passes(out: Outcome, told: int, spell: Callable[[list[int]], str] | None) -> tuple[Pass, ...]:
    """Those of the run behind the first `told`, their tokens as text if somebody spells them."""
    found, at = [], sum(committed for committed, *_ in out.strip[:told])
    for committed, drafts, nodes in out.strip[told:]:
        own, at = out.ids[at : at + committed], at + committed
        words = _words(own, nodes, spell) if spell is not None else ()
        found.append(Pass(committed, tuple(Drafted(*draft) for draft in drafts), words))
    return tuple(found)


def _words(
    ids: list[int], nodes: Sequence[Any], spell: Callable[[list[int]], str]
) -> tuple[Spelled, ...]:
    """What a pass committed, drafted tokens before the model's own one, and what did not hold."""
    kept = [source for _, source, held in nodes if held]
    sources = [*kept, *[""] * len(ids)]
    said = [Spelled(spell([one]), source, True) for one, source in zip(ids, sources, strict=False)]
    lost = [Spelled(spell([one]), source, False) for one, source, held in nodes if not held]
    return (*said, *lost)


def _more(drafts: tuple[Drafted, ...], now: Outcome, was: Outcome) -> tuple[Drafted, ...]:
    """What the key's sources proposed, and that which the run has told since."""
    if now.drafted == was.drafted:
        return drafts
    have = {draft.source: draft for draft in drafts}
    for source in now.drafted:
        old = have.get(source, Drafted(source, 0, 0))
        have[source] = Drafted(
            source,
            old.drafted + now.drafted[source] - was.drafted.get(source, 0),
            old.held + now.accepted.get(source, 0) - was.accepted.get(source, 0),
        )
    return tuple(have.values())
