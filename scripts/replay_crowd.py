"""Many people at one daemon: does one wait longer because of the others, and does memory grow.

A wait is from the moment an editor asks until its answer, or until the next key ends the waiting;
what memory answers is no wait.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

from replay_daemon import Running
from replay_editor import VsCode, type_trace
from replay_metrics import quantile, ratio, table, timing
from replay_screen import Key
from replay_sides import Side
from replay_traces import Trace, desk

SAMPLE_S = 5.0
WARM = 0.2
"""The part of the samples in which memory still grows to its size."""
LONGEST_SCRIPT = 100_000
"""Bytes of a script that is handed over as one argument."""

Sample = dict[str, float]


def script_of(traces: Sequence[Trace]) -> dict[str, Any]:
    """A scripted engine that knows the traces' last texts, as far as a script can hold them."""
    text = ""
    for trace in traces:
        here = desk(trace)
        for step in trace.steps:
            here.apply(step)
        for moment in here.moments.values():
            grown = text + moment.text + "\n"
            text = grown if len(json.dumps(grown)) < LONGEST_SCRIPT else text
    return {"document": text, "pass_ms": 20.0, "tokens_per_pass": 2}


def crowd(traces: Sequence[Trace], side: Side, arguments: Any) -> dict[str, Any]:
    """One typist first, then `typists` at once; for `loop` minutes, or each one trace."""
    assert side.daemon is not None, "only our own side has a daemon"
    alone = asyncio.run(_together(traces[:1], side, 1, 0.0, arguments.speed))
    minutes = arguments.loop
    many = asyncio.run(_together(traces, side, arguments.typists, minutes, arguments.speed))
    found = {"alone": alone["figures"], "together": many["figures"]}
    print(table(found))
    medians = sorted(quantile(waits, 0.5) or 0.0 for waits in many["waits"])
    typical = medians[len(medians) // 2]
    own: dict[str, Any] = many["figures"]
    return own | {
        "typists": arguments.typists,
        "engine": arguments.engine,
        "alone": alone["figures"],
        "p95_against_one": ratio(many["figures"]["wait_p95_ms"], alone["figures"]["wait_p95_ms"]),
        "slowest_typist_against_median": ratio(medians[-1], typical),
        "longest_wait_against_median": ratio(
            many["figures"]["wait_max_ms"], many["figures"]["wait_p50_ms"]
        ),
        "memory_mib": many["memory"],
    }


async def _together(
    traces: Sequence[Trace], side: Side, typists: int, minutes: float, speed: float
) -> dict[str, Any]:
    assert side.daemon is not None, "only our own side has a daemon"
    until = time.monotonic() + minutes * 60
    async with AsyncExitStack() as stack:
        sat = [await stack.enter_async_context(side.sit()) for _ in range(typists)]
        seats = [seat for seat in sat if isinstance(seat, VsCode)]
        samples: list[Sample] = []
        watch = asyncio.create_task(_watch(side.daemon, samples))
        turns = [_type(traces, number, seat, until, speed) for number, seat in enumerate(seats)]
        keys = [key for own in await asyncio.gather(*turns) for key in own]
        watch.cancel()
        waits = [[s * 1000 for s in seat.waits] for seat in seats]
    every = [ms for own in waits for ms in own]
    return {
        "waits": waits,
        "memory": _growth([*samples, side.daemon.memory()]),
        "figures": {
            "requests": len(every),
            "wait_p50_ms": quantile(every, 0.5),
            "wait_p95_ms": quantile(every, 0.95),
            "wait_max_ms": quantile(every, 1.0),
        }
        | timing(keys),
    }


async def _type(
    traces: Sequence[Trace], number: int, seat: VsCode, until: float, speed: float
) -> list[Key]:
    """One person's traces, each another first one; at least one, then as long as there is time.

    Only the last one's keys are kept: an hour of them would be the memory that is watched.
    """
    for turn in count(number):
        trace = traces[turn % len(traces)]
        await type_trace(trace, seat, speed)
        if time.monotonic() >= until:
            return seat.screen.keys
    raise AssertionError("count has no end")


async def _watch(running: Running, samples: list[Sample]) -> None:
    while True:
        samples.append(running.memory())
        print(f"memory MiB {samples[-1]}", file=sys.stderr, flush=True)
        await asyncio.sleep(SAMPLE_S)


def _growth(samples: list[Sample]) -> dict[str, Any]:
    """Where memory was when it had its size, and where it ended; the greatest between."""
    warm = samples[int(len(samples) * WARM) :]
    return {
        name: {
            "first": samples[0][name],
            "warm": warm[0][name],
            "last": warm[-1][name],
            "most": max(sample[name] for sample in samples),
        }
        for name in samples[0]
    }
