"""The real small model, end to end: daemon, command line and language server as processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import lsp_editor
import pytest
from http_daemon import KEY, Web, free_port, text

from completiond.client import Client, complete_message
from completiond.core import Snapshot
from completiond.errors import ModelError, NoDaemon
from completiond.model import store
from completiond.protocol import messages as m

pytestmark = pytest.mark.model

MODEL = "qwen2.5-coder-0.5b"
LOADING_S = 180.0
ANSWER_S = 120.0
FREE_MS = 250.0
"""A cancelled run frees the device at the next pass; a pass is aimed at 55 ms, CI is slower."""
BEFORE = "def add(first, second):\n    return first"
AFTER = "\n\n\nassert add(2, 3) == 5\n"
LONG = '"""A tokenizer for arithmetic."""\n\nimport re\n\n\n'


@dataclass(frozen=True)
class Served:
    process: subprocess.Popen[str]
    endpoint: str
    environ: dict[str, str]
    web: Web

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "completiond", *arguments]
        return subprocess.run(
            command, env=self.environ, capture_output=True, text=True, timeout=LOADING_S
        )


def serve(directory: Path) -> Served:
    try:
        store.resolve(MODEL)
    except ModelError as exc:
        pytest.fail(str(exc))
    directory.chmod(0o700)
    endpoint, port = f"ipc://{directory}/d.sock", free_port()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("COMPLETIOND_")}
    if cache := os.environ.get("COMPLETIOND_CACHE"):
        environ["COMPLETIOND_CACHE"] = cache
    environ |= {
        "COMPLETIOND_CONFIG": str(directory / "config.toml"),
        "COMPLETIOND_STATE": str(directory / "state"),
        "COMPLETIOND_SERVE_ENDPOINT": endpoint,
        "COMPLETIOND_ENGINE_DEVICE": "cpu",
        "COMPLETIOND_HTTP_KEY": KEY,
        "COMPLETIOND_HTTP_PORT": str(port),
    }
    environ.pop("OMP_NUM_THREADS", None)  # set for tests that compute in their own process
    command = [sys.executable, "-m", "completiond", "serve", "--model", MODEL]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while "stops it." not in (line := process.stdout.readline()):
        assert line, "the daemon ended before it was ready"
    return Served(process, endpoint, environ, Web(port, endpoint))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serve(tmp_path_factory.mktemp("real"))
    try:
        yield found
    finally:
        found.process.terminate()
        found.process.communicate(timeout=30)
        assert found.process.returncode == 0


@asynccontextmanager
async def client_of(served: Served) -> AsyncIterator[Client]:
    async with Client(served.endpoint) as client:
        await client.hello(10)
        yield client


def ask(client: Client, before: str, after: str = "", version: int = 1, **options: object):
    snapshot = Snapshot.around(
        before + after,
        len(before),
        document="file:///a.py",
        version=version,
        language="python",
        path="a.py",
    )
    return complete_message(snapshot, client.next_id(), **{"max_ms": 60_000} | options)


def engine_of(process: subprocess.Popen[str]) -> int:
    """The pid of the daemon's child that computes."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == process.pid and b"engine_process" in command:
            return int(stat.parent.name)
    raise AssertionError("the daemon has no engine process")


async def test_fills_a_gap(served: Served) -> None:
    async with client_of(served) as client:
        answer = await client.complete(ask(client, BEFORE, AFTER), timeout=ANSWER_S)
    assert answer.candidates[0].text == " + second"
    assert answer.tokens["generated"] > 0 and answer.timings_ms["decode"] > 0


async def test_the_next_key_reuses_what_was_computed(served: Served) -> None:
    async with client_of(served) as client:
        await client.complete(ask(client, LONG + BEFORE, AFTER), timeout=ANSWER_S)
        fits = await client.complete(
            ask(client, LONG + BEFORE + " ", AFTER, version=2), timeout=ANSWER_S
        )
        other = await client.complete(
            ask(client, LONG + BEFORE + " -", AFTER, version=3), timeout=ANSWER_S
        )
    assert fits.candidates[0].text == "+ second" and fits.tokens["passes"] == 0
    assert other.tokens["passes"] > 0 and other.tokens["reused"] > 0


def test_the_command_line_completes_in_place(served: Served, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BEFORE + AFTER)
    ran = served.run("complete", f"{tmp_path}/a.py:2:17")
    assert ran.returncode == 0 and "return first⟦ + second⟧" in ran.stdout, ran.stderr
    ran = served.run("complete", f"{tmp_path}/a.py:2:17", "--json", "--stream")
    *_, final = [json.loads(line) for line in ran.stdout.splitlines()]
    assert final["candidates"][0]["text"] == " + second"
    ran = served.run("status")
    assert f"{MODEL} is ready" in ran.stdout


async def test_the_language_server_shows_it_to_an_editor(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsp_editor, "WAIT_S", ANSWER_S)
    async with lsp_editor.Editor(endpoint=served.endpoint) as editor:
        editor.open(BEFORE + AFTER)
        reply = await editor.reply(editor.complete(1, 16))
        while not reply["result"]:  # the bridge may still be connecting
            reply = await editor.reply(editor.complete(1, 16))
    assert lsp_editor.texts(reply) == [" + second"]


async def test_a_ready_prompt_is_filled_over_http_and_a_closed_connection_ends_its_run(
    served: Served,
) -> None:
    prompt = f"<|fim_prefix|>{BEFORE}<|fim_suffix|>{AFTER}<|fim_middle|>"
    asked = {"model": MODEL, "prompt": prompt, "max_tokens": 64, "stop": ["<|endoftext|>"]}
    whole = (await asyncio.to_thread(served.web.post, asked)).json["choices"][0]
    assert (whole["text"], whole["finish_reason"]) == (" + second", "stop")
    stream = await asyncio.to_thread(served.web.post, asked | {"stream": True})
    assert text(stream.events) == " + second"
    async with client_of(served) as client:
        long = asked | {"prompt": LONG, "max_tokens": 256, "stream": True}
        with await asyncio.to_thread(served.web.begin, long) as link:
            await asyncio.to_thread(link.recv, 1)
            assert (await client.status(10)).running == 1
        while (status := await client.status(10)).running:
            await asyncio.sleep(0.02)
    assert status.engine["cancelled"] >= 1


async def test_an_abandoned_request_frees_the_device_soon(served: Served) -> None:
    async with client_of(served) as client:
        waits = asyncio.Event()
        message = ask(client, LONG, max_tokens=1000, stream=True)
        asked = asyncio.create_task(client.complete(message, lambda _: waits.set()))
        await asyncio.wait_for(waits.wait(), ANSWER_S)
        client.cancel(message.id, "abandoned")
        gone = await client.cancelled(message.id, timeout=ANSWER_S)
        answer = await asked
    assert (answer.reason, gone.was) == ("abandoned", "running")
    assert gone.free_ms < FREE_MS * lateness()


def lateness() -> float:
    """How many times slower than alone a process of ours may be, by the machine's queue."""
    return max(1.0, 2 * os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def test_a_second_daemon_is_refused(served: Served) -> None:
    ran = served.run("serve", "--model", MODEL)
    assert ran.returncode == 1 and "already serves" in ran.stderr


async def test_a_killed_engine_comes_back_and_answers(served: Served) -> None:
    async with client_of(served) as client:
        os.kill(engine_of(served.process), signal.SIGKILL)
        give_up = time.monotonic() + LOADING_S
        while (status := await client.status(10)).state == "ready":
            assert time.monotonic() < give_up
        while (status := await client.status(10)).state != "ready":
            assert time.monotonic() < give_up
            await asyncio.sleep(0.1)
        assert status.model == MODEL
        answer = await client.complete(ask(client, BEFORE, AFTER), timeout=ANSWER_S)
    assert answer.candidates[0].text == " + second"


async def test_sigterm_answers_what_was_asked_and_ends_with_0(tmp_path: Path) -> None:
    served = serve(tmp_path)
    async with client_of(served) as client:
        started = asyncio.Event()
        message = ask(client, LONG, max_tokens=24, stream=True)
        asked = asyncio.create_task(client.complete(message, lambda _: started.set()))
        await asyncio.wait_for(started.wait(), ANSWER_S)
        served.process.terminate()
        answer = await asked
        assert isinstance(answer, m.Completion) and answer.candidates[0].text
    await asyncio.to_thread(served.process.communicate, timeout=30)
    assert served.process.returncode == 0
    async with Client(served.endpoint) as late:
        with pytest.raises(NoDaemon):
            await late.hello(0.3)
