"""A daemon as one types: closers that editors add, windows that move, what follows an accept."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from completiond import config
from completiond.client import complete_message
from completiond.core import WINDOW_STEP, Snapshot
from completiond.engine.job import Job
from completiond.protocol import messages as m
from tests.daemon_world import FINAL, PATIENCE_S, Wire, World, ask, world

WITHOUT_PREFETCH = config.Config(completion=config.Completion(prefetch=False, gate=False))


def at(ident: int, text: str, **more: Any) -> m.Complete:
    """A request at the `|` of a text."""
    before, after = text.split("|")
    return ask(ident, before, after=after, **more)


def jobs_of(w: World) -> list[Job]:
    """The jobs that are submitted from now on."""
    jobs: list[Job] = []
    submit = w.engine.submit
    w.engine.submit = lambda job: jobs.append(job) or submit(job)
    return jobs


def part(job: Job, kind: str) -> bytes:
    ids = job.prompt.ids
    texts = [ids[s.start : s.end] for s in job.prompt.segments if s.kind == kind]
    return b"".join(bytes(ids) for ids in texts)


async def until(w: World, true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.002)


# -- closers that the editor adds -----------------------------------------------------------------

PYTHON = ("total = sum(values[0], key=1)\nprint(total)\n", "total = su|\n")
TYPESCRIPT = ("const a = ['it', {b: `${c}`}];\n", "const a = |;\n")
GO = ("\tif err != nil {\n\t\treturn err\n\t}\n\tgo f()\n", "\tif err |\n")
TYPED = {
    "python: a call": (*PYTHON, "total = sum(|)\n", "values[0], key=1"),
    "python: an index in it": (*PYTHON, "total = sum(values[|])\n", "0"),
    "python: its argument": (*PYTHON, "total = sum(values[0], k|)\n", "ey=1"),
    "python: typed over": (*PYTHON, "total = sum(values[0]|)\n", ", key=1"),
    "typescript: a quote in a list": (*TYPESCRIPT, "const a = ['|'];\n", "it"),
    "typescript: the list": (*TYPESCRIPT, "const a = ['it', |];\n", "{b: `${c}`}"),
    "typescript: an object": (*TYPESCRIPT, "const a = ['it', {|}];\n", "b: `${c}`"),
    "typescript: a template": (*TYPESCRIPT, "const a = ['it', {b: `${|}`}];\n", "c"),
    "go: a block": (*GO, "\tif err != nil {|}\n", "\n\t\treturn err\n\t"),
    "go: its line": (*GO, "\tif err != nil {\n\t\t|\n\t}\n", "return err"),
}


@pytest.mark.parametrize("case", TYPED)
async def test_an_answer_is_found_behind_the_closers_that_typing_it_brings(tmp_path, case):
    document, first, then, rest = TYPED[case]
    async with world(tmp_path, settings=WITHOUT_PREFETCH, document=document) as w:
        client = w.client()
        assert (await client.ask(at(1, first))).reason == "ok"
        passes = (await w.engine.stats())["passes"]
        found = await client.ask(at(2, then))
        assert [c.text for c in found.candidates] == [rest]
        assert (await w.engine.stats())["passes"] == passes


@pytest.mark.parametrize("case", TYPED)
async def test_a_run_under_way_is_joined_behind_the_closers_that_typing_brings(
    tmp_path, case, monkeypatch
):
    monkeypatch.setattr(m, "GRACE_S", 60.0)
    document, first, then, rest = TYPED[case]
    async with world(tmp_path, document=document, pass_ms=5.0) as w:
        client = w.client()
        await client.send(at(1, first, stream=True))
        await client.next(m.Partial)
        found = await client.ask(at(2, then))
        assert [c.text for c in found.candidates] == [rest]
        assert (await w.engine.stats())["runs"] == w.daemon.counts["joined"] == 1
        assert w.daemon.counts["superseded runs"] == 1


@pytest.mark.parametrize("case", TYPED)
async def test_the_closers_of_what_was_typed_leave_the_prompt_as_it_was(tmp_path, case):
    _, first, then, _ = TYPED[case]
    async with world(tmp_path, answers=["\n"]) as w:
        jobs, client = jobs_of(w), w.client()
        await client.ask(at(1, f"import a\n{first}"))
        await client.ask(at(2, f"import a\n{then}"))
        kept = [(part(job, "prefix"), part(job, "suffix")) for job in jobs]
        assert kept[0] == kept[1] == (b"import a\n" if len(kept) > 1 else None, kept[0][1])
        assert part(jobs[1], "suffix").decode() == first.partition("|")[2]
        before = then.partition("|")[0]
        assert (part(jobs[1], "typed") + jobs[1].prompt.healed.encode()).decode() == before


async def test_after_the_closer_is_typed_over_the_prompt_goes_on_as_it_was(tmp_path):
    async with world(tmp_path, answers=["\n"]) as w:
        jobs, client = jobs_of(w), w.client()
        for n, text in enumerate(("f|\n", "f(|)\n", "f(a|)\n", "f(a)|\n", "f(a).b(|)\n"), 1):
            await client.ask(at(n, f"import a\n{text}"))
        assert len(jobs) == 5
        assert {(part(job, "prefix"), part(job, "suffix")) for job in jobs} == {
            (b"import a\n", b"\n")
        }


async def test_a_suffix_that_began_with_the_same_closer_keeps_its_own(tmp_path):
    async with world(tmp_path, document="print(str(x), end)\n") as w:
        jobs, client = jobs_of(w), w.client()
        await client.ask(at(1, "print(|)\n"))
        found = await client.ask(at(2, "print(str(|))\n"))
        assert found.candidates[0].text == "x" and len(jobs) == 1
        other = await client.ask(at(3, "print(str(|)\n"))  # an editor that closes nothing
        assert other.candidates[0].text == "x), end"


async def test_a_pair_that_one_backspace_deletes_returns_to_the_earlier_answer(tmp_path):
    async with world(tmp_path, document="x = foo(a)\n") as w:
        client = w.client()
        for n, (text, rest) in enumerate(
            [("x = |\n", "foo(a)"), ("x = foo(|)\n", "a"), ("x = foo|\n", "(a)")], 1
        ):
            found = await client.ask(at(n, text))
            assert found.candidates[0].text == rest
        assert (await w.engine.stats())["runs"] == 1


async def test_a_closer_of_other_text_is_no_closer_of_what_was_typed(tmp_path):
    async with world(tmp_path, document="x = foo(a)\n") as w:
        jobs, client = jobs_of(w), w.client()
        await client.ask(at(1, "x = |\n"))
        await client.ask(at(2, "x = foo|)\n"))
        await client.ask(at(3, "x = foo(|]\n"))
        assert [part(job, "suffix") for job in jobs] == [b"\n", b")\n", b"]\n"]


async def test_a_run_inside_a_pair_ends_where_it_closes_the_pair(tmp_path):
    async with world(tmp_path, document="x = foo(a, [b])" + "\ny" * 40) as w:
        client = w.client()
        await client.ask(at(1, "x = foo|\n", max_tokens=2))
        found = await client.ask(at(2, "x = foo(|)\n"))
        assert found.candidates == [m.Candidate("a, [b]", "suffix")]
        assert found.tokens["generated"] <= len(" foo(a, [b])")


# -- windows that move ----------------------------------------------------------------------------

TEXT = "".join(f"value_{n} = compute(value_{n - 1}, {n})\n" for n in range(1, 1_500))


def within(ident: int, text: str, cursor: int, **more: Any) -> m.Complete:
    snapshot = Snapshot.around(
        text, cursor, document="long.py", version=ident, language="python", path="long.py"
    )
    return complete_message(snapshot, ident, **more)


@pytest.mark.parametrize("step", [1, 2, 4, 5, 7])
async def test_an_answer_is_found_across_every_step_of_the_window(tmp_path, step):
    answer = "result = compute(first, second)"
    cursor = TEXT.index("\n", step * WINDOW_STEP - 60) + 1
    typed = "result = compute(first, sec"
    base = step * WINDOW_STEP - cursor - 5
    pad, text = " " * max(0, base), TEXT
    text, cursor = TEXT[:cursor] + pad + "\n" + TEXT[cursor:], cursor + len(pad)
    settings = WITHOUT_PREFETCH
    async with world(tmp_path, settings=settings, answers=[answer]) as w:
        client = w.client()
        first = await client.ask(within(1, text, cursor))
        assert first.candidates[0].text == answer
        passes = (await w.engine.stats())["passes"]
        steps = set()
        for n in range(1, len(typed) + 1):
            now = text[:cursor] + typed[:n] + text[cursor:]
            request = within(n + 1, now, cursor + n)
            steps.add((cursor + n) // WINDOW_STEP)
            found = await client.ask(request)
            assert found.candidates[0].text == answer[n:]
        assert len(steps) == 2
        assert (await w.engine.stats())["passes"] == passes


async def test_the_anchor_stays_across_a_step_of_the_window(tmp_path):
    cursor = 6 * WINDOW_STEP - 2
    async with world(tmp_path, answers=["\n"]) as w:
        jobs, client = jobs_of(w), w.client()
        for n in range(5):
            text = TEXT[:cursor] + "+ ab"[:n] + TEXT[cursor:]
            await client.ask(within(n + 1, text, cursor + n))
        ends = {part(job, "prefix")[-40:] for job in jobs}
        assert len(jobs) == 5 and len(ends) == 1


@pytest.mark.parametrize(
    ("said", "shown", "typed"),
    [
        ("if a {\n        b()\n    }", "if a {\n\t\tb()\n\t}", "if a {\n\t\t"),
        (" f(1)", "f(1)", "f("),
    ],
)
async def test_blanks_that_were_made_the_files_own_are_typed_through(tmp_path, said, shown, typed):
    async with world(tmp_path, settings=WITHOUT_PREFETCH, answers=[said]) as w:
        client, before = w.client(), "func f() {\n\tx()\n\tx = "
        if "\n" in said:
            before = before.removesuffix("x = ")
        first = await client.ask(ask(1, before, after="\n}\n"))
        assert first.candidates[0].text == shown
        again = await client.ask(ask(2, before + typed, after="\n}\n"))
        assert again.candidates[0].text == shown.removeprefix(typed)
        assert again.tokens["passes"] == 0


# -- what follows an accept -----------------------------------------------------------------------

DOCUMENT = "def f():\n    first(a,\n    second(b))\n\n    third(c)\n"
FIRST = m.Complete(1, "a.py", 7, "def f():\n    fi", "\n\nafter()\n")


async def shown(client: Wire, w: World, request: m.Complete = FIRST) -> str:
    """Ask, and say that it is shown; what is shown."""
    reply = await client.ask(request)
    await client.send(m.Feedback(request.id, "shown"))
    text: str = reply.candidates[0].text
    return text


async def settled(w: World) -> None:
    """Until the engine has nothing to do, and the daemon knows."""
    async with asyncio.timeout(PATIENCE_S):
        while (stats := await w.engine.stats())["running"] or stats["waiting"]:
            await asyncio.sleep(0.002)


def follows(ident: int, text: str) -> m.Complete:
    return replace(FIRST, id=ident, version=7 + ident, before=FIRST.before + text)


async def test_the_request_after_an_accept_is_answered_without_a_pass(tmp_path):
    async with world(tmp_path, document=DOCUMENT) as w:
        jobs, client = jobs_of(w), w.client()
        text = await shown(client, w)
        assert text == "rst(a,\n    second(b))"
        await until(w, lambda: len(jobs) == 2)
        await settled(w)
        assert [job.priority for job in jobs] == [0, -1]
        assert jobs[0].buffer == jobs[1].buffer
        passes = (await w.engine.stats())["passes"]
        for ident, typed in enumerate(["", "\n", "\n\n    th"], 2):
            found = await client.ask(follows(ident, text + typed))
            assert found.candidates[0].text == "\n\n    third(c)"[len(typed) :]
            assert found.tokens["passes"] == 0
        assert (await w.engine.stats())["passes"] == passes
        counts = w.daemon.counts
        assert (counts["prefetch runs"], counts["prefetch hits"]) == (1, 1)
        assert counts["prefetch tokens"] >= len("\n\n    third(c)")


async def test_a_run_ahead_computes_only_what_follows(tmp_path):
    async with world(tmp_path, document=DOCUMENT) as w:
        jobs, client = jobs_of(w), w.client()
        await shown(client, w)
        await until(w, lambda: len(jobs) == 2)
        await settled(w)
        counts, stats = w.daemon.counts, await w.engine.stats()
        told = len(jobs[1].prompt.ids) - len(jobs[0].prompt.ids)
        assert stats["prefilled"] - len(jobs[0].prompt.ids) < told
        assert counts["prefetch tokens"] < 60


async def test_a_request_that_comes_before_it_is_ready_takes_the_run_over(tmp_path):
    async with world(tmp_path, document=DOCUMENT, pass_ms=3.0) as w:
        jobs, client = jobs_of(w), w.client()
        text = await shown(client, w)
        await until(w, lambda: len(jobs) == 2)
        await client.send(ask(9, "x" * 40, document="other.py", max_tokens=1))  # it is passed over
        found = await client.ask(follows(2, text + "\n"))
        assert found.candidates[0].text == "\n    third(c)"
        assert len(jobs) == 3 and w.daemon.counts["prefetch hits"] == 1


async def test_a_key_that_does_not_fit_abandons_it(tmp_path):
    async with world(tmp_path, document=DOCUMENT + "x" * 4000, pass_ms=3.0) as w:
        jobs, client = jobs_of(w), w.client()
        await shown(client, w, replace(FIRST, max_tokens=30))
        await until(w, lambda: len(jobs) == 2)
        await client.ask(replace(FIRST, id=2, before=FIRST.before + "Z", max_tokens=1))
        stats = await w.engine.stats()
        assert (stats["cancelled"], stats["running"], stats["waiting"]) == (1, 0, 0)
        assert w.daemon.counts["prefetch hits"] == 0


async def test_typing_towards_what_is_shown_keeps_it(tmp_path):
    async with world(tmp_path, document=DOCUMENT, pass_ms=3.0) as w:
        jobs, client = jobs_of(w), w.client()
        text = await shown(client, w)
        await until(w, lambda: len(jobs) == 2)
        assert (await client.ask(follows(2, text[:3]))).candidates[0].text == text[3:]
        await settled(w)
        assert (await w.engine.stats())["cancelled"] == 0
        assert (await client.ask(follows(3, text))).tokens["passes"] == 0


@pytest.mark.parametrize("more", [{"trigger": "invoked"}, {"n": 2}])
async def test_nothing_is_begun_for_what_a_person_asked_for(tmp_path, more):
    async with world(tmp_path, document=DOCUMENT) as w:
        client = w.client()
        await shown(client, w, replace(FIRST, **more))
        await client.send(m.AskStatus(1))
        status = await client.next(m.Status)
        assert status.engine.get("daemon prefetch runs", 0) == 0
        assert status.engine["daemon feedback shown"] == 1


async def test_nothing_is_begun_where_it_is_switched_off_or_nobody_said_shown(tmp_path):
    for number, settings in enumerate((WITHOUT_PREFETCH, config.Config())):
        directory = tmp_path / str(number)
        directory.mkdir()
        async with world(directory, settings=settings, document=DOCUMENT) as w:
            client = w.client()
            await client.ask(FIRST)
            events: list[Any] = ["accepted", *["shown"] * (not number)]
            await client.send(*(m.Feedback(1, event) for event in events), m.Feedback(77, "shown"))
            await client.send(m.AskStatus(1))
            assert (await client.next(m.Status)).engine["runs"] == 1


async def test_nothing_is_begun_that_would_cost_the_next_key_its_prompt(tmp_path):
    settings = config.Config(completion=config.Completion(layout="cursor", gate=False))
    async with world(tmp_path, settings=settings, document=DOCUMENT) as w:
        client = w.client()
        await shown(client, w, replace(FIRST, before="def f():\n    "))
        await client.send(m.AskStatus(1))
        assert (await client.next(m.Status)).engine["runs"] == 1


async def test_that_nothing_follows_is_known_without_another_pass(tmp_path):
    async with world(tmp_path, document="x = foo(a)") as w:
        jobs, client = jobs_of(w), w.client()
        text = await shown(client, w, m.Complete(1, "a.py", 1, "x = f", ""))
        await until(w, lambda: len(jobs) == 2)
        await settled(w)
        for ident in (2, 3):
            found = await client.ask(m.Complete(ident, "a.py", ident, f"x = f{text}", ""))
            assert (found.reason, found.tokens["passes"]) == ("empty", 0)
        assert len(jobs) == 2 and w.daemon.counts["prefetch hits"] == 1


async def test_behind_a_pair_what_follows_its_closer_is_begun(tmp_path):
    async with world(tmp_path, document="x = foo(a, [b]).bar(c)\n") as w:
        jobs, client = jobs_of(w), w.client()
        await client.ask(at(1, "x = foo|\n", max_tokens=2))
        assert await shown(client, w, at(2, "x = foo(|)\n")) == "a, [b]"
        await until(w, lambda: len(jobs) == 3)
        await settled(w)
        accepted = await client.ask(at(3, "x = foo(a, [b]|)\n"))
        assert (accepted.reason, accepted.tokens["passes"]) == ("empty", 0)
        over = await client.ask(at(4, "x = foo(a, [b])|\n"))
        assert (over.candidates[0].text, over.tokens["passes"]) == (".bar(c)", 0)
        assert len(jobs) == 3 and w.daemon.counts["prefetch hits"] == 1


async def test_that_the_text_after_the_cursor_follows_is_known_without_another_pass(tmp_path):
    async with world(tmp_path, document="x = foo(a)\ny = 1\n") as w:
        jobs, client = jobs_of(w), w.client()
        await client.ask(at(1, "x = f|\n"))
        found = await client.ask(at(2, "x = foo(a|)\n"))
        assert (found.reason, found.candidates, len(jobs)) == ("empty", [], 1)
        found = await client.ask(at(3, "x = foo(a)|\n"))
        assert (found.candidates[0].text, len(jobs)) == ("\ny = 1", 2)


async def test_an_answer_shown_again_begins_nothing_twice(tmp_path):
    async with world(tmp_path, document=DOCUMENT) as w:
        jobs, client = jobs_of(w), w.client()
        text = await shown(client, w)
        await until(w, lambda: len(jobs) == 2)
        await settled(w)
        await shown(client, w, follows(2, text[:2]))
        await shown(client, w, follows(3, text[:4]))
        await client.send(m.AskStatus(1))
        await client.next(m.Status)
        assert len(jobs) == 2


async def test_one_accept_after_the_other_needs_a_pass_for_the_first_only(tmp_path):
    lines = "".join(f"step({n})\n\n" for n in range(5))
    async with world(tmp_path, document=lines) as w:
        client, before = w.client(), "step(0"
        for ident in range(1, 5):
            request = m.Complete(ident, "a.py", ident, before, "")
            reply = await client.ask(request)
            assert bool(reply.tokens["passes"]) == (ident == 1)
            before += reply.candidates[0].text
            await client.send(m.Feedback(ident, "shown"), m.AskStatus(ident))
            await client.next(m.Status)
            await settled(w)
        assert w.daemon.counts["prefetch hits"] == 3


async def test_a_superseded_run_that_is_used_later_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(m, "GRACE_S", 60.0)
    async with world(tmp_path, document="def f():\n    return 42\n", pass_ms=1.0) as w:
        client = w.client()
        await client.send(ask(1, stream=True))
        await client.next(m.Partial)
        await client.send(m.Cancel(1, "superseded"))
        assert (await client.next(FINAL, 1)).reason == "superseded"
        assert (await client.next(m.Cancelled, 1)).was == "running"
        found = await client.ask(ask(2, "def f():\n    ret"))
        assert (found.candidates[0].text, found.tokens["passes"]) == ("urn 42", 0)
        counts = w.daemon.counts
        assert counts["superseded runs"] == counts["superseded hits"] == 1
