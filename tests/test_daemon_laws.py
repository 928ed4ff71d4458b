"""Exactly one reply, whatever is stirred or killed; signals drain, and the exit code is 0."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq.asyncio

from completiond import config, replies
from completiond.engine.desk import Start
from completiond.engine.door import ProcessEngine
from completiond.errors import ModelError
from completiond.model.checkpoint import ModelFiles
from completiond.protocol import messages as m
from completiond.serving import serve
from tests.daemon_world import (
    FINAL,
    PATIENCE_S,
    SLOW,
    Wire,
    World,
    ask,
    in_process,
    world,
)

pytestmark = pytest.mark.slow  # processes, and what is killed in them

# -- exactly one reply ----------------------------------------------------------------------------


async def stir(w: World, client: Wire, seed: int, requests: int) -> Counter[int]:
    """Random requests, duplicate ids and cancels of one client; how often each id was asked."""
    chance = random.Random(seed)
    asked: Counter[int] = Counter()
    for _ in range(requests):
        ident = chance.randint(1, 60)
        if chance.random() < 0.65:
            asked[ident] += 1
            before = "abc"[: chance.randint(0, 3)]
            document = chance.choice(["a", "b", "c"])
            stream, n = chance.random() < 0.3, chance.choice([1, 1, 1, 2])
            await client.send(ask(ident, before, document=document, stream=stream, n=n))
        else:
            reason = chance.choice(["superseded", "abandoned"])
            asked[-ident] += 1  # cancels are counted apart
            await client.send(m.Cancel(ident, reason))
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    return asked


async def collect(client: Wire, asked: Counter[int]) -> tuple[Counter[int], Counter[int]]:
    """Read until nothing is owed; then ask for the status, behind which nothing more may come."""
    owed = asked.total()
    while sum(isinstance(s, (*FINAL, m.Cancelled)) for s in client.seen) < owed:
        await client.next()
    await client.send(m.AskStatus(1))
    await client.next(m.Status)
    finals = Counter(s.id for s in client.seen if isinstance(s, FINAL))
    acks = Counter(s.id for s in client.seen if isinstance(s, m.Cancelled))
    return finals, acks


def check(asked: Counter[int], finals: Counter[int], acks: Counter[int]) -> None:
    assert finals == Counter({i: n for i, n in asked.items() if i > 0})
    assert acks == Counter({-i: n for i, n in asked.items() if i < 0})


async def restarted(engine: Any, killed: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while engine.pid == killed:
            await asyncio.sleep(0.001)
        await engine.ready()


@pytest.mark.parametrize("seed", range(6))
async def test_exactly_one_reply_and_one_acknowledgement_whatever_is_stirred(tmp_path, seed):
    async with world(tmp_path, document="abcdefghijkl", pass_ms=0.2, width=2) as w:
        clients = [w.client() for _ in range(3)]
        asked = await asyncio.gather(
            *(stir(w, c, 10 * seed + i, 60) for i, c in enumerate(clients))
        )
        for client, counts in zip(clients, asked, strict=True):
            check(counts, *await collect(client, counts))
        assert w.daemon.waiting == 0


async def test_exactly_one_reply_when_the_engine_is_killed_in_between(tmp_path):
    async with world(tmp_path, in_process, document="abcdefghijkl", pass_ms=0.5) as w:
        client = w.client()
        total: Counter[int] = Counter()
        for seed in range(3):
            total += await stir(w, client, seed, 40)
            killed = w.engine.pid
            os.kill(killed, signal.SIGKILL)
            total += await stir(w, client, 100 + seed, 20)
            await restarted(w.engine, killed)
        check(total, *await collect(client, total))
        codes = {s.code for s in client.seen if isinstance(s, m.Failure)}
        assert codes <= {"engine_died", "loading", "request"}


async def test_an_engine_killed_in_a_run_answers_it_and_serves_again(tmp_path):
    async with world(tmp_path, in_process, **SLOW) as w:
        client = w.client()
        await client.send(ask(stream=True, max_tokens=4000))
        await client.next(m.Partial)
        killed = w.engine.pid
        os.kill(killed, signal.SIGKILL)
        failure = await client.next(FINAL, 1)
        assert failure.code == "engine_died"
        assert "ask again" in failure.message
        await restarted(w.engine, killed)
        assert (await client.ask(ask(2, max_tokens=3))).reason == "ok"


async def test_an_answer_that_cannot_be_sent_is_a_failure_and_the_daemon_lives(
    tmp_path, monkeypatch
):
    def huge(ticket: Any, reason: str) -> m.Completion:
        return m.Completion(ticket.request.id, 1, 1 << 64, [], reason)

    async with world(tmp_path, **SLOW) as w:
        client = w.client()
        monkeypatch.setattr(replies, "nothing", huge)
        assert (await client.ask(ask(1, max_tokens=0))).code == "protocol"
        await client.send(ask(2), m.Cancel(2))  # answered inside the reader of messages
        assert (await client.next(FINAL, 2)).code == "protocol"
        monkeypatch.undo()
        assert (await client.ask(ask(3, max_tokens=1))).reason == "ok"


# -- the end --------------------------------------------------------------------------------------


async def test_drain_answers_what_is_in_and_refuses_what_comes(tmp_path):
    async with world(tmp_path, answers=["abc"], pass_ms=5.0) as w:
        client = w.client()
        await client.send(ask(1, stream=True))
        await client.next(m.Partial)
        drained = asyncio.create_task(w.daemon.drain())
        await client.send(ask(2, document="b"))
        replies = {(await client.next(FINAL)).id: client.seen[-1] for _ in range(2)}
        assert replies[1].candidates[0].text == "abc"
        assert replies[2].code == "engine"
        await drained


async def test_serve_says_why_a_model_cannot_be_served_and_lets_go_of_the_endpoint(tmp_path):
    tmp_path.chmod(0o700)
    settings = config.load({"serve.endpoint": f"ipc://{tmp_path}/d.sock"}, environ={})
    spec = Start("model", model=ModelFiles("nothing", tmp_path, 1, (), 1, "", 0).plain())
    for _ in range(2):
        with pytest.raises(ModelError, match="model"):
            await serve(settings, engine=ProcessEngine(spec), on_ready=lambda _: None)


SERVE = """
import logging, sys
from completiond import config, serving
from completiond.engine.desk import Start
from completiond.engine.door import ProcessEngine
logging.basicConfig(level=logging.INFO)
settings = config.load({"serve.endpoint": sys.argv[1]}, environ={})
spec = Start("scripted", script={"answers": ["a" * 60], "pass_ms": 3.0})
tell = lambda ready: print(ready.endpoint, flush=True)
serving.run(settings, engine=ProcessEngine(spec), on_ready=tell)
"""


@asynccontextmanager
async def served(tmp_path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Wire]]:
    tmp_path.chmod(0o700)
    endpoint = f"ipc://{tmp_path}/d.sock"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVE, endpoint, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert (await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)).decode().strip()
    context = zmq.asyncio.Context()
    client = Wire(context, endpoint)
    try:
        yield process, client
    finally:
        client.close()
        context.term()
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_the_exit_code_is_0(tmp_path, number):
    async with served(tmp_path) as (process, client):
        await client.send(ask(stream=True))
        await client.next(m.Partial)
        process.send_signal(number)
        assert (await client.next(FINAL, 1)).reason == "ok"
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0


async def test_a_second_signal_stops_at_once_and_still_replies(tmp_path):
    async with served(tmp_path) as (process, client):
        await client.send(ask(stream=True, n=8, max_ms=60_000))
        await client.next(m.Partial)
        process.send_signal(signal.SIGTERM)
        await client.send(m.AskStatus(1))
        while (await client.next(m.Status)).state != "draining":
            await client.send(m.AskStatus(1))
        process.send_signal(signal.SIGTERM)
        assert (await client.next(FINAL, 1)).code == "engine"
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
