"""An editor with llama.vim: when it asks llama-server, and when it does not (2026-01-31, a1c8e6e).

At each key the hint is hidden and looked for in the memory. One request is on its way at a time: it
is never cancelled, and what comes meanwhile is tried again 100 ms later. The first request may
decode for 250 ms; once its answer is drawn, a second one (1,000 ms) asks for what would follow it.
Nothing is asked with more than 8 characters behind the cursor.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Protocol

from replay_account import Account, Ran
from replay_llama_server import Reply
from replay_llama_text import Local, Memory, drawn, keys_of, local
from replay_screen import Screen, Suggestion
from replay_traces import Desk, Moment, Step

from completiond.errors import EngineDied

FIRST_MS, NEXT_MS = 250, 1000
LONGEST_REST = 8
RETRY_S = 0.1


class Infill(Protocol):
    """What answers requests: a llama-server."""

    def infill(self, here: Local, predict_ms: int) -> Reply:
        """The answer. Raises EngineDied."""


@dataclass(slots=True)
class LlamaVim:
    """An editor with llama.vim. It hides its hint at each key and finds it again in its memory."""

    server: Infill
    screen: Screen = field(default_factory=lambda: Screen(keeps=False))
    account: Account = field(default_factory=Account)
    _memory: Memory = field(default_factory=Memory)
    _moment: Moment | None = None
    _job: asyncio.Task[None] | None = None
    _timer: asyncio.TimerHandle | None = None
    _trouble: EngineDied | None = None

    async def open(self, name: str, here: Desk) -> None:
        self.screen = Screen(keeps=False)
        self._memory, self._moment = Memory(), None

    def before(self) -> None:
        pass  # it lets a request run

    def after(self, old: Moment | None, step: Step, new: Moment) -> None:
        self._moment = new
        if step.opened:
            return
        self._draw("cache")
        self._fim(None)

    def _draw(self, by: str, prefilled: int = 0) -> None:
        """Draw what the memory has for the cursor, and ask for what would follow it."""
        moment = self._moment
        assert moment is not None, "there is a cursor before there is a hint"
        here = local(moment)
        found = self._memory.find(here)
        text = drawn(found, here, moment) if found is not None else ""
        if text:
            self.screen.show(Suggestion(text, 0, by, prefilled), time.perf_counter())
            self._fim(text)

    def _fim(self, shown: str | None) -> None:
        """Ask, unless a request is on its way: then again in a moment."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._job is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(RETRY_S, self._fim, shown)
            return
        moment = self._moment
        if moment is None:
            return
        here = local(moment, shown)
        if len(here.rest) > LONGEST_REST and shown is None:
            return
        names = keys_of(here)
        if not any(self._memory.get(name) is not None for name in names):
            self._job = asyncio.create_task(self._ask(here, names, shown is not None))

    async def _ask(self, here: Local, names: list[str], speculative: bool) -> None:
        limit_ms = NEXT_MS if speculative else FIRST_MS
        try:
            reply = await asyncio.to_thread(self.server.infill, here, limit_ms)
        except EngineDied as exc:
            self._trouble = exc
            return
        finally:
            self._job = None
        self._note(reply)
        self._memory.put(names, reply.text)
        if self._moment is not None and self.screen.shown is None:
            self._draw("pass", reply.prefilled)

    def _note(self, reply: Reply) -> None:
        ident = len(self.account.answers) + 1
        self.account.versions[ident] = 0
        self.account.answers[ident] = Ran(1, reply.prefilled, "ok")

    def tell(self, old: Moment | None, step: Step, new: Moment) -> None:
        pass  # a request is self-contained

    async def answer(self, new: Moment) -> Suggestion | None:
        here = local(new)
        known = self._memory.find(here)
        reply = await asyncio.to_thread(self.server.infill, here, FIRST_MS)
        self._note(reply)
        self._memory.put(keys_of(here), reply.text)
        text = drawn(reply.text, here, new)
        return Suggestion(text, 0, "cache" if known else "pass", reply.prefilled)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._moment = None
        if self._job is not None:
            await asyncio.wait([self._job])
        if self._trouble is not None:
            raise self._trouble
