"""Both engines behind one door: the same laws in a thread and in a process of its own."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from completiond.core import Prompt
from completiond.engine import door
from completiond.engine.desk import Engine, Start
from completiond.engine.door import ProcessEngine
from completiond.engine.job import Job
from completiond.engine.thread_engine import ThreadEngine
from completiond.engine_process import load_scripted
from completiond.errors import DeviceError, EngineDied, EngineLoading
from completiond.model.checkpoint import ModelFiles
from completiond.prompt.stopping import Cursor, rule
from tests.engine.fakes import ids_of, text_of

STOP = rule(Cursor("a", "x"), healed="", stop_ids=[256])
SLOW = {"answers": ["a" * 4000], "pass_ms": 2.0}


def job(buffer: str = "b", **more: Any) -> Job:
    return Job(
        0, buffer, "c", Prompt(ids_of("abc")), more.pop("max_tokens", 4000), stop=STOP, **more
    )


def make(kind: str, script: dict[str, Any]) -> Engine:
    if kind == "thread":
        return ThreadEngine(lambda: load_scripted(script))
    return ProcessEngine(Start("scripted", script=script))


@asynccontextmanager
async def running(kind: str, **script: Any) -> AsyncIterator[Any]:
    engine = make(kind, script)
    await engine.start()
    try:
        async with asyncio.timeout(10):
            await engine.ready()
            yield engine
    finally:
        await engine.stop(drain=False)


async def first_ids(run: Any) -> tuple[int, ...]:
    async for ids in run:
        return tuple(ids)
    raise AssertionError("the run said nothing")


both = pytest.mark.parametrize("kind", ["thread", "process"])


async def test_a_job_that_cannot_be_sent_leaves_no_run_open():
    async with running("process", answers=["answer\n"]) as engine:
        with pytest.raises(UnicodeEncodeError):
            engine.submit(replace(job(), client="\ud800"))
        await engine.stop(drain=True)  # it would wait for a run that never began


@both
async def test_a_run_streams_its_ids_and_has_one_outcome(kind):
    async with running(kind, answers=["answer\n"]) as engine:
        run = engine.submit(job())
        ids = [i async for news in run for i in news]
        outcome = await run.outcome
        assert text_of(ids) == "answer\n"
        assert (outcome.ids, outcome.reason) == (ids, "line")
        assert run.over
        assert [i async for news in run for i in news] == ids  # a late reader misses nothing


@both
async def test_a_reader_that_goes_away_takes_nothing_from_the_run(kind):
    async with running(kind, **SLOW) as engine:
        run = engine.submit(job(max_tokens=20))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.outcome, 0.001)
        assert (await run.outcome).reason == "length"


@both
async def test_before_the_model_is_there_requests_end_with_loading(kind):
    engine = make(kind, SLOW)
    with pytest.raises(EngineLoading):
        engine.submit(job())
    await engine.start()
    await engine.ready()
    assert engine.state == "ready"
    assert engine.info["model"] == "scripted"
    await engine.stop(drain=False)


@both
async def test_cancel_frees_the_device_and_tells_what_it_cost(kind):
    async with running(kind, **SLOW) as engine:
        run = engine.submit(job())
        await first_ids(run)
        engine.cancel(run, "abandoned")
        outcome = await run.outcome
        assert outcome.reason == "abandoned"
        assert outcome.tokens_after_cancel <= 1
        assert outcome.cancel_to_free_ns < 1e9


@both
async def test_a_superseded_run_can_be_revived(kind):
    async with running(kind, **SLOW) as engine:
        run = engine.submit(job(max_tokens=30))
        await first_ids(run)
        engine.cancel(run, "superseded", 5.0)
        engine.revive(run)
        assert (await run.outcome).reason == "length"


@both
async def test_stats_come_while_a_run_goes_on(kind):
    async with running(kind, **SLOW) as engine:
        run = engine.submit(job())
        await first_ids(run)
        assert (await engine.stats())["running"] == 1
        engine.cancel(run, "abandoned")
        await run.outcome


@both
async def test_stop_drains_or_ends_at_once(kind):
    engine = make(kind, SLOW)
    await engine.start()
    await engine.ready()
    run = engine.submit(job(max_tokens=10))
    await engine.stop(drain=True)
    assert (await run.outcome).reason == "length"
    assert engine.state == "stopped"
    with pytest.raises(EngineDied):
        engine.submit(job())

    engine = make(kind, SLOW)
    await engine.start()
    await engine.ready()
    run = engine.submit(job())
    await engine.stop(drain=False)
    with pytest.raises(EngineDied):
        await run.outcome


@both
async def test_stop_works_before_ready_and_twice(kind):
    engine = make(kind, SLOW)
    await engine.start()
    await engine.stop(drain=True)
    await engine.stop(drain=True)
    assert engine.state == "stopped"


async def test_a_model_that_cannot_be_loaded_is_reported_and_not_tried_again():
    tries = []

    def load() -> Any:
        tries.append(1)
        raise DeviceError("There is no cuda:7; choose cpu.")

    engine = ThreadEngine(load)
    await engine.start()
    with pytest.raises(DeviceError, match="cuda:7"):
        await engine.ready()
    with pytest.raises(DeviceError):
        engine.submit(job())
    await engine.stop(drain=True)
    assert tries == [1]


async def test_a_refusal_crosses_the_process_boundary(tmp_path):
    nothing = ModelFiles("x", tmp_path, 1, (), 1, "", 0)
    engine = ProcessEngine(Start("model", config={"nonsense": {"key": 1}}, model=nothing.plain()))
    await engine.start()
    with pytest.raises(Exception, match="nonsense") as caught:
        await engine.ready()
    assert getattr(caught.value, "code", "") == "config"
    await engine.stop(drain=False)
    assert engine.state == "stopped"


async def test_a_killed_engine_answers_its_runs_and_is_restarted():
    async with running("process", **SLOW) as engine:
        runs = [engine.submit(job(f"b{i}")) for i in range(3)]
        await first_ids(runs[0])
        first = engine.pid
        os.kill(first, signal.SIGKILL)
        for run in runs:
            with pytest.raises(EngineDied, match="ask again"):
                await run.outcome
        with pytest.raises(EngineLoading):
            engine.submit(job())
        await engine.ready()
        assert engine.pid != first
        assert (await engine.submit(job(max_tokens=2)).outcome).reason == "length"


async def test_an_engine_in_a_pass_without_end_is_killed_and_its_runs_are_answered(monkeypatch):
    monkeypatch.setattr(door, "HUNG_S", 0.2)
    async with running("process", **SLOW) as engine:
        run = engine.submit(job())
        await first_ids(run)
        first = engine.pid
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(EngineDied, match="no answer for"):
            await run.outcome
        await engine.ready()
        assert engine.pid != first


@pytest.mark.slow
async def test_an_engine_that_answers_between_its_passes_is_left_alone(monkeypatch):
    monkeypatch.setattr(door, "HUNG_S", 0.2)
    async with running("process", answers=["a" * 400], pass_ms=20.0) as engine:
        first = engine.pid
        assert (await engine.submit(job(max_tokens=60)).outcome).reason == "length"
        assert engine.pid == first


async def test_an_engine_that_dies_before_it_is_ready_is_given_up(monkeypatch):
    monkeypatch.setattr(door, "FIRST_BACKOFF_S", 0.0)
    monkeypatch.setattr(door.sys, "executable", "/bin/false")
    engine = ProcessEngine(Start("scripted"))
    await engine.start()
    with pytest.raises(EngineDied, match="exit code 1"):
        await engine.ready()
    assert engine.state == "failed"
    await engine.stop(drain=True)


FRONT = """
import asyncio, sys
from completiond.engine.desk import Start
from completiond.engine.door import ProcessEngine
from tests.engine.test_door import job, first_ids

async def main():
    engine = ProcessEngine(Start("scripted", script={"answers": ["a"], "pass_ms": 60000.0}))
    await engine.start()
    await engine.ready()
    engine.submit(job())
    sys.stdout.write(f"{engine.pid}\\n")
    sys.stdout.flush()
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_engine_ends_with_the_front_also_in_a_pass():
    front = subprocess.Popen([sys.executable, "-c", FRONT], stdout=subprocess.PIPE, text=True)
    with front:
        assert front.stdout is not None
        pid = int(front.stdout.readline())
        watch = os.pidfd_open(pid)
        front.kill()
    import select

    try:
        assert select.select([watch], [], [], 5.0)[0], "the engine outlived its front"
    finally:
        os.close(watch)


def test_the_door_does_not_import_torch():
    code = "import sys, completiond.engine.door; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
