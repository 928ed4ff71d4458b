"""One run and the moment of the buffer that it was made for: what of it still holds at a later one.

Knows snapshots, prompts and text; starts nothing.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

from completiond.core import Outcome, Snapshot
from completiond.engine.run import Run
from completiond.moments import same_around, since, typed_since
from completiond.prompt.builder import Built, Kept
from completiond.reuse import Answered, Answers, remainder

BACK = 64
"""Characters that may have been taken back since a run, for its text still to be of use."""


class Spent(NamedTuple):
    """What of a run's cost has been told in a reply."""

    passes: int = 0
    prefilled: int = 0


@dataclass(slots=True, eq=False)
class Flight:
    """A run, and the moment of the buffer that it was made for.

    `origin` is the moment whose text after the cursor its prompt ends with. `counts` is what the
    first use of its answer is counted as, `left` whether nobody waits for it now, and `kept` its
    answer, once it has come to its own end. `final` is its account once it is over, `told` what
    replies have said that it cost, and `streak` the ids that it had when it began to go on for
    nobody.
    """

    run: Run
    snapshot: Snapshot
    built: Built
    key: Hashable
    answers: Answers
    origin: Snapshot
    counts: str = ""
    left: bool = False
    kept: Answered | None = None
    final: Outcome | None = None
    told: Spent = Spent()
    streak: int | None = None

    def cost(self, outcome: Outcome) -> Outcome:
        """What no reply has told yet of an account of this run; it has been told then."""
        told, self.told = self.told, Spent(outcome.passes, outcome.prefilled)
        passes, prefilled = outcome.passes - told.passes, outcome.prefilled - told.prefilled
        return replace(outcome, passes=passes, prefilled=prefilled)

    def so_far(self) -> Outcome:
        """The account of the run, as far as the front knows it."""
        if self.final is not None:
            return self.final
        run, prompt = self.run, len(self.built.prompt.ids)
        return Outcome(
            ids=list(run.ids),
            reason="line",
            prompt_tokens=prompt,
            reused=prompt - run.prefilled,
            prefilled=run.prefilled,
            passes=run.passes,
        )


class Hint(NamedTuple):
    """What a run that is over predicts to come next. `astray`: something else was typed, and this
    is what it had instead."""

    text: str = ""
    astray: bool = False


class Continued(NamedTuple):
    """What the next prompt takes over from the buffer's last one: the moment of its suffix, its
    layout, and closers in front of the suffix that belong to what was typed."""

    origin: Snapshot
    kept: Kept = Kept()
    closers: str = ""


def continued(flight: Flight | None, now: Snapshot) -> Continued:
    """What stays of the last prompt, where only what stands around the cursor has changed."""
    if flight is None:
        return Continued(now)
    found = since(flight.origin, now)
    kept = flight.built.kept
    if found is not None and not found.over:
        return Continued(flight.origin, kept, found.closers)
    if same_around(flight.origin, now):
        return Continued(now, kept)
    return Continued(now, kept._replace(prefix=None))


def typed_at(flight: Flight, now: Snapshot) -> str | None:
    """What was typed since the run was made; models write LF whatever the buffer's line ends."""
    typed = typed_since(flight.snapshot, now)
    return typed if typed is None else typed.replace("\r\n", "\n")


def on_its_way(ahead: Flight, now: Snapshot) -> bool:
    """Whether the buffer may still come to the moment that a run ahead was made for, or did."""
    after = typed_since(now, ahead.snapshot)
    return after is not None or typed_since(ahead.snapshot, now) is not None


def predicted(said: str, flight: Flight, now: Snapshot) -> Hint:
    """What the text of a run says at a later moment, be it that it was contradicted since."""
    typed = typed_at(flight, now)
    if typed is None:
        back = typed_since(now, flight.snapshot)  # a few characters were taken back
        return Hint(back + said, astray=True) if back and len(back) <= BACK else Hint()
    rest = remainder(said, typed)
    if rest is not None:
        return Hint(rest)
    same = next(at for at, char in enumerate(typed) if said[at : at + 1] != char)
    return Hint(said[same:], astray=True)
