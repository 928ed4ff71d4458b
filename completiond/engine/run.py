"""A run as the front sees it: ids that arrive, and one outcome. Knows asyncio, no processes.

Any number of readers may follow a run; a reader that goes away takes nothing from the others, and
nothing from the run.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import count

from completiond.core import Outcome
from completiond.engine.job import Done, Event, Failed, Job, Progress
from completiond.errors import CompletiondError, from_code


class Run:
    """One job on its way. `async for ids in run` yields everything from its first token on.

    `passes` and `prefilled` are what it had cost when its last ids came, `wrote` how many passes
    have brought ids. It was begun at `opened_ns`, and its first ids came at `first_ns` (0: not
    yet), of our monotonic clock.
    """

    __slots__ = (
        "_news",
        "_outcome",
        "first_ns",
        "ids",
        "job",
        "opened_ns",
        "passes",
        "prefilled",
        "wrote",
    )

    def __init__(self, job: Job) -> None:
        self.job = job
        self.ids: list[int] = []
        self.passes = 0
        self.prefilled = 0
        self.wrote = 0
        self.opened_ns = time.monotonic_ns()
        self.first_ns = 0
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._news: asyncio.Future[None] | None = None

    @property
    def over(self) -> bool:
        """Whether the device is free of it."""
        return self._outcome.done()

    @property
    def outcome(self) -> Awaitable[Outcome]:
        """The account of the run, once the device is free of it; raises the error it ended by.

        A reader that is cancelled while it waits leaves the run as it is.
        """
        return asyncio.shield(self._outcome)

    def __aiter__(self) -> "_Reader":
        return _Reader(self)

    def when_over(self, callback: Callable[[Outcome | None], None]) -> None:
        """Call back once the device is free of it; None stands for an error."""
        self._outcome.add_done_callback(
            lambda future: callback(None if future.exception() else future.result())
        )

    async def news(self) -> None:
        """Wait for more ids, or the end."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._news)

    def advance(self, news: Progress) -> None:
        self.first_ns = self.first_ns or time.monotonic_ns()
        self.ids.extend(news.ids)
        self.wrote += bool(news.ids)
        self.passes, self.prefilled = news.passes, news.prefilled
        self._tell()

    def end(self, result: Outcome | CompletiondError) -> None:
        """The one place where a run ends; a second end is ignored."""
        if self.over:
            return
        if isinstance(result, Outcome):
            self._outcome.set_result(result)
        else:
            self._outcome.set_exception(result)
            self._outcome.exception()  # seen: a run that nobody waits for is no warning
        self._tell()

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set_result(None)
            self._news = None


class _Reader:
    """One reader's place in a run."""

    __slots__ = ("_run", "_seen")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._seen = 0

    def __aiter__(self) -> "_Reader":
        return self

    async def __anext__(self) -> tuple[int, ...]:
        while self._seen == len(self._run.ids):
            if self._run.over:
                raise StopAsyncIteration
            await self._run.news()
        ids = tuple(self._run.ids[self._seen :])
        self._seen += len(ids)
        return ids


class Runs:
    """The runs of one engine that have not ended, by the id that they have at the door."""

    def __init__(self) -> None:
        self._open: dict[int, Run] = {}
        self._ids = count(1)
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._open)

    def open(self, job: Job) -> Run:
        """A new run, whose job gets an id of the door's own."""
        run = Run(replace(job, id=next(self._ids)))
        self._open[run.job.id] = run
        self._empty.clear()
        return run

    def apply(self, event: Event) -> None:
        """Hand an event to its run; events of runs that are over are late and of no use."""
        run = self._open.get(event.job)
        if run is None:
            return
        match event:
            case Progress():
                run.advance(event)
            case Done(_, outcome):
                self._close(run, outcome)
            case Failed(_, code, message):
                self._close(run, from_code(code, message))

    def fail_all(self, code: str, message: str) -> int:
        """End every open run with the same reason; how many there were."""
        failed = list(self._open.values())
        for run in failed:
            self._close(run, from_code(code, message))
        return len(failed)

    async def drained(self) -> None:
        await self._empty.wait()

    def _close(self, run: Run, result: Outcome | CompletiondError) -> None:
        del self._open[run.job.id]
        run.end(result)
        if not self._open:
            self._empty.set()
