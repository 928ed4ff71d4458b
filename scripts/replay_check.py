"""replay.py check: is an answer that was reused the answer that would have been computed.

Traces are typed in real time at a daemon whose front is in this process; every answer is kept with
the run that said it. Then some are computed again, with an empty cache, without drafts, from the
prompt that has the same anchor; `Again` classes each difference where the tokens part.
"""

import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from replay_editor import VsCode, type_trace
from replay_metrics import share
from replay_ours import DaemonSource
from replay_traces import Trace

from completiond import config, engine_process
from completiond.commands.start import start_of
from completiond.core import CancelToken, Outcome, Snapshot
from completiond.daemon import Daemon
from completiond.engine.desk import Start
from completiond.engine.door import ProcessEngine
from completiond.engine.job import Done, Job
from completiond.engine.model_core import ModelCore
from completiond.flight import Flight
from completiond.flights import Flights
from completiond.model.kv_cache import Slot
from completiond.postprocess.clean import clean
from completiond.prompt import stopping
from completiond.prompt.builder import Built
from completiond.prompts import prompts_of
from completiond.reuse import Answered
from completiond.transport import Listener
from completiond.work import Answer, Work

CHUNK = 128
TOGETHER = 8
"""References that are computed side by side; each has a slot of its own, empty at first."""
PASS_MS = 1000.0
"""Nobody waits for a cancel here: prompts are computed in wide passes."""
FRESH = "fresh"


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that the daemon gave, the run whose text it is, and the prompt of its own key."""

    snapshot: Snapshot
    how: str
    shown: str
    built: Built
    ids: tuple[int, ...]
    prompt: Built


class Watch:
    """Notes how each answer of a daemon's flights came about."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        self._runs: dict[int, tuple[Flight, tuple[int, ...]]] = {}

    def ended(self, flight: Flight, outcome: Outcome) -> None:
        self._runs[id(flight.snapshot)] = flight, tuple(outcome.ids)

    def follows(self, work: Work, flight: Flight) -> None:
        """Only answers count."""

    def answered(
        self, flights: Flights, work: Work, answer: Answer, source: Flight | Answered
    ) -> None:
        if not answer.shown:
            return
        now = work.ticket.snapshot
        if isinstance(source, Flight):
            flight, ids = source, tuple(answer.outcome.ids)
            how = "hint" if flight.run.job.hint else FRESH
            how = how if flight.snapshot is now else "join"
        else:
            how = "reuse"
            flight, ids = self._runs[id(source.snapshot)]
        # What would have been asked here, the anchor staying where that run has it.
        prompt = flight.built if flight.snapshot is now else flights.prompt_of(work, flight)
        self.given.append(Given(now, how, answer.shown, flight.built, ids, prompt))


# -- typing ---------------------------------------------------------------------------------------


def check(traces: Sequence[Trace], arguments: Any) -> dict[str, Any]:
    """`keys` answers (default 500), those that were reused first; prints each difference."""
    flags = {"model.name": arguments.model, "engine.device": "cpu"}
    flags |= {"engine.threads": arguments.threads} if arguments.threads else {}
    flags |= {"completion.layout": arguments.layout} if arguments.layout else {}
    settings = config.load(flags)
    start = start_of(settings)
    given = asyncio.run(_typed(traces, settings, start, arguments.speed))
    chosen = _sample(given, arguments.keys or 500)
    alone = replace(settings.engine, speculation="off", pass_ms=PASS_MS)
    again = Again(replace(settings, engine=alone), start, arguments.noise)
    classes: dict[str, Counter[str]] = {}
    for begin in range(0, len(chosen), TOGETHER):
        group = chosen[begin : begin + TOGETHER]
        for one, verdict in zip(group, again.verdicts(group), strict=True):
            classes.setdefault(one.how, Counter())[verdict] += 1
        print(f"{begin + len(group)} of {len(chosen)} computed", file=sys.stderr, flush=True)
    return _report(classes, Counter(one.how for one in given))


def _sample(given: list[Given], most: int) -> list[Given]:
    """Reused answers before those that were computed: the latter only show what chance does."""
    chance = random.Random(0)
    reused = [one for one in given if one.how != FRESH]
    others = [one for one in given if one.how == FRESH]
    chosen = chance.sample(reused, min(most, len(reused)))
    return chosen + chance.sample(others, min(max(0, most - len(chosen)), len(others)))


def _report(classes: dict[str, Counter[str]], given: Counter[str]) -> dict[str, Any]:
    total = sum(classes.values(), Counter())
    keys = total.total()
    for how, verdicts in sorted(classes.items()):
        print(f"{how:>8} (of {given[how]}): {dict(verdicts)}")
    return {
        "keys": keys,
        "given": dict(given),
        "by_origin": {how: dict(verdicts) for how, verdicts in classes.items()},
        **{f"{name}_share": share(total[name], keys) for name in ("equal", "cut")},
        **{f"{name}_share": share(total[name], keys) for name in ("numeric", "tokenisation")},
        "bugs": total["bug"],
    }


async def _typed(
    traces: Sequence[Trace], settings: config.Config, start: Start, speed: float
) -> list[Given]:
    """Type the traces at a daemon whose front is here; all that it answered."""
    with tempfile.TemporaryDirectory(prefix="completiond-check-") as folder:
        async with Listener(f"ipc://{folder}/daemon.sock") as listener:
            engine = ProcessEngine(start)
            daemon = Daemon(settings, engine, listener)
            reader = asyncio.create_task(daemon.serve())
            watch = Watch()
            await daemon.open(partial(prompts_of, settings, start), watch)
            try:
                async with DaemonSource(listener.endpoint) as source:
                    for trace in traces:
                        await type_trace(trace, VsCode(source), speed)
                        print(f"{trace.name}: {len(watch.given)}", file=sys.stderr, flush=True)
            finally:
                reader.cancel()
                await daemon.close()
    return watch.given


# -- again ----------------------------------------------------------------------------------------


class Again:
    """Answers computed from nothing: an empty slot, no drafts, nothing remembered.

    A difference is `numeric` behind the same tokens with logits nearer than the noise,
    `tokenisation` behind the same text in other tokens (typed text is encoded alone, said text was
    not), else a `bug`. It is none, but a `cut`, as far as both go: a limit or a stop rule counts
    from another key.
    """

    def __init__(self, settings: config.Config, start: Start, noise: float) -> None:
        self._noise = noise
        plain = replace(start, config=asdict(settings))
        self._core, self._rules, _ = engine_process.load(asdict(plain))
        self._tokenizer = prompts_of(settings, start).tokenizer

    def verdicts(self, group: Sequence[Given]) -> list[str]:
        """They share passes, which changes no row of them, and nothing else."""
        ran = self._run([given.prompt for given in group])
        return [self._verdict(given, *one) for given, one in zip(group, ran, strict=True)]

    def _verdict(self, given: Given, ids: list[int], reason: str) -> str:
        said = self._tokenizer.decode(ids)
        text = stopping.trim(said, given.prompt.stop, reason)
        shown, _ = clean(text, given.snapshot)
        if shown == given.shown:
            return "equal"
        if shown.startswith(given.shown) or given.shown.startswith(shown):
            return "cut"
        found, where = self._class(ids, given)
        print(
            f"{found} ({given.how}{where}): given {given.shown!r:.70} computed {shown!r:.70}",
            file=sys.stderr,
        )
        return found

    def _run(self, prompts: Sequence[Built]) -> list[tuple[list[int], str]]:
        for number, built in enumerate(prompts):
            job = Job(
                id=number,
                buffer=f"again {number}",
                client=f"again {number}",
                prompt=built.prompt,
                max_tokens=built.max_tokens,
                stop=built.stop,
            )
            self._core.admit(job, self._rules(job), CancelToken())
        done: dict[int, Outcome] = {}
        while self._core.busy:
            done |= {e.job: e.outcome for e in self._core.step() if isinstance(e, Done)}
        for number in range(len(prompts)):
            self._model.cache.forget(f"again {number}")
        return [(list(done[n].ids), done[n].reason) for n in range(len(prompts))]

    @property
    def _model(self) -> ModelCore:
        assert isinstance(self._core, ModelCore), "a check needs a real model"
        return self._core

    def _class(self, ids: list[int], given: Given) -> tuple[str, str]:
        """What it is, and where the tokens part."""
        ours = [*given.built.prompt.ids, *given.ids]
        fresh = [*given.prompt.prompt.ids, *ids]
        at, found = parting(
            ours,
            fresh,
            typed=_typed_from(given.prompt),
            prompts=max(len(given.built.prompt.ids), len(given.prompt.prompt.ids)),
        )
        where = f", {at} of {len(given.prompt.prompt.ids)} prompt tokens"
        if found != "said":
            return found, where
        gap = self._gap(fresh[:at], {ours[at], fresh[at]})
        return "numeric" if gap <= self._noise else "bug", f"{where}, logits {gap:.3f} apart"

    def _gap(self, ids: list[int], two: set[int]) -> float:
        """How far the logits of two tokens are apart behind `ids`."""
        runner = self._model.decoding.runner
        slot = Slot(runner.kv)
        for begin in range(0, len(ids), CHUNK):
            logits = runner.prefill(slot, ids[begin : begin + CHUNK])
        chosen = torch.tensor(sorted(two))
        low, high = sorted(logits[chosen].tolist())
        return float(high - low)


def parting(
    ours: Sequence[int], fresh: Sequence[int], *, typed: int, prompts: int
) -> tuple[int, str]:
    """Where two runs' ids part, prompts included, and what that says without their logits.

    The typed part begins at `typed`; from `prompts` on both are what the model said.
    """
    both = min(len(ours), len(fresh))
    at = next((i for i in range(both) if ours[i] != fresh[i]), both)
    if at < typed or at == both:
        return at, "bug"  # another anchor, window or suffix; or the same ids and another text
    return at, "tokenisation" if at < prompts else "said"


def _typed_from(built: Built) -> int:
    """Where the typed part begins: what is in front of it is the layout."""
    typed = [segment.start for segment in built.prompt.segments if segment.kind == "typed"]
    return typed[0] if typed else len(built.prompt.ids)
