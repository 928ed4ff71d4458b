"""replay.py --virtual: the keystroke path in virtual time, for counts on any machine.

The front, the prompts and the vocabulary are the real ones; the engine's passes cost what `Costs`
says, and its answers are made from the trace's own text: right for a while, then something else
that is in the file. So counts of runs, passes and tokens come out the same every time, and how good
answers are is not measured.
"""

import asyncio
import random
import selectors
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from replay_account import Account, merged
from replay_context import Gathering
from replay_context import figures as context_figures
from replay_editor import VsCode, type_trace
from replay_metrics import figures, judge, wire_figures
from replay_ours import DaemonSource
from replay_traces import FOLDERS, Moment, Step, Trace, ahead

from completiond import config
from completiond.commands.start import start_of
from completiond.core import CancelReason, CancelToken
from completiond.daemon import Daemon
from completiond.engine.desk import Start
from completiond.engine.job import Job
from completiond.engine.run import Run, Runs
from completiond.engine.scripted import Script, ScriptedCore
from completiond.engine_process import rules_for
from completiond.errors import EngineError
from completiond.prompts import Prompts, prompts_of
from completiond.protocol import codec
from completiond.protocol import messages as m

FAR = 400
"""Characters that one looks ahead."""
LONGEST_S = 60.0
"""What a thread may take, of real time."""
CLOCKS = {"monotonic": 1.0, "perf_counter": 1.0, "monotonic_ns": 1e9, "perf_counter_ns": 1e9}


class Costs(NamedTuple):
    """Of the 0.5b on two cores: milliseconds of a pass and of each row of prefill in it."""

    pass_ms: float = 18.0
    row_ms: float = 0.85
    rows: int = 48


class _Selector(selectors.DefaultSelector):
    """Waits by moving the clock. Without a time only threads are waited for, at the start."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            news = super().select(LONGEST_S)
            assert news, "everybody waits for somebody else"
            return news
        self.now += timeout + 1e-6 if timeout > 0 else 0.0
        return super().select(0)


@contextmanager
def _clock(selector: _Selector) -> Iterator[None]:
    real = {name: getattr(time, name) for name in CLOCKS}
    for name, unit in CLOCKS.items():
        kind = int if unit > 1 else float
        setattr(time, name, lambda unit=unit, kind=kind: kind(selector.now * unit))
    try:
        yield
    finally:
        for name, clock in real.items():
            setattr(time, name, clock)


@dataclass(slots=True)
class Person:
    """Where in the trace one is: what the text will be is what answers are made from."""

    trace: Trace
    number: int = -1
    moment: Moment | None = None

    def answer(self, job: Job, before: str) -> str:
        """What the engine says behind `before`; the same for the same key of the same trace."""
        if self.moment is None:
            return ""
        chance = random.Random(zlib.crc32(f"{self.trace.name} {self.number}".encode()))
        future = self._future(before)
        right = future[: int(chance.expovariate(1 / 6)) if chance.random() < 0.8 else 0]
        if future and right == future:
            return right + "\n"
        lines = [line for line in self.moment.text.split("\n") if len(line.strip()) > 8] or [""]
        at = chance.randrange(len(lines))
        other = "\n".join(lines[at : at + chance.choice([1, 1, 2, 4])]).strip()
        return right + chance.choice(["", "_"]) + other + "\n"

    def _future(self, before: str) -> str:
        """What will be typed behind `before`, which may have an accepted answer at its end."""
        assert self.moment is not None, "a person has a text"
        text, cursor = self.moment.text, self.moment.cursor
        moments = list(ahead(self.trace.steps, self.number, text[cursor : cursor + FAR]))
        typed = moments[-1].typed if moments else ""
        here = text[max(0, cursor - FAR) : cursor]
        extra = before[before.rfind(here) + len(here) :] if here and here in before else ""
        return typed[len(extra) :] if typed.startswith(extra) else ""


class _Core(ScriptedCore):
    def __init__(self, costs: Costs) -> None:
        super().__init__(
            Script(prefill_tokens_per_pass=costs.rows, tokens_per_pass=2, context=1 << 20)
        )
        self.said: dict[int, tuple[int, ...]] = {}

    def _answer(self, job: Job) -> tuple[int, ...]:
        return self.said.pop(job.id)


class _Engine:
    """The door to a core whose passes take virtual time."""

    state: Any = "ready"

    def __init__(self, prompts: Prompts, person: Person, costs: Costs) -> None:
        self.info: dict[str, Any] = {"model": "virtual"}
        self._costs, self._person, self._tokenizer = costs, person, prompts.tokenizer
        self._rules = rules_for(prompts.tokenizer)
        self._core, self._runs = _Core(costs), Runs()
        self._tokens: dict[int, CancelToken] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._work())

    async def ready(self) -> None:
        pass

    def submit(self, job: Job) -> Run:
        run = self._runs.open(job)
        ids, segments = job.prompt.ids, job.prompt.segments
        text = [s for s in segments if s.kind in ("prefix", "typed")]
        before = "".join(self._tokenizer.decode(ids[s.start : s.end]) for s in text)
        said = job.prompt.healed + self._person.answer(job, before + job.prompt.healed)
        self._core.said[run.job.id] = tuple(self._tokenizer.encode(said))
        token = self._tokens[run.job.id] = CancelToken()
        self._core.admit(run.job, self._rules(run.job), token)
        self._news.set()
        return run

    def cancel(self, run: Run, reason: CancelReason, grace_s: float = 0.0) -> None:
        if not run.over:
            self._tokens[run.job.id].cancel(reason, grace_s)

    def revive(self, run: Run) -> None:
        if not run.over:
            self._tokens[run.job.id].revive()

    def demote(self, run: Run) -> None:
        if not run.over:
            self._tokens[run.job.id].demote()

    def read(self, owner: str, name: str, text: str) -> None:
        """Text for drafts, which this engine's made-up passes have none of."""

    async def stats(self) -> dict[str, Any]:
        return self._core.stats()

    async def stop(self, drain: bool) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        while True:
            if not self._core.busy:
                self._news.clear()
                await self._news.wait()
            before = self._core.stats()
            events = self._core.step()
            now = self._core.stats()
            passes, rows = (now[name] - before[name] for name in ("passes", "prefilled"))
            await asyncio.sleep((passes * self._costs.pass_ms + rows * self._costs.row_ms) / 1000)
            for event in events:
                self._runs.apply(event)


class _Line:
    """Daemon and client without a socket between them."""

    def __init__(self) -> None:
        self.on_lost = lambda: None
        self.account = Account()
        self.daemon: Daemon | None = None
        self._ids = 0
        self._waits: dict[int, asyncio.Future[m.FromDaemon]] = {}

    async def receive(self) -> tuple[bytes, bytes]:
        raise AssertionError("messages are handed over, not received")

    def send(self, identity: bytes, payload: bytes) -> bool:
        message = codec.decode_from_daemon(payload)
        self.account.take(message)
        if isinstance(message, m.Completion | m.Failure):
            wait = self._waits.pop(message.id, None)
            if wait is not None and not wait.done():
                wait.set_result(message)
        return True

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    async def complete(self, message: m.Complete, **_: Any) -> m.Completion:
        wait = self._waits[message.id] = asyncio.get_running_loop().create_future()
        self._tell(message)
        reply = await wait
        if not isinstance(reply, m.Completion):
            raise EngineError("The daemon refused a request.")
        return reply

    def cancel(self, ident: int, reason: CancelReason) -> None:
        self._tell(m.Cancel(ident, reason))

    def feedback(self, told: m.Feedback) -> None:
        self._tell(told)

    def _tell(self, message: m.FromClient) -> None:
        assert self.daemon is not None, "a line has a daemon at its other end"
        self.daemon.handle(b"editor", codec.encode(message))


class _Source(DaemonSource):
    """Asks over a line, and lets the person know where they are."""

    def __init__(self, line: _Line, person: Person, context: Gathering | None) -> None:
        super().__init__("ipc:///nobody")
        self._client: Any = line
        self.account = line.account
        self._person, self._context = person, context
        self._preparing: asyncio.Task[None] | None = None
        if context is not None:
            context.prepare = self._prepare

    async def open(self, name: str, moments: list[Moment]) -> None:
        await super().open(name, moments)
        if self._context is not None:
            self._context.open(name, moments)

    def opened(self, moment: Moment) -> None:
        self._person.moment = moment
        if self._context is not None:
            self._context.opened(moment)

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        self._person.number = self._person.trace.steps.index(step, max(0, self._person.number))
        self._person.moment = new
        super().change(old, step, new)
        if self._context is not None:
            self._context.change(old, step, new)

    def message(self, ident: int, moment: Moment) -> m.Complete:
        message = super().message(ident, moment)
        return message if self._context is None else self._context.with_context(moment, message)

    async def _complete(self, ident: int, moment: Moment) -> m.Completion | None:
        reply = await super()._complete(ident, moment)
        if reply is not None and self._context is not None:
            self._context.told(reply.unknown)
        return reply

    def _prepare(self, moment: Moment) -> None:
        """Ask for what nobody has asked for, so that the next key finds it computed."""
        if self._asking is None and self._context is not None:
            ident = self._client.next_id()
            self._context.warm.append(ident)
            self._preparing = asyncio.create_task(self._only_compute(ident, moment))

    async def close(self) -> None:
        await super().close()
        if self._preparing is not None:
            self._preparing.cancel()

    async def _only_compute(self, ident: int, moment: Moment) -> None:
        await self._complete(ident, moment)


def virtual(traces: Sequence[Trace], arguments: Any) -> dict[str, Any]:
    """Types every trace at a daemon of its own; the figures that depend on no machine."""
    flags = {"model.name": arguments.model, "engine.device": "cpu"}
    flags |= {"completion.layout": arguments.layout} if arguments.layout else {}
    settings = config.load(flags)
    scripted = arguments.engine == "scripted"
    prompts = prompts_of(settings, Start("scripted") if scripted else start_of(settings))
    selector = _Selector()
    with _clock(selector):
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            found = []
            for trace in traces:
                context = gathering(arguments) if arguments.context else None
                found.append((*runner.run(_one(trace, settings, prompts, context)), context))
    judged, accounts, counts, contexts = zip(*found, strict=True)
    total = sum(counts, Counter[str]())
    engine = Counter({f"daemon {name}": n for name, n in total.items()})
    in_pauses = context_figures(contexts, accounts) if arguments.context else {}
    return figures(judged) | wire_figures(merged(accounts), engine) | in_pauses


def gathering(arguments: Any) -> Gathering:
    return Gathering(arguments.context, arguments.folder or FOLDERS)


async def _one(
    trace: Trace, settings: config.Config, prompts: Prompts, context: Gathering | None
) -> tuple[Any, Account, Any]:
    person, line = Person(trace), _Line()
    engine = _Engine(prompts, person, Costs())
    line.daemon = Daemon(settings, engine, line)
    await line.daemon.open(lambda: prompts)
    seat = VsCode(_Source(line, person, context))
    await type_trace(trace, seat)
    await engine.stop(drain=False)
    return judge(trace, seat.screen.keys), line.account, line.daemon.counts
