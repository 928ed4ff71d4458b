"""What goes wrong on the keystroke path: each ends in one right reply.

Real sockets and a scripted engine; a client that dies is a process that is killed.
"""

import ast
import asyncio
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from completiond import config, router
from completiond.footprint import anonymous_bytes
from completiond.protocol import messages as m
from tests.daemon_world import FINAL, PATIENCE_S, SLOW, Wire, World, ask, in_process, world

ROOT = Path(__file__).parent.parent
DOCUMENT = "def f():\n    return 42\n\ndef g():\n    return 43\n"


async def test_events_out_of_order_are_answered_each(tmp_path):
    async with world(tmp_path, document=DOCUMENT) as w:
        client = w.client()
        await client.send(
            m.Cancel(1, "superseded"), m.Feedback(1, "shown"), m.Feedback(9, "accepted")
        )
        assert (await client.next(m.Cancelled, 1)).was == "unknown"
        await client.send(ask(2), m.Cancel(1, "abandoned"), ask(1), m.Cancel(2, "abandoned"))
        assert (await client.next(FINAL, 2)).reason == "superseded"
        assert (await client.next(m.Cancelled, 2)).was == "finished"
        finals = [s for s in client.seen if isinstance(s, FINAL) and s.id == 1]
        last = finals[0] if finals else await client.next(FINAL, 1)
        assert last.candidates[0].text == "return 42"


async def test_a_version_that_goes_backwards_is_answered_for_the_text_it_names(tmp_path):
    async with world(tmp_path, document=DOCUMENT) as w:
        client = w.client()
        for version, name in ((9, "f"), (3, "g"), (3, "f"), (-1, "g")):
            before = f"def {name}():\n    "
            request = m.Complete(version + 10, "a.py", version, before, "")
            reply = await client.ask(request)
            assert (reply.version, reply.position) == (version, len(before))
            assert reply.candidates[0].text == f"return 4{2 if name == 'f' else 3}"


async def test_two_clients_with_the_same_buffer_do_not_disturb_each_other(tmp_path):
    async with world(tmp_path, document=DOCUMENT, pass_ms=1.0) as w:
        one, two = w.client(), w.client()
        await one.send(ask(1, stream=True))
        await one.next(m.Partial)
        await two.send(ask(1, "def g():\n    ", stream=True), m.Cancel(7, "abandoned"))
        assert (await one.next(m.Completion, 1)).candidates[0].text == "return 42"
        assert (await two.next(m.Completion, 1)).candidates[0].text == "return 43"
        again = await two.ask(ask(2))  # what the first one knows is its own
        assert (again.candidates[0].text, again.tokens["passes"] > 0) == ("return 42", True)
        assert w.daemon.counts["joined"] == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [("def f():\r", "\n    x = 1\r\n"), ("def f():\r\n    ", "\r\n"), ("x = '\U0001f600", "'\n")],
)
async def test_a_cursor_between_a_line_s_two_ends_or_behind_a_pair_is_answered(
    tmp_path, before, after
):
    async with world(tmp_path, answers=["\n    return 1"]) as w:
        reply = await w.client().ask(ask(1, before, after=after))
        assert (reply.reason, reply.position) == ("ok", len(before))
        assert "\r" not in reply.candidates[0].text


async def test_half_a_surrogate_pair_on_the_wire_is_refused_and_the_next_request_served(tmp_path):
    async with world(tmp_path, answers=["x"]) as w:
        client = w.client()
        await client.raw(
            b"\x88\xa1v\x01\xa1t\xa8complete\xa2id\x05\xa8document\xa1a"
            b"\xa7version\x01\xa6before\xa3\xed\xa0\xbd\xa5after\xa0\xa1n\x01"
        )
        assert (await client.next(m.Failure)).code == "protocol"
        assert (await client.ask(ask(6))).reason == "ok"


@pytest.mark.parametrize(
    "changed",
    ["# a line above\ndef f():\n    ", "def g():\n    ", "def g():\n  "],
    ids=["an edit above", "an edit before the cursor", "a formatter"],
)
async def test_an_edit_of_the_text_before_while_a_pass_runs_ends_its_run(tmp_path, changed):
    async with world(tmp_path, document=f"{DOCUMENT}{'y' * 4000}", pass_ms=1.0) as w:
        client = w.client()
        await client.send(ask(1, "y", stream=True, max_tokens=4000))
        await client.next(m.Partial)
        reply = await client.ask(ask(2, changed))
        assert reply.candidates and reply.position == len(changed)
        stats = await w.engine.stats()
        assert (stats["cancelled"], stats["running"], w.daemon.counts["joined"]) == (1, 0, 0)


async def test_two_hundred_keys_in_one_burst_get_one_reply_each_and_the_last_its_answer(tmp_path):
    line = "def f():\n    total = " + " + ".join(f"value_{n}(x)" for n in range(40))
    async with world(tmp_path, document=line + "\n", pass_ms=1.0) as w:
        client = w.client()
        keys = [ask(n, line[: 13 + n], after=")" * (n % 7 == 0)) for n in range(1, 201)]
        for n, key in enumerate(keys):
            await client.send(key)
            if n % 3 == 0:
                await client.send(m.Cancel(key.id, "superseded"))
        owed = len(keys) + len(keys[::3])
        while sum(isinstance(s, (*FINAL, m.Cancelled)) for s in client.seen) < owed:
            await client.next()
        finals = [s for s in client.seen if isinstance(s, FINAL)]
        assert sorted(s.id for s in finals) == [key.id for key in keys]
        assert finals[-1].id == 200 or finals[-1].reason == "superseded"
        last = next(s for s in finals if s.id == 200)
        assert line.startswith(keys[-1].before + last.candidates[0].text)
        stats = await w.engine.stats()
        assert stats["runs"] < len(keys)
        assert w.daemon.waiting == stats["running"] == 0


DIES = """
import sys, time, zmq
from completiond.protocol import codec
from completiond.protocol import messages as m
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(sys.argv[1])
request = m.Complete(1, "a.py", 1, "def f():", "", max_tokens=4000, max_ms=600_000)
socket.send(codec.encode(request))
time.sleep(600)
"""


async def free(w: World) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while (stats := await w.engine.stats())["running"]:
            await asyncio.sleep(0.005)
        return stats


@pytest.mark.slow  # a process, and real time
@pytest.mark.parametrize("make", [in_process])
async def test_the_slot_of_a_process_that_is_killed_is_free_within_two_seconds(tmp_path, make):
    async with world(tmp_path, make, **SLOW) as w:
        stays = w.client()
        await stays.send(ask(1, document="other.py", max_tokens=3000, max_ms=600_000))
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, w.endpoint)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (await w.engine.stats())["running"] < 2:
                    await asyncio.sleep(0.005)
        finally:
            process.kill()
            killed = asyncio.get_running_loop().time()
        async with asyncio.timeout(2):
            while (await w.engine.stats())["running"] > 1:
                await asyncio.sleep(0.005)
        assert asyncio.get_running_loop().time() - killed < 2
        await process.wait()
        assert w.daemon.waiting == 1  # who is still there keeps its run
        await stays.send(m.Cancel(1, "abandoned"))
        assert (await stays.next(FINAL, 1)).reason == "abandoned"
        assert (await free(w))["cancelled"] == 2
        assert any(isinstance(s, m.Ping) for s in stays.seen)


class Cable:
    """A way to a daemon that can be cut: then both ends are open and nothing comes any more."""

    def __init__(self) -> None:
        self.cut = False
        self._ends: list[asyncio.StreamWriter] = []

    async def lay(self, endpoint: str) -> str:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")

        async def joined(near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            far, there = await asyncio.open_connection(host, int(port))
            self._ends += [back, there]
            await asyncio.gather(self._carry(near, there), self._carry(far, back))

        self._server = await asyncio.start_server(joined, "127.0.0.1", 0)
        return f"tcp://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if not self.cut:
                    sink.write(data)

    async def close(self) -> None:
        self._server.close()
        for end in self._ends:
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()


@pytest.mark.slow
async def test_a_run_of_a_client_that_is_cut_off_ends_although_nobody_hangs_up(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(router, "HEARTBEAT_MS", 150)
    monkeypatch.setattr(router, "HEARTBEAT_TIMEOUT_MS", 600)
    endless = SLOW | {"answers": ["+".join(map(str, range(1000)))]}  # no loop, which would end it
    async with world(tmp_path, at="tcp://127.0.0.1:0", **endless) as w:
        cable = Cable()
        try:
            w.endpoint = await cable.lay(w.endpoint)
            away = w.client()
            await away.send(ask(1, max_tokens=3000, max_ms=600_000))
            async with asyncio.timeout(PATIENCE_S):
                while not (await w.engine.stats())["running"]:
                    await asyncio.sleep(0.005)
            # A client that is there is not taken for one that is not.
            until = time.monotonic() + 2 * 0.6
            while time.monotonic() < until:
                assert (await w.engine.stats())["running"] == 1
            cable.cut = True
            assert (await free(w))["cancelled"] == 1
            assert w.daemon.waiting == 0
        finally:
            await cable.close()


def test_who_is_cut_off_is_noticed_within_four_seconds() -> None:
    assert router.HEARTBEAT_MS + router.HEARTBEAT_TIMEOUT_MS <= 4_000


async def test_clients_that_come_and_go_are_no_reason_to_disturb_those_that_wait_for_nothing(
    tmp_path,
):
    async with world(tmp_path, answers=["x"]) as w:
        idle = w.client()
        await idle.ask(ask(1))
        for _ in range(3):
            passing = w.client()
            await passing.ask(ask(1))
            passing.close()
        await idle.send(m.AskStatus(1))
        await idle.next(m.Status)
        assert not any(isinstance(s, m.Ping) for s in idle.seen)


async def test_one_client_that_floods_gets_no_more_than_fifteen_that_type(tmp_path):
    """Answers in the order of asking would give it four of five."""
    async with world(tmp_path, answers=["abcdefgh"], pass_ms=2.0, width=4) as w:
        flood, done = w.client(), 0

        async def keep_asking() -> None:
            nonlocal done
            await flood.send(*(ask(n, document=f"{n}") for n in range(1, 61)))
            for ident in range(61, 10_000):
                await flood.next(m.Completion)
                done += 1
                await flood.send(ask(ident, f"x{ident}", document=f"{ident % 60}"))

        async def type_on(client: Wire) -> None:
            for ident in range(1, 6):
                assert (await client.ask(ask(ident, "x" * ident))).reason == "ok"

        flooding = asyncio.create_task(keep_asking())
        typists = [w.client() for _ in range(15)]
        await asyncio.gather(*map(type_on, typists))
        flooding.cancel()
        assert 0 < done <= 15 * 5


CHUNKS = """
import sys, zmq
from completiond.core import text_hash
from completiond.protocol import codec
from completiond.protocol import messages as m
socket = zmq.Context().socket(zmq.DEALER)
socket.connect(sys.argv[1])
for n in range(1, 61):
    texts = [f"{n} {k} ".ljust(65_000, "x") for k in range(63)]
    chunks = [m.Chunk(text_hash(t), f"{n}/{k}.py", "python", t) for k, t in enumerate(texts)]
    names = [chunk.hash for chunk in chunks]
    request = m.Complete(n, f"{n}", 1, "abc ", "", chunks=chunks, context=names)
    socket.send(codec.encode(request))
print("sent", flush=True)
socket.poll(60_000)
"""
"""A client that sends 60 new requests of four megabytes each and waits for nothing."""


@pytest.mark.slow  # a quarter of a gigabyte; it looks at the memory of this process
async def test_a_flood_of_new_chunks_costs_nobody_else_the_connection(tmp_path):
    async with world(tmp_path, make=in_process, answers=["abcdefgh"]) as w:
        typist = w.client()
        assert (await typist.ask(ask(1))).reason == "ok"
        before = peak = anonymous_bytes()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CHUNKS, w.endpoint)
        try:
            ident = 1
            while w.daemon.counts["requests"] < 60 + ident:
                ident += 1
                assert (await typist.ask(ask(ident, "x" * ident))).reason == "ok"
                peak = max(peak, anonymous_bytes())
        finally:
            process.kill()
            await process.wait()
        assert w.listener.counts.reopened == 0
        assert peak - before < 160 << 20


# -- clocks ---------------------------------------------------------------------------------------

WALL_CLOCKS = {"time", "time_ns", "now", "utcnow", "today"}


def wall_clocks(path: Path) -> list[str]:
    """Calls of the wall clock: `time.time()`, `datetime.now()` and their like."""
    calls = [
        node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)
    ]
    named = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in WALL_CLOCKS]
    modules = ("time", "datetime", "date")
    return [
        f"{path.name}:{call.lineno}"
        for call in named
        if isinstance(call.value, ast.Name | ast.Attribute)
        and (getattr(call.value, "id", "") or getattr(call.value, "attr", "")) in modules
    ]


def test_no_part_of_the_path_reads_a_clock_that_can_jump() -> None:
    sources = [*(ROOT / "completiond").rglob("*.py"), *(ROOT / "lsp").rglob("*.py")]
    path = [p for p in sources if "commands" not in p.parts and p.parent.name != "model"]
    path = [p for p in path if p.name != "wall.py"]  # dates of the record, by which nothing waits
    assert len(path) > 40
    assert [found for source in path for found in wall_clocks(source)] == []


def test_a_wall_clock_would_be_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import time, datetime\ntime.time()\ndatetime.datetime.now()\ntime.monotonic()\n"
    )
    assert wall_clocks(bad) == ["bad.py:2", "bad.py:3"]


async def test_a_jump_of_the_wall_clock_changes_nothing(tmp_path, monkeypatch):
    limits = config.Config(completion=config.Completion(max_ms=2_000, gate=False))
    async with world(tmp_path, settings=limits, document=DOCUMENT, pass_ms=1.0) as w:
        client = w.client()
        await client.send(ask(1, stream=True))
        await client.next(m.Partial)
        for jump in (-1e9, 1e9):
            monkeypatch.setattr("time.time", lambda jump=jump: jump)
        assert (await client.next(m.Completion, 1)).reason == "ok"
