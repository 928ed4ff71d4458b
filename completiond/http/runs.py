"""Ready prompts on the engine: each is a run of the client `http`, in a buffer of its own.

Knows the engine's door and text; knows no HTTP. Law: a run that nobody waits for is cancelled.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace

from completiond.config import Config
from completiond.core import Outcome, Prompt
from completiond.engine.desk import Engine
from completiond.engine.job import Job
from completiond.engine.run import Run
from completiond.errors import EngineLoading, Overloaded, RequestError, UnknownModel
from completiond.http.asked import Asked
from completiond.prompt import ready
from completiond.prompt.tokenizer import AnyTokenizer, StreamDecoder
from completiond.prompts import Prompts

CLIENT = "http"
ASKED = "http requests"
"""The name of their count; where there is no web server there is none."""
LATE_S = 0.2
"""How long after `max_ms` a run may still end by itself: an engine in a pass that does not end says
nothing."""
MOST = 4
"""Runs at a time; each has a buffer, and so a place in the KV cache."""


@dataclass(slots=True)
class Place:
    """A buffer of the engine, and the prompt that it had last."""

    name: str
    ids: tuple[int, ...] = ()
    taken: bool = False

    def shares(self, ids: tuple[int, ...]) -> int:
        """How much of a prompt need not be computed here."""
        both = zip(self.ids, ids, strict=False)
        return next((at for at, (a, b) in enumerate(both) if a != b), min(len(self.ids), len(ids)))


class Runs:
    """`open` once the model is there; until then requests are told to wait."""

    def __init__(self, config: Config, engine: Engine, counts: Counter[str]) -> None:
        self._config = config
        self._engine = engine
        self._counts = counts
        counts[ASKED] = 0
        self._prompts: Prompts | None = None
        self._places = [Place(f"{CLIENT}/{n}") for n in range(MOST)]

    @property
    def model(self) -> str:
        return str(self._engine.info.get("model", self._config.model.name))

    def open(self, prompts: Prompts) -> None:
        self._prompts = prompts

    async def start(self, asked: Asked) -> "Answer":
        """A run for the prompt. Raises why there is none."""
        if self._prompts is None:
            raise EngineLoading("The model is being loaded; ask again in a moment.")
        if asked.model not in ("", self.model, self._config.model.name):
            raise UnknownModel(
                f"This daemon serves {self.model}, not {asked.model!r:.80}; name that one."
            )
        builder, tokenizer = self._prompts
        reader = ready.ReadyPrompts(tokenizer, builder.template)
        prompt = await asyncio.to_thread(reader.read, asked.prompt)
        cursor = reader.cursor(asked.prompt)
        job = Job(
            id=0,
            buffer="",
            client=CLIENT,
            prompt=prompt,
            max_tokens=self._most(prompt, asked, builder.context),
            sampling=asked.sampling,
            stop=ready.rule(tokenizer, builder.stop_ids, asked.stop, cursor),
            max_ms=self._config.completion.max_ms,
        )
        return Answer(self._submit(job), self._engine, tokenizer)

    def _most(self, prompt: Prompt, asked: Asked, context: int) -> int:
        """Tokens that the answer may have; the least of what is asked, allowed and left."""
        wanted = (
            self._config.completion.max_tokens if asked.max_tokens is None else asked.max_tokens
        )
        left = context - len(prompt.ids)
        if left < 1:
            raise RequestError(
                f"The prompt has {len(prompt.ids)} tokens, but with its answer it must fit into "
                f"{context}; send less of it, or set model.context higher."
            )
        return min(wanted, self._config.http.max_tokens, left)

    def _submit(self, job: Job) -> Run:
        """In the free place that knows most of the prompt."""
        free = [place for place in self._places if not place.taken]
        if not free:
            raise Overloaded(f"{MOST} requests are being answered; ask again in a moment.")
        place = max(free, key=lambda place: place.shares(job.prompt.ids))
        run = self._engine.submit(replace(job, buffer=place.name))
        place.taken, place.ids = True, job.prompt.ids
        run.when_over(lambda _: self._free(place))
        self._counts[ASKED] += 1
        return run

    @staticmethod
    def _free(place: Place) -> None:
        place.taken = False


class Answer:
    """One run, as text. Whoever has it ends with `give_up`, which does nothing to one that is
    over."""

    def __init__(self, run: Run, engine: Engine, tokenizer: AnyTokenizer) -> None:
        self._run = run
        self._engine = engine
        self._decoder = StreamDecoder(tokenizer)
        self._until = asyncio.get_running_loop().time() + run.job.max_ms / 1e3 + LATE_S
        self.outcome = Outcome()

    async def pieces(self) -> AsyncIterator[str]:
        """Text as it becomes certain; with the last of it the outcome is there.

        Raises the error that the run ends by.
        """
        text, told, stop = "", 0, self._run.job.stop
        reader = aiter(self._run)
        while ids := await self._more(reader):
            text += self._decoder.feed(ids)
            certain = ready.sure(text, stop)
            if len(certain) > told:
                yield certain[told:]
                told = len(certain)
        self.outcome = await self._end()
        if rest := ready.said(text, stop, self.outcome.reason)[told:]:
            yield rest

    async def _more(self, reader: AsyncIterator[tuple[int, ...]]) -> tuple[int, ...]:
        """Empty at the end of the run, and of its time."""
        with suppress(StopAsyncIteration, TimeoutError):
            async with asyncio.timeout_at(self._until):
                return await anext(reader)
        return ()

    async def _end(self) -> Outcome:
        try:
            async with asyncio.timeout_at(self._until):
                return await self._run.outcome
        except TimeoutError:
            self.give_up()
            job, ids = self._run.job, list(self._run.ids)
            return Outcome(ids=ids, reason="timeout", prompt_tokens=len(job.prompt.ids))

    async def whole(self) -> str:
        return "".join([piece async for piece in self.pieces()])

    def give_up(self) -> None:
        if not self._run.over:
            self._engine.cancel(self._run, "abandoned")
