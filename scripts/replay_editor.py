"""VS Code, as far as completions go: when it asks, what it cancels first, what it keeps showing.

It cancels before it tells a change, asks some milliseconds after each change and never twice at
once, hides the ghost when the cursor jumps, and keeps one that is typed through whatever a newer
answer says. Knows one `Source` of suggestions; the person at the keys is `type_trace`.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol

from replay_account import Account
from replay_screen import Screen, Suggestion
from replay_traces import Desk, Moment, Step, Trace, desk

ASK_S = 0.030
"""VS Code asks 15 to 45 ms after a change."""
LAST_S = 2.0
"""How long the last key of a trace is waited for."""


class Source(Protocol):
    """Where an editor's completions come from."""

    account: Account

    async def open(self, name: str, moments: list[Moment]) -> None: ...
    def opened(self, moment: Moment) -> None: ...
    def change(self, old: Moment, step: Step, new: Moment) -> None: ...
    def cancel(self) -> None:
        """End what is being asked, before the editor's text changes."""

    async def ask(self, moment: Moment) -> Suggestion | None: ...
    def shown(self) -> None:
        """The last answer has been drawn."""

    async def close(self) -> None: ...


class Seat(Protocol):
    """An editor with its completions, in front of which a person can sit down."""

    screen: Screen

    @property
    def account(self) -> Account: ...

    async def open(self, name: str, here: Desk) -> None: ...
    def before(self) -> None:
        """A key is pressed; the text is still the old one."""

    def after(self, old: Moment | None, step: Step, new: Moment) -> None: ...
    def tell(self, old: Moment | None, step: Step, new: Moment) -> None:
        """The change alone: nothing is asked for it."""

    async def answer(self, new: Moment) -> Suggestion | None:
        """The answer for this moment, however long it takes; without the client's own memory."""

    async def close(self) -> None: ...


@dataclass(slots=True)
class VsCode:
    source: Source
    ask_s: float = ASK_S
    screen: Screen = field(default_factory=Screen)
    waits: list[float] = field(default_factory=list)
    """Seconds from each request to its answer or its end; not of those that memory answered."""
    _asking: asyncio.Task[None] | None = None

    @property
    def account(self) -> Account:
        return self.source.account

    async def open(self, name: str, here: Desk) -> None:
        self.screen = Screen()
        await self.source.open(name, list(here.moments.values()))

    def before(self) -> None:
        if self._asking is not None and not self._asking.done():
            self.source.cancel()
            self._asking.cancel()
        self._asking = None

    def after(self, old: Moment | None, step: Step, new: Moment) -> None:
        self.tell(old, step, new)
        if step.edits:
            self._asking = asyncio.create_task(self._ask(new))

    def tell(self, old: Moment | None, step: Step, new: Moment) -> None:
        if step.opened or old is None:
            self.source.opened(new)
        elif step.edits:
            self.source.change(old, step, new)

    async def _ask(self, moment: Moment) -> None:
        await asyncio.sleep(self.ask_s)
        asked, suggestion = time.perf_counter(), None
        try:
            suggestion = await self.source.ask(moment)
        finally:  # one that is cancelled has been waited for, too
            if suggestion is None or not suggestion.free:
                self.waits.append(time.perf_counter() - asked)
        self.screen.show(suggestion, time.perf_counter())
        if suggestion is not None:
            self.source.shown()

    async def answer(self, new: Moment) -> Suggestion | None:
        return await self.source.ask(new)

    async def close(self) -> None:
        self.before()
        await self.source.close()


async def type_trace(trace: Trace, seat: Seat, speed: float = 1.0) -> float:
    """Press the trace's keys at their times; the most milliseconds by which one came late."""
    here = desk(trace)
    await seat.open(trace.name, here)
    screen, latest = seat.screen, 0.0
    started = time.perf_counter()
    for number, step in enumerate(trace.steps):
        due = started + step.at_s / speed
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        now = time.perf_counter()
        latest = max(latest, now - due)
        seat.before()
        old, new = here.moments.get(step.document), here.apply(step)
        screen.step(number, step, old, new, now)
        seat.after(old, step, new)
    await asyncio.sleep(LAST_S / speed)
    screen.end(time.perf_counter())
    await seat.close()
    return latest * 1000
