"""The client: every request ends, and a daemon that comes back is asked again, once."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from completiond import keys
from completiond.client import Client, complete_message
from completiond.core import Snapshot, text_hash
from completiond.errors import (
    NoDaemon,
    Overloaded,
    ProtocolError,
    TooLarge,
    TransportError,
    VersionError,
)
from completiond.protocol import codec
from completiond.protocol import messages as m
from completiond.transport import Listener

PATIENCE_S = 10.0
SNAPSHOT = Snapshot("file:///a.py", 3, "python", "a.py", "def f(", "):\n", 4096, "00")
CLOCK_AHEAD_NS = 5_000_000_000

Answer = list[m.FromDaemon | bytes]


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/daemon.sock"


def done(ask: m.FromClient, text: str = "x") -> m.Completion:
    assert isinstance(ask, m.Complete)
    position = ask.offset + len(ask.before)
    return m.Completion(ask.id, ask.version, position, [m.Candidate(text, "stop")], "ok")


class Daemon:
    """Answers what the test says; by default completions, welcomes, statuses and cancels."""

    def __init__(self, script: Callable[[m.FromClient], Answer | None] | None) -> None:
        self.heard: list[m.FromClient] = []
        self.news = asyncio.Event()
        self._script = script

    async def run(self, listener: Listener) -> None:
        while True:
            identity, payload = await listener.receive()
            ask = codec.decode_from_client(payload)
            self.heard.append(ask)
            self.news.set()
            answers = self._script(ask) if self._script is not None else None
            for answer in self._usual(ask) if answers is None else answers:
                data = answer if isinstance(answer, bytes) else codec.encode(answer)
                assert listener.send(identity, data)

    async def until(self, kind: type[Any], times: int = 1) -> Any:
        """The message that made it `times` of this kind."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := [one for one in self.heard if isinstance(one, kind)]) < times:
                self.news.clear()
                await self.news.wait()
        return found[times - 1]

    def _usual(self, ask: m.FromClient) -> Answer:
        if isinstance(ask, m.Hello):
            clock = time.monotonic_ns() + CLOCK_AHEAD_NS
            return [m.Welcome(1, "0.1", clock, "model", "ready")]
        if isinstance(ask, m.Complete):
            return [done(ask)]
        if isinstance(ask, m.Cancel):
            return [m.Cancelled(ask.id, "running", 1, 2.0)]
        if isinstance(ask, m.AskStatus):
            return [m.Status(ask.id, "ready", "model", "cpu", 1.0, 1, 0, 0)]
        return []


@asynccontextmanager
async def daemon(
    at: str, script: Callable[[m.FromClient], Answer | None] | None = None, **options: Any
) -> AsyncIterator[Daemon]:
    one = Daemon(script)
    async with Listener(at, **options) as listener:
        task = asyncio.create_task(one.run(listener))
        try:
            yield one
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


def silent(ask: m.FromClient) -> Answer | None:
    return [] if isinstance(ask, m.Complete) else None


def ask_for(client: Client, **options: Any) -> m.Complete:
    return complete_message(SNAPSHOT, client.next_id(), **options)


# -- answers ------------------------------------------------------------------------------------


async def test_a_completion_arrives(at: str) -> None:
    async with daemon(at) as there, Client(at) as c:
        ask = ask_for(c, n=2, trigger="invoked")
        answer = await c.complete(ask, timeout=PATIENCE_S)
        assert answer == done(ask)
        assert there.heard == [ask]


async def test_partials_come_in_order_and_before_the_answer(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [*(m.Partial(ask.id, "x" * i) for i in range(1, 200)), done(ask)]  # type: ignore[union-attr]

    seen: list[str] = []
    async with daemon(at, script), Client(at) as c:
        await c.complete(ask_for(c), lambda partial: seen.append(partial.text), PATIENCE_S)
        assert seen == ["x" * i for i in range(1, 200)]


async def test_many_requests_at_once_get_their_own_answers(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [done(ask, str(ask.id))]  # type: ignore[union-attr]

    async with daemon(at, script), Client(at) as c:
        asks = [ask_for(c) for _ in range(300)]
        answers = await asyncio.gather(*(c.complete(ask, timeout=PATIENCE_S) for ask in asks))
        assert [a.candidates[0].text for a in answers] == [str(ask.id) for ask in asks]


async def test_hello_tells_the_offset_of_the_clocks(at: str) -> None:
    async with daemon(at) as there, Client(at, client="test", version="9") as c:
        welcome = await c.hello(PATIENCE_S)
        assert welcome.state == "ready" and c.welcome == welcome
        assert abs(c.clock_offset_ns - CLOCK_AHEAD_NS) < 500_000_000
        assert isinstance(there.heard[0], m.Hello) and there.heard[0].client == "test"


async def test_status_feedback_and_spans(at: str) -> None:
    async with daemon(at) as there, Client(at) as c:
        assert (await c.status(PATIENCE_S)).state == "ready"
        assert c.feedback(m.Feedback(1, "shown"))
        assert c.spans(m.Spans([m.Span(1, "d", 1, "asked", {"sent": 1})]))
        await there.until(m.Spans)
        assert [type(one) for one in there.heard] == [m.AskStatus, m.Feedback, m.Spans]


async def test_a_failure_is_the_exception_it_stands_for(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [m.Failure(ask.id, "overloaded", "Too much at once.")]  # type: ignore[union-attr]

    async with daemon(at, script), Client(at) as c:
        with pytest.raises(Overloaded, match="Too much"):
            await c.complete(ask_for(c), timeout=PATIENCE_S)
        with pytest.raises(Overloaded):
            await c.status(PATIENCE_S)


async def test_a_hello_that_is_refused_ends(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [m.Failure(0, "version", "We speak version 9.")]

    async with daemon(at, script), Client(at) as c:
        with pytest.raises(VersionError, match="version 9"):
            await c.hello(PATIENCE_S)


async def test_a_second_final_answer_is_ignored(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [done(ask, "first"), done(ask, "second"), m.Failure(ask.id, "internal", "third")]  # type: ignore[union-attr]

    async with daemon(at, script), Client(at) as c:
        for _ in range(3):
            answer = await c.complete(ask_for(c), timeout=PATIENCE_S)
            assert answer.candidates[0].text == "first"


@pytest.mark.parametrize("bad", [b"", b"\xc1", b"\x80", msgpack.packb({"v": 1, "t": "what"})])
async def test_malformed_bytes_fail_the_request_and_the_reader_lives(at: str, bad: bytes) -> None:
    first = True

    def script(ask: m.FromClient) -> Answer | None:
        nonlocal first
        answers: Answer | None = [bad] if first else None
        first = False
        return answers

    async with daemon(at, script), Client(at) as c:
        with pytest.raises(ProtocolError, match="cannot be read"):
            await c.complete(ask_for(c), timeout=PATIENCE_S)
        await c.complete(ask_for(c), timeout=PATIENCE_S)


async def test_a_malformed_answer_with_an_id_fails_that_request_only(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        assert isinstance(ask, m.Complete)
        if ask.id == 1:
            return []
        return [msgpack.packb({"v": 1, "t": "completion", "id": ask.id}), done(replace(ask, id=1))]

    async with daemon(at, script), Client(at) as c:
        first = asyncio.create_task(c.complete(ask_for(c), timeout=PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(ProtocolError):
            await c.complete(ask_for(c), timeout=PATIENCE_S)
        assert (await first).id == 1


async def test_a_callback_that_raises_does_not_stop_the_reader(at: str) -> None:
    def script(ask: m.FromClient) -> Answer:
        return [m.Partial(ask.id, "x"), done(ask)]  # type: ignore[union-attr]

    def broken(_: m.Partial) -> None:
        raise ValueError("broken")

    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with daemon(at, script), Client(at) as c:
        await c.complete(ask_for(c), broken, PATIENCE_S)
        assert isinstance(told[0]["exception"], ValueError)


# -- what is sent -------------------------------------------------------------------------------


async def test_a_message_that_is_too_large_is_not_sent(at: str) -> None:
    chunk = m.Chunk("h", "p", "l", "x" * 65_536)
    async with daemon(at) as there, Client(at) as c:
        with pytest.raises(TooLarge):
            await c.complete(ask_for(c, chunks=[chunk] * 65), timeout=PATIENCE_S)
        await c.complete(ask_for(c), timeout=PATIENCE_S)
        assert len(there.heard) == 1


async def test_lone_surrogates_are_replaced_and_positions_stay(at: str) -> None:
    text = "s = '\udc80'"
    chunk = m.Chunk(text_hash(text), "p\ud800", "l", text)
    async with daemon(at) as there, Client(at) as c:
        ask = replace(ask_for(c), before="a\ud800b", chunks=[chunk], context=[chunk.hash, "ab"])
        await c.complete(ask, timeout=PATIENCE_S)
        heard = there.heard[0]
        assert isinstance(heard, m.Complete)
        assert heard.before == "a\ufffdb"
        clean = text_hash("s = '\ufffd'")
        assert heard.chunks == [m.Chunk(clean, "p\ufffd", "l", "s = '\ufffd'")]
        assert heard.context == [clean, "ab"]


# -- cancelling ---------------------------------------------------------------------------------


async def test_a_cancel_is_acknowledged(at: str) -> None:
    waiting: list[m.FromClient] = []

    def script(ask: m.FromClient) -> Answer | None:
        if isinstance(ask, m.Complete):
            waiting.append(ask)
            return []
        if isinstance(ask, m.Cancel):
            answer = replace(done(waiting.pop()), candidates=[], reason=ask.reason)
            return [answer, m.Cancelled(ask.id, "running", 1, 2.0)]
        return None

    async with daemon(at, script) as there, Client(at) as c:
        ask = ask_for(c)
        task = asyncio.create_task(c.complete(ask, timeout=PATIENCE_S))
        await there.until(m.Complete)
        c.cancel(ask.id, "superseded")
        assert await c.cancelled(ask.id, PATIENCE_S) == m.Cancelled(ask.id, "running", 1, 2.0)
        assert (await task).reason == "superseded"


@pytest.mark.parametrize("reason", ["abandoned", "superseded", None])
async def test_a_caller_that_goes_away_tells_the_daemon_as_asked(at: str, reason: Any) -> None:
    async with daemon(at, silent) as there, Client(at) as c:
        ask = ask_for(c)
        task = asyncio.create_task(c.complete(ask, on_cancel=reason))
        await there.until(m.Complete)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await c.status(PATIENCE_S)
        told = [one for one in there.heard if isinstance(one, m.Cancel)]
        assert told == ([m.Cancel(ask.id, reason)] if reason else [])


async def test_a_timeout_abandons_the_request(at: str) -> None:
    async with daemon(at, silent) as there, Client(at) as c:
        await c.hello(PATIENCE_S)
        with pytest.raises(NoDaemon, match="did not answer within"):
            await c.complete(ask_for(c), timeout=0.02)
        assert (await there.until(m.Cancel)).reason == "abandoned"


async def test_cancels_without_a_daemon_end_at_once_and_are_not_hoarded(at: str) -> None:
    async with Client(at) as c:
        ask = ask_for(c)
        task = asyncio.create_task(c.complete(ask))
        await asyncio.sleep(0)
        c.cancel(ask.id, "superseded")
        assert (await task).reason == "superseded"
        assert (await c.cancelled(ask.id, PATIENCE_S)).was == "queued"
        for ident in range(10_000):
            c.cancel(ident, "abandoned")
        assert (await c.cancelled(9_999, PATIENCE_S)).was == "unknown"
        with pytest.raises(AssertionError):
            await c.cancelled(1)


# -- daemons that come and go -------------------------------------------------------------------


async def test_nobody_answers(at: str) -> None:
    async with Client(at) as c:
        for ask in (c.hello(0.02), c.status(0.02), c.complete(ask_for(c), timeout=0.02)):
            with pytest.raises(NoDaemon, match="completiond serve"):
                await ask
        assert not c.feedback(m.Feedback(1, "shown"))


async def test_a_daemon_that_starts_later_is_asked_once(at: str) -> None:
    async with Client(at) as c:
        task = asyncio.create_task(c.complete(ask_for(c), timeout=PATIENCE_S))
        await asyncio.sleep(0)
        async with daemon(at) as there:
            await task
            await c.status(PATIENCE_S)
            assert sum(isinstance(one, m.Complete) for one in there.heard) == 1


async def test_a_restarted_daemon_is_asked_again_once_under_the_same_id(at: str) -> None:
    async with Client(at) as c:
        async with daemon(at, silent) as before:
            await c.hello(PATIENCE_S)
            asks = [ask_for(c) for _ in range(5)]
            tasks = [asyncio.create_task(c.complete(ask, timeout=PATIENCE_S)) for ask in asks]
            await before.until(m.Complete, 5)
        async with daemon(at) as after:
            answers = await asyncio.gather(*tasks)
            assert [answer.id for answer in answers] == [ask.id for ask in asks]
            await after.until(m.Hello)  # another daemon has another clock
            await c.status(PATIENCE_S)
            assert [one for one in after.heard if isinstance(one, m.Complete)] == asks
            assert sum(isinstance(one, m.Hello) for one in after.heard) == 1


async def test_a_request_made_while_the_daemon_is_away_is_asked_once(at: str) -> None:
    async with Client(at) as c:
        async with daemon(at):
            await c.complete(ask_for(c), timeout=PATIENCE_S)
        task = asyncio.create_task(c.complete(ask_for(c), timeout=PATIENCE_S))
        await asyncio.sleep(0)
        async with daemon(at) as after:
            await task
            await c.status(PATIENCE_S)
            assert sum(isinstance(one, m.Complete) for one in after.heard) == 1


async def test_a_request_that_ends_two_daemons_is_not_asked_a_third_time(at: str) -> None:
    async with Client(at) as c:
        task = asyncio.create_task(c.complete(ask_for(c), timeout=PATIENCE_S))
        for _ in range(2):
            async with daemon(at, silent) as there:
                await there.until(m.Complete)
        with pytest.raises(NoDaemon, match="twice"):
            await task


async def test_a_cancelled_request_is_not_asked_again(at: str) -> None:
    def deaf(_: m.FromClient) -> Answer:
        return []

    async with Client(at) as c:
        ask = ask_for(c)
        async with daemon(at, deaf) as before:
            task = asyncio.create_task(c.complete(ask, timeout=PATIENCE_S))
            await before.until(m.Complete)
            c.cancel(ask.id, "superseded")
            await before.until(m.Cancel)
        assert (await task).reason == "superseded"
        assert (await c.cancelled(ask.id, PATIENCE_S)).was == "unknown"
        async with daemon(at) as after:
            await c.status(PATIENCE_S)
            assert [type(one) for one in after.heard] == [m.AskStatus]


async def test_a_request_is_asked_again_when_a_flood_cost_the_connection(
    at: str, tmp_path: Path
) -> None:
    async with daemon(at, silent, max_connections=8) as there, Client(at) as c:
        ask = ask_for(c)
        task = asyncio.create_task(c.complete(ask))
        await there.until(m.Complete)
        with ExitStack() as crowd:
            for _ in range(20):
                idle = crowd.enter_context(socket.socket(socket.AF_UNIX))
                with suppress(OSError):
                    idle.connect(str(tmp_path / "daemon.sock"))
            assert await there.until(m.Complete, 2) == ask
        task.cancel()


async def test_closing_ends_everything_that_waits(at: str) -> None:
    async with daemon(at, lambda _: []) as there:
        async with Client(at) as c:
            ask = ask_for(c)
            waits: list[asyncio.Task[Any]] = [
                asyncio.create_task(c.complete(ask)),
                asyncio.create_task(c.hello()),
                asyncio.create_task(c.status()),
            ]
            await there.until(m.AskStatus)
            c.cancel(ask.id, "abandoned")
            waits.append(asyncio.create_task(c.cancelled(ask.id)))
            await there.until(m.Cancel)
        async with asyncio.timeout(PATIENCE_S):
            for result in await asyncio.gather(*waits, return_exceptions=True):
                assert isinstance(result, NoDaemon) and "closed" in str(result)
        with pytest.raises(NoDaemon, match="closed"):
            await c.status()
        assert not c.feedback(m.Feedback(1, "shown"))


# -- where and who ------------------------------------------------------------------------------


async def test_a_socket_where_others_can_enter_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(TransportError, match="Others can enter"):
        async with Client(f"ipc://{tmp_path}/open/daemon.sock"):
            pass


@pytest.mark.slow
async def test_a_client_whose_key_is_unknown_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "run"))
    keys.new_keys(tmp_path / "keys")
    _, stranger = keys.new_keys(tmp_path / "stranger")
    server = keys.server_keys(tmp_path / "keys")
    async with Listener("tcp://127.0.0.1:0", keys=server) as listener:
        mine = keys.client_keys(listener.endpoint, tmp_path / "keys")
        async with Client(listener.endpoint, keys=keys.ClientKeys(stranger, mine.server)) as c:
            with pytest.raises(NoDaemon, match="completiond keys authorise"):
                await c.hello(1.0)
        async with Client(listener.endpoint, keys=mine) as c:
            hello = asyncio.create_task(c.hello(PATIENCE_S))
            identity, payload = await listener.receive()
            assert isinstance(codec.decode_from_client(payload), m.Hello)
            listener.send(identity, codec.encode(m.Welcome(1, "", 0, "model", "ready")))
            await hello


def test_the_snapshot_becomes_a_request() -> None:
    message = complete_message(SNAPSHOT, 7, stream=True, max_ms=50)
    assert (message.id, message.stream, message.max_ms) == (7, True, 50)
    assert (message.document, message.version, message.before) == ("file:///a.py", 3, "def f(")
    assert (message.offset, message.prefix_hash, message.language) == (4096, "00", "python")


def test_the_client_stays_light() -> None:
    code = (
        "import sys; import completiond.client; "
        "heavy = {'torch', 'numpy', 'typer', 'rich', 'tokenizers', 'transformers'}; "
        "sys.exit(len(heavy & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
