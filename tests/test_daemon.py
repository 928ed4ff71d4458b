"""The whole daemon over real sockets, with a scripted engine: what is answered, and when."""

import asyncio
from dataclasses import replace

import msgpack
import pytest

from completiond import config
from completiond.client import Client
from completiond.core import Outcome, Sampling, text_hash
from completiond.daemon import Daemon
from completiond.protocol import messages as m
from completiond.transport import Listener
from tests.daemon_world import (
    FINAL,
    PATIENCE_S,
    SLOW,
    World,
    ask,
    in_process,
    in_thread,
    world,
)

# -- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [in_thread, in_process])
async def test_an_answer_names_what_it_was_made_for_and_what_it_cost(tmp_path, make):
    async with world(tmp_path, make, answers=["return 42"]) as w:
        reply = await w.client().ask(ask(3, offset=4096))
        assert reply.candidates == [m.Candidate("return 42", "eos")]
        assert (reply.id, reply.version, reply.reason) == (3, 7, "ok")
        assert reply.position == 4096 + len("def f():\n    ")
        assert reply.tokens["generated"] >= len("return 42")  # and what was healed
        assert reply.tokens["prompt"] == reply.tokens["prefilled"] > 4
        assert 0 < reply.timings_ms["total"] < 5000


async def test_a_half_typed_word_is_healed(tmp_path):
    async with world(tmp_path, document="def f():\n    return 42\n") as w:
        reply = await w.client().ask(ask(before="def f():\n    ret"))
        assert reply.candidates[0].text == "urn 42"


async def test_partials_grow_and_come_before_the_final_reply(tmp_path):
    async with world(tmp_path, answers=["abc"]) as w:
        client = w.client()
        await client.ask(ask(stream=True))
        texts = [p.text for p in client.seen if isinstance(p, m.Partial)]
        assert texts[-1] == "abc"
        assert all(b.startswith(a) for a, b in zip(texts, texts[1:], strict=False))
        assert isinstance(client.seen[-1], m.Completion)


async def test_candidates_are_distinct_and_the_first_is_as_asked(tmp_path):
    async with world(tmp_path, answers=["one", "two", "one"]) as w:
        client = w.client()
        reply = await client.ask(ask(n=3))
        assert [c.text for c in reply.candidates] == ["one", "two"]
        again = await client.ask(ask(2, n=2, sampling=Sampling(temperature=1.0, seed=1)))
        assert [c.text for c in again.candidates] == ["two", "one"]


async def test_nothing_to_show_has_a_reason(tmp_path):
    async with world(tmp_path, answers=[""]) as w:
        client = w.client()
        assert (await client.ask(ask(1))).reason == "empty"
        zero = await client.ask(ask(2, max_tokens=0))
        assert (zero.reason, zero.candidates) == ("zero_limit", [])


async def test_when_time_is_up_what_is_there_is_shown_and_the_run_stops(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        client = w.client()
        reply = await client.ask(ask(max_ms=60, max_tokens=4000))
        assert reply.reason == "timeout"
        assert set(reply.candidates[0].text) == {"a"}
        await client.send(m.AskStatus(1))
        while (await client.next(m.Status)).running:
            await client.send(m.AskStatus(1))


async def test_a_run_that_had_no_time_for_a_word_says_so(tmp_path):
    async with world(tmp_path, answers=["x"], pass_ms=400.0) as w:
        reply = await w.client().ask(ask(max_ms=60))
        assert (reply.reason, reply.why, reply.candidates) == ("timeout", "timeout", [])


async def test_another_model_is_refused_and_the_served_one_may_be_named(tmp_path):
    async with world(tmp_path, answers=["x"]) as w:
        client = w.client()
        assert (await client.ask(ask(1, model="gpt-9"))).code == "unknown_model"
        assert (await client.ask(ask(2, model="scripted"))).reason == "ok"


async def test_chunks_that_are_not_known_are_named(tmp_path):
    async with world(tmp_path, answers=["x"]) as w:
        known = m.Chunk(text_hash("text"), "b.py", "python", "text")
        reply = await w.client().ask(ask(chunks=[known], context=[known.hash, "gone"]))
        assert reply.unknown == ["gone"]


async def test_only_what_its_hash_belongs_to_is_drafted_from(tmp_path):
    async with world(tmp_path, answers=["x"]) as w:
        read: list[str] = []
        w.engine.read = lambda client, document, text: read.append(text)
        good = m.Chunk(text_hash("text"), "b.py", "python", "text")
        reply = await w.client().ask(ask(chunks=[replace(good, text="poison"), good]))
        assert reply.reason == "ok" and read == ["text"]


async def test_the_client_of_this_project_is_served(tmp_path):
    async with world(tmp_path, answers=["abc"]) as w:
        partials: list[m.Partial] = []
        async with Client(w.endpoint) as client:
            assert (await client.hello(PATIENCE_S)).model == "scripted"
            reply = await client.complete(ask(client.next_id(), stream=True), partials.append)
            assert reply.candidates[0].text == partials[-1].text == "abc"


# -- cancel and supersede -------------------------------------------------------------------------


async def test_cancel_answers_at_once_and_is_acknowledged_when_the_device_is_free(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        client = w.client()
        await client.send(ask(stream=True, max_tokens=4000))
        await client.next(m.Partial)
        await client.send(m.Cancel(1, "abandoned"))
        assert (await client.next(FINAL, 1)).reason == "abandoned"
        ack = await client.next(m.Cancelled)
        assert (ack.was, ack.tokens_after <= 1) == ("running", True)
        assert ack.free_ms < 1000
        assert ack.passes >= 1 and ack.prefilled >= 1


async def test_a_cancelled_request_in_the_queue_never_computes(tmp_path):
    async with world(tmp_path, width=1, **SLOW) as w:
        client = w.client()
        await client.send(ask(1, stream=True, max_tokens=4000))
        await client.next(m.Partial)
        for reason in ("abandoned", "superseded"):
            await client.send(ask(2, document="b.py"), m.Cancel(2, reason))
            assert (await client.next(FINAL, 2)).reason == reason
            ack = await client.next(m.Cancelled, 2)
            assert (ack.was, ack.tokens_after) == ("queued", 0)
        await client.send(m.Cancel(1))
        assert (await client.next(FINAL, 1)).reason == "abandoned"


async def test_a_superseded_run_has_its_grace_and_abandoning_it_ends_that(tmp_path, monkeypatch):
    monkeypatch.setattr(m, "GRACE_S", 60.0)
    async with world(tmp_path, **SLOW) as w:
        client = w.client()
        await client.send(ask(stream=True, max_tokens=4000))
        await client.next(m.Partial)
        await client.send(m.Cancel(1, "superseded"), m.AskStatus(1))
        assert (await client.next(FINAL, 1)).reason == "superseded"
        assert (await client.next(m.Status)).running == 1
        await client.send(m.Cancel(1, "abandoned"))
        assert [(await client.next(m.Cancelled)).was for _ in range(2)] == ["running"] * 2
        await client.send(m.Cancel(1), m.Cancel(99))
        assert [(await client.next(m.Cancelled)).was for _ in range(2)] == ["finished", "unknown"]


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_typing_what_a_run_predicts_takes_it_over(tmp_path, cancel_first, monkeypatch):
    monkeypatch.setattr(m, "GRACE_S", 60.0)
    line = "return " + "x" * 40
    async with world(tmp_path, document=f"def f():\n    {line}\n", pass_ms=2.0) as w:
        client = w.client()
        await client.send(ask(1, stream=True))
        await client.next(m.Partial)
        if cancel_first:
            await client.send(m.Cancel(1, "superseded"))
        await client.send(ask(2, before="def f():\n    ret", stream=True))
        assert (await client.next(FINAL, 1)).reason == "superseded"
        reply = await client.next(m.Completion, 2)
        assert reply.candidates[0].text == line[3:]
        assert (await w.engine.stats())["runs"] == w.daemon.counts["joined"] == 1
        partials = [p.text for p in client.seen if isinstance(p, m.Partial) and p.id == 2]
        assert partials[-1].rstrip() == line[3:]
        acks = [a for a in client.seen if isinstance(a, m.Cancelled)]
        assert acks == ([m.Cancelled(1, "running")] if cancel_first else [])


async def test_a_run_ends_with_its_grace_if_the_next_request_cannot_use_it(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        client = w.client()
        await client.send(ask(1, stream=True, max_tokens=4000))
        await client.next(m.Partial)
        assert (await client.ask(ask(2, max_tokens=0))).reason == "zero_limit"
        await client.send(m.AskStatus(1))
        while (await client.next(m.Status)).running:
            await client.send(m.AskStatus(1))


async def test_typing_something_else_abandons_the_run_and_asks_anew(tmp_path):
    async with world(tmp_path, document=f"abc {'x' * 4000}", pass_ms=2.0) as w:
        client = w.client()
        await client.send(ask(1, before="a", stream=True, max_tokens=4000))
        await client.next(m.Partial)
        await client.send(ask(2, before="aZ", max_tokens=3))
        assert (await client.next(FINAL, 1)).reason == "superseded"
        assert (await client.next(FINAL, 2)).reason in ("ok", "empty")
        stats = await w.engine.stats()
        assert (stats["runs"], stats["cancelled"]) == (2, 1)


async def test_what_was_predicted_becomes_the_next_draft(tmp_path):
    async with world(tmp_path, document="def f():\n    return 42\n") as w:
        jobs = []
        submit = w.engine.submit
        w.engine.submit = lambda job: jobs.append(job) or submit(job)
        client = w.client()
        await client.ask(ask(1))
        await client.ask(ask(2, before="def f():\n    return 4", max_tokens=30))
        assert (jobs[1].prompt.healed, bytes(jobs[1].hint)) == (" 4", b" 42\n")


@pytest.mark.parametrize(
    "before, hint",
    [
        ("def f():\n    return 7", "42\n"),  # something else was typed
        ("def f():\n  ", "  return 42\n"),  # something was taken back
        ("def g():\n    ", ""),  # the text in front is another one
    ],
)
async def test_what_was_contradicted_may_be_drafted_from_further_on(tmp_path, before, hint):
    async with world(tmp_path, document="def f():\n    return 42\n") as w:
        jobs = []
        submit = w.engine.submit
        w.engine.submit = lambda job: jobs.append(job) or submit(job)
        client = w.client()
        await client.ask(ask(1))
        await client.ask(ask(2, before=before))
        assert (bytes(jobs[1].hint).decode(), jobs[1].astray) == (hint, bool(hint))


async def test_drafts_that_held_are_counted_by_source_of_every_run(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        runs, submit = [], w.engine.submit
        w.engine.submit = lambda job: runs.append(submit(job)) or runs[-1]
        client = w.client()
        await client.send(ask(1, max_tokens=1000))
        async with asyncio.timeout(PATIENCE_S):
            while not runs:
                await asyncio.sleep(0.002)
        runs[0].end(Outcome(reason="abandoned", accepted={"recycled": 3, "lookup": 1}))
        await client.next(FINAL, 1)
        counts = w.daemon.counts
        assert (counts["accepted recycled"], counts["accepted lookup"]) == (3, 1)


async def test_typing_through_an_answer_and_going_back_need_no_pass(tmp_path):
    async with world(tmp_path, document="def f():\n    return 42\n") as w:
        client = w.client()
        first = await client.ask(ask(1))
        passes = (await w.engine.stats())["passes"]
        text, before = first.candidates[0].text, ask(1).before
        for n, more in enumerate((text[:2], text[:5], text[:1], ""), 2):
            found = await client.ask(ask(n, before=before + more))
            assert found.candidates[0].text == text[len(more) :] and found.tokens["passes"] == 0
        assert (await w.engine.stats())["passes"] == passes


async def test_an_answer_is_not_found_again_for_other_text_or_other_sampling(tmp_path):
    async with world(tmp_path, document="def f():\n    return 42\n") as w:
        client = w.client()
        await client.ask(ask(1))
        for n, other in enumerate(({"after": "x"}, {"max_tokens": 9}, {"document": "g.py"}), 2):
            assert (await client.ask(ask(n, **other))).tokens["passes"] > 0


async def test_a_client_that_is_gone_has_its_runs_abandoned(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        gone, stays = w.client(), w.client()
        await gone.send(ask(stream=True, max_tokens=4000))
        await gone.next(m.Partial)
        gone.close()
        await stays.send(m.AskStatus(1))
        while (await stays.next(m.Status)).running:
            await stays.send(m.AskStatus(1))
        assert w.daemon.waiting == 0


async def test_a_client_that_is_gone_is_forgotten_behind_the_end_of_its_runs(tmp_path):
    async with world(tmp_path, **SLOW) as w:
        said: list[str] = []
        cancel, forget = w.engine.cancel, w.engine.forget
        w.engine.cancel = lambda *a: (said.append("cancel"), cancel(*a))
        w.engine.forget = lambda client: (said.append("forget"), forget(client))
        gone, stays = w.client(), w.client()
        await gone.send(ask(stream=True, max_tokens=4000))
        await gone.next(m.Partial)
        gone.close()
        await stays.send(m.AskStatus(1))
        while (await stays.next(m.Status)).running:
            await stays.send(m.AskStatus(1))
        assert said[-1] == "forget" and "cancel" in said


# -- bad input ------------------------------------------------------------------------------------


async def test_what_cannot_be_read_is_answered_and_the_connection_stays_usable(tmp_path):
    async with world(tmp_path, answers=["x"]) as w:
        client = w.client()
        good = {"v": 1, "t": "complete", "id": 5, "document": "a", "version": 1, "before": ""}
        cases = {
            b"\xc1": ("protocol", 0),
            b"": ("protocol", 0),
            msgpack.packb([1]): ("protocol", 0),
            msgpack.packb(good | {"v": 2}): ("version", 5),
            msgpack.packb(good | {"t": "nonsense"}): ("protocol", 5),
            msgpack.packb(good): ("protocol", 5),  # `after` is missing
            msgpack.packb(good | {"after": "", "n": 9}): ("protocol", 5),
        }
        for payload, (code, ident) in cases.items():
            await client.raw(payload)
            failure = await client.next(m.Failure)
            assert (failure.code, failure.id) == (code, ident)
        await client.raw(b"two", b"frames")
        assert (await client.next(m.Failure)).code == "protocol"
        assert (await client.ask(ask(6))).reason == "ok"


async def test_hello_is_answered_or_refused_by_version(tmp_path):
    async with world(tmp_path) as w:
        client = w.client()
        await client.send(m.Hello())
        welcome = await client.next(m.Welcome)
        assert (welcome.version, welcome.state, welcome.model) == (1, "ready", "scripted")
        await client.send(m.Hello(versions=[9]))
        assert (await client.next(m.Failure)).code == "version"


async def test_feedback_and_spans_are_counted_and_not_answered(tmp_path):
    async with world(tmp_path) as w:
        client = w.client()
        await client.send(m.Feedback(1, "shown"), m.Spans([m.Span(0, "d", 1, "typed")]))
        await client.send(m.AskStatus(4))
        status = await client.next()
        assert isinstance(status, m.Status)
        assert status.engine["daemon feedback shown"] == status.engine["daemon spans"] == 1


async def test_too_many_requests_are_refused_with_a_reason(tmp_path):
    settings = replace(config.Config(), serve=config.Serve(queue=2))
    async with world(tmp_path, settings=settings, **SLOW) as w:
        client = w.client()
        await client.send(*(ask(i, document=f"{i}", max_tokens=4000) for i in (1, 2, 3)))
        assert (await client.next(FINAL, 3)).code == "overloaded"


async def test_before_the_model_is_there_requests_fail_with_loading(tmp_path):
    tmp_path.chmod(0o700)
    async with Listener(f"ipc://{tmp_path}/d.sock") as listener:
        engine = in_thread({})
        daemon = Daemon(config.Config(), engine, listener)
        reader = asyncio.create_task(daemon.serve())
        here = World(daemon, engine, listener)
        client = here.client()
        reply = await client.ask(ask())
        await client.send(m.AskStatus(1))
        assert (reply.code, (await client.next(m.Status)).state) == ("loading", "loading")
        reader.cancel()
        await engine.start()
        await daemon.close()
        here.close()
