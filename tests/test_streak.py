"""Whole lines that are there in time are sent; the run goes on for whoever accepts them."""

import asyncio
from dataclasses import replace

import pytest

from completiond.protocol import messages as m
from tests.daemon_world import FINAL, PATIENCE_S, World, in_process, in_thread, world

TEXT = "first = 1\n    second = 2\n    third = 3\n"
SCRIPT = {"document": "def f():\n    " + TEXT, "pass_ms": 2.0}
REQUEST = m.Complete(1, "a.py", 7, "def f():\n    ", "\n", line_ms=0)


async def settled(w: World) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (stats := await w.engine.stats())["running"] or stats["waiting"]:
            await asyncio.sleep(0.002)


def behind(ident: int, typed: str, **more: object) -> m.Complete:
    return replace(REQUEST, id=ident, version=7 + ident, before=REQUEST.before + typed, **more)


@pytest.mark.parametrize("make", [in_thread, in_process])
async def test_the_first_line_is_sent_as_soon_as_it_is_whole(tmp_path, make):
    async with world(tmp_path, make, **SCRIPT) as w:
        reply = await w.client().ask(REQUEST)
        assert (reply.candidates[0].text, reply.candidates[0].reason) == ("first = 1", "line")
        cost = reply.tokens
        assert cost["generated"] <= cost["passes"] < len(TEXT)
        assert cost["prefilled"] == cost["prompt"] and cost["reused"] == 0
        await settled(w)
        counts = w.daemon.counts
        assert (counts["streak runs"], counts["streak hits"]) == (1, 0)
        assert counts["streak tokens"] >= len("second = 2\n    third = 3")


async def test_what_follows_is_answered_without_a_pass(tmp_path):
    async with world(tmp_path, **SCRIPT) as w:
        client = w.client()
        await client.ask(REQUEST)
        await settled(w)
        passes = (await w.engine.stats())["passes"]
        found = await client.ask(behind(2, "first = 1"))
        assert found.candidates[0].text == TEXT[len("first = 1") :].rstrip()
        assert found.tokens["passes"] == 0
        assert (await w.engine.stats())["passes"] == passes
        assert w.daemon.counts["streak hits"] == 1


async def test_a_request_that_comes_while_it_goes_on_takes_it_and_pays_for_the_rest_only(tmp_path):
    async with world(tmp_path, **SCRIPT | {"pass_ms": 10.0}) as w:
        client = w.client()
        first = await client.ask(REQUEST)
        rest = await client.ask(behind(2, "first = 1", line_ms=None))
        assert rest.candidates[0].text == TEXT[len("first = 1") :].rstrip()
        stats = await w.engine.stats()
        assert stats["runs"] == 1
        assert first.tokens["passes"] + rest.tokens["passes"] == stats["passes"]
        assert first.tokens["prefilled"] + rest.tokens["prefilled"] == stats["prefilled"]
        assert w.daemon.counts["streak hits"] == 1


async def test_a_request_that_does_not_fit_ends_it(tmp_path):
    async with world(tmp_path, **SCRIPT | {"pass_ms": 10.0}) as w:
        client = w.client()
        await client.ask(REQUEST)
        await client.ask(behind(2, "ool", max_tokens=2))
        stats = await w.engine.stats()
        assert (stats["runs"], stats["cancelled"]) == (2, 1)


async def test_another_client_has_the_device_while_it_goes_on(tmp_path):
    async with world(tmp_path, **SCRIPT | {"pass_ms": 10.0}) as w:
        client, other = w.client(), w.client()
        await client.ask(REQUEST)
        before = (await w.engine.stats())["generated"]
        found = await other.ask(replace(REQUEST, line_ms=None))
        # The run for nobody has had the pass that was under way, and no other.
        generated = (await w.engine.stats())["generated"] - before
        assert generated <= found.tokens["generated"] + 2


@pytest.mark.parametrize("more", [{"line_ms": None}, {"line_ms": 600_000}, {"n": 2}])
async def test_an_answer_is_waited_for_if_that_is_wanted(tmp_path, more):
    async with world(tmp_path, **SCRIPT) as w:
        reply = await w.client().ask(replace(REQUEST, **more))
        assert reply.candidates[0].text == TEXT.rstrip()
        assert w.daemon.counts["streak runs"] == 0


async def test_a_client_that_goes_away_ends_what_goes_on_for_it(tmp_path):
    async with world(tmp_path, document="\na\n" + "b" * 4000, pass_ms=5.0) as w:
        client = w.client()
        await client.ask(replace(REQUEST, before="\n", max_tokens=4000))
        await client.send(replace(REQUEST, id=2, document="other.py", before="\n", max_tokens=4000))
        client.close()
        async with asyncio.timeout(PATIENCE_S):
            while (await w.engine.stats())["running"]:
                await asyncio.sleep(0.01)
        assert (await w.engine.stats())["generated"] < 2000


async def test_the_time_has_bounds(tmp_path):
    async with world(tmp_path, **SCRIPT) as w:
        client = w.client()
        for ident, wrong in enumerate([-1, 600_001], 1):
            await client.send(replace(REQUEST, id=ident, line_ms=wrong))
            assert (await client.next(FINAL, ident)).code == "protocol"


async def test_a_run_that_was_waited_for_in_vain_is_paid_for_by_who_waited(tmp_path):
    async with world(tmp_path, answers=["abcdef"], pass_ms=60.0) as w:
        client = w.client()
        await client.send(replace(REQUEST, before="x = ", line_ms=None))
        async with asyncio.timeout(PATIENCE_S):
            while not (await w.engine.stats())["running"]:
                await asyncio.sleep(0.002)
        await client.send(replace(REQUEST, id=2, before="x = z", line_ms=None))  # not known to fit
        found = await client.next(FINAL, 2)
        stats = await w.engine.stats()
        assert stats["runs"] == 2
        assert found.tokens["prefilled"] == stats["prefilled"]
        assert stats["passes"] - found.tokens["passes"] in (0, 1)  # one in which it is given up
