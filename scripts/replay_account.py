"""What the wire says about each request: passes, prefill, cancels, and when the device was free.

Knows messages only. One account per client; `Account.take` sees what goes both ways.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from completiond.protocol import messages as m


class Ran(NamedTuple):
    """A request that got an answer, or a run that ended without one."""

    passes: int
    prefilled: int
    reason: str


@dataclass(slots=True)
class Account:
    versions: dict[int, int] = field(default_factory=dict)
    answers: dict[int, Ran] = field(default_factory=dict)
    reasons: dict[int, set[str]] = field(default_factory=dict)
    acks: dict[int, m.Cancelled] = field(default_factory=dict)
    accepted: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)

    def take(self, message: m.Message) -> None:
        match message:
            case m.Complete():
                self.versions[message.id] = message.version
            case m.Cancel():
                self.reasons.setdefault(message.id, set()).add(message.reason)
            case m.Cancelled():
                if message.was in ("queued", "running"):  # a second cancel finds it finished
                    self.acks[message.id] = message
            case m.Failure():
                self.failures[message.code] += 1
                self.answers[message.id] = Ran(0, 0, message.code)
            case m.Completion():
                tokens = message.tokens
                ran = Ran(tokens.get("passes", 0), tokens.get("prefilled", 0), message.reason)
                self.answers[message.id] = ran
                self.accepted.update(message.accepted)

    def passes(self, ident: int, version: int) -> int:
        """Passes that the daemon ran for this request at this version; 0 if it was not asked."""
        asked = self.versions.get(ident) == version
        return self.answers[ident].passes if asked and ident in self.answers else 0

    # -- figures --------------------------------------------------------------------------------

    def runs(self) -> list[Ran]:
        """Everything that ran a pass, answered or cancelled, each run once.

        A run that a later request took over is in that request's account. What a request pays of
        a run that another reply has begun to tell is no run of its own: nothing is prefilled in it.
        """
        ended = [Ran(ack.passes, ack.prefilled, "cancelled") for ack in self.acks.values()]
        return [ran for ran in [*self.answers.values(), *ended] if ran.passes and ran.prefilled]

    def superseded(self) -> tuple[int, int]:
        """Runs that were superseded on the device, and how many of them a later request used."""
        running = [
            ack
            for ident, ack in self.acks.items()
            if ack.was == "running" and "superseded" in self.reasons.get(ident, ())
        ]
        return len(running), sum(1 for ack in running if not ack.passes)

    def freed(self) -> list[m.Cancelled]:
        """Acknowledgements of runs that a cancel ended; one that came to its own end took none."""
        return [ack for ack in self.acks.values() if ack.was == "running" and ack.free_ms > 0]

    def queued(self) -> list[m.Cancelled]:
        return [ack for ack in self.acks.values() if ack.was == "queued"]


def merged(accounts: Iterable[Account]) -> Account:
    """One account of several clients; ids are made unique."""
    total = Account()
    for number, account in enumerate(accounts):
        base = number << 40
        total.versions.update({base + i: v for i, v in account.versions.items()})
        total.answers.update({base + i: v for i, v in account.answers.items()})
        total.reasons.update({base + i: v for i, v in account.reasons.items()})
        total.acks.update({base + i: v for i, v in account.acks.items()})
        total.accepted.update(account.accepted)
        total.failures.update(account.failures)
    return total
