"""The daemon's web server, as a process with a scripted engine: who may ask, what is answered,
what ends a run."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, cast

import pytest
from http_daemon import KEY, PATIENCE_S, Web, free_port, text

from completiond.client import Client
from completiond.config import Config
from completiond.http.front import (
    BODY_S,
    MAX_BODY,
    MOST_CONNECTIONS,
    NOBODY_READS,
    PATH,
    application,
)
from completiond.http.runs import MOST, Runs
from completiond.protocol import messages as m
from tests import scripted_daemon

pytestmark = pytest.mark.slow

DOCUMENT = "def area(width, height):\n    return width * height\n\n\n" + "y" * 4000
ASKED = {"model": "scripted", "prompt": "def area("}
SAID = "width, height):\n    return width * height\n"
AT_A_CURSOR = ASKED | {"prompt": "<fim_prefix>def area(<fim_suffix>\n\nx = 1\n<fim_middle>"}
HEAD = (
    f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    "Content-Type: application/json\r\n"
).encode()
LONG = ASKED | {"prompt": "y", "max_tokens": 4000, "stream": True}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    port, path = free_port(), tmp_path_factory.mktemp("web")
    path.chmod(0o700)
    (path / "config.toml").write_text(f'[http]\nkey = "{KEY}"\nport = {port}\nmax_tokens = 2000\n')
    endpoint = f"ipc://{path}/d.sock"
    script = {"document": DOCUMENT, "pass_ms": 2.0}
    where = ("--endpoint", endpoint, "--config", str(path / "config.toml"))
    with scripted_daemon.daemon(*where, script=script):
        yield Web(port, endpoint)


def stats(web: Web) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with Client(web.endpoint) as client:
            status = await client.status(timeout=PATIENCE_S)
            return status.engine | {"running": status.running}

    return asyncio.run(ask())


def idle(web: Web) -> dict[str, Any]:
    """Once nothing runs."""
    give_up = time.monotonic() + PATIENCE_S
    while (found := stats(web))["running"]:
        assert time.monotonic() < give_up, "a run goes on"
    return found


# What is answered


def test_a_ready_prompt_is_continued_and_counted(web: Web) -> None:
    reply = web.post(ASKED | {"stop": ["\n\n"], "temperature": 0.0})
    assert reply.status == 200 and reply.kind == "application/json"
    (choice,) = reply.json["choices"]
    assert choice == {"index": 0, "text": SAID[:-1], "logprobs": None, "finish_reason": "stop"}
    assert reply.json["object"] == "text_completion" and reply.json["model"] == "scripted"
    prompt, said = len("def area("), len(SAID) + 1
    usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
    assert reply.json["usage"] == usage


@pytest.mark.parametrize("more", [{}, {"stop": ["height", "x"]}, {"max_tokens": 9}], ids=str)
def test_a_stream_says_the_same_in_parts(web: Web, more: dict[str, Any]) -> None:
    whole = web.post(ASKED | more).json["choices"][0]
    stream = web.post(ASKED | more | {"stream": True})
    assert stream.kind.startswith("text/event-stream")
    events = stream.events
    assert len(events) > 3 and text(events) == whole["text"]
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * (len(events) - 1) + [whole["finish_reason"]]
    assert len({(event["id"], event["created"]) for event in events}) == 1


def test_at_a_cursor_the_answer_ends_with_what_is_begun_there(web: Web) -> None:
    whole = web.post(AT_A_CURSOR | {"stop": ["<|endoftext|>", "[PREFIX]"]})
    assert whole.json["usage"]["prompt_tokens"] == len("def area(\n\nx = 1\n") + 3
    assert whole.json["choices"][0]["text"] == SAID[:-1]
    stream = web.post(AT_A_CURSOR | {"stream": True}).events
    assert text(stream) == SAID[:-1] and stream[0]["choices"][0]["text"] == "width, height):"


def test_an_answer_ends_before_its_stop_text_and_is_cut_at_its_limit(web: Web) -> None:
    stopped = web.post(ASKED | {"stop": "height"}).json["choices"][0]
    assert (stopped["text"], stopped["finish_reason"]) == ("width, ", "stop")
    short = web.post(ASKED | {"max_tokens": 5}).json["choices"][0]
    assert (short["text"], short["finish_reason"]) == ("width", "length")
    capped = web.post(LONG | {"stream": False, "max_tokens": 3999}).json
    assert capped["usage"]["completion_tokens"] == 2000


def test_the_next_key_computes_what_is_new_only(web: Web) -> None:
    prompt = "z" * 900 + "y"
    web.post(ASKED | {"prompt": prompt, "max_tokens": 1})
    before = idle(web)["prefilled"]
    web.post(ASKED | {"prompt": prompt + "y", "max_tokens": 1})
    assert idle(web)["prefilled"] - before == 1


# What ends a run


@pytest.mark.parametrize("stream", [True, False])
def test_a_connection_that_closes_ends_its_run(web: Web, stream: bool) -> None:
    before = idle(web)
    with web.begin(LONG | {"stream": stream, "max_tokens": 2000}) as link:
        while not stats(web)["running"]:
            pass
        if stream:
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
    after = idle(web)
    assert after["cancelled"] == before["cancelled"] + 1
    assert after["generated"] - before["generated"] < 1500


def test_one_more_than_may_run_is_told_to_wait_and_an_editor_is_answered_beside_them(
    web: Web,
) -> None:
    links = [web.begin(LONG) for _ in range(MOST)]
    try:
        for link in links:
            assert link.recv(12) == b"HTTP/1.1 200"
        refused = web.post(ASKED)
        assert (refused.status, refused.error["code"]) == (429, "overloaded")
        answer = asyncio.run(from_an_editor(web))
        assert answer.candidates[0].text.startswith("width, height")
    finally:
        for link in links:
            link.close()
    idle(web)
    assert web.post(ASKED | {"max_tokens": 1}).status == 200


async def from_an_editor(web: Web) -> m.Completion:
    async with Client(web.endpoint) as client:
        asked = m.Complete(client.next_id(), "a.py", 1, "def area(", "", trigger="invoked")
        return await client.complete(asked, timeout=PATIENCE_S)


def test_a_daemon_that_is_stopped_ends_what_it_has_begun(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    port, endpoint = free_port(), f"ipc://{tmp_path}/d.sock"
    script = {"answers": ["a" * 200], "pass_ms": 5.0}
    where = ("--endpoint", endpoint, "--insecure-loopback", "--http", str(port))
    with scripted_daemon.daemon(*where, script=script) as process, ThreadPoolExecutor(1) as pool:
        web = Web(port, endpoint)
        # Without http.key nobody needs one.
        asked = {"prompt": "x", "max_tokens": 200}
        coming = pool.submit(web.post, asked, {"Authorization": ""})
        while not stats(web)["running"]:
            pass
        process.terminate()
        assert coming.result(PATIENCE_S).json["choices"][0]["text"] == "a" * 200
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_answers_no_more_keeps_nobody_beyond_the_time(
    tmp_path: Path, stream: bool
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "config.toml").write_text("[completion]\nmax_ms = 1000\n")
    port, endpoint = free_port(), f"ipc://{tmp_path}/d.sock"
    where = ("--endpoint", endpoint, "--insecure-loopback", "--http", str(port))
    script = {"answers": ["a" * 2000], "pass_ms": 20.0}
    config = ("--config", str(tmp_path / "config.toml"))
    with scripted_daemon.daemon(*where, *config, script=script) as process:
        web = Web(port, endpoint)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (engine,) = map(int, children)
        os.kill(engine, signal.SIGSTOP)
        try:
            began = time.monotonic()
            reply = web.post({"prompt": "x", "max_tokens": 200, "stream": stream})
            took = time.monotonic() - began
        finally:
            os.kill(engine, signal.SIGCONT)
        found = reply.events[-1] if stream else reply.json
        assert found["choices"][0]["finish_reason"] == "length"
        assert 1.0 < took < 3.0
        idle(web)
        assert web.post({"prompt": "x", "max_tokens": 3}).json["choices"][0]["text"] == "aaa"


def test_half_a_body_does_not_delay_the_daemons_end(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    port, endpoint = free_port(), f"ipc://{tmp_path}/d.sock"
    where = ("--endpoint", endpoint, "--insecure-loopback", "--http", str(port))
    with scripted_daemon.daemon(*where) as process:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as link:
            link.sendall(HEAD + b'Content-Length: 99\r\nExpect: 100-continue\r\n\r\n{"prompt"')
            assert link.recv(20).startswith(b"HTTP/1.1 100"), "it does not wait for the body"
            since = time.monotonic()
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
            assert time.monotonic() - since < BODY_S / 2
            assert link.recv(100).endswith(b"\r\n"), "nothing comes but the end"


# Who may ask


@pytest.mark.parametrize("given", ["", "Bearer", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", KEY])
def test_without_the_key_nothing_is_answered(web: Web, given: str) -> None:
    reply = web.post(ASKED, {"Authorization": given})
    assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    "forged",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
    ids=str,
)
def test_a_page_of_the_internet_is_refused_even_with_the_key(
    web: Web, forged: dict[str, str]
) -> None:
    reply = web.post(ASKED, forged)
    assert (reply.status, reply.error["code"]) == (403, "forbidden")


def test_a_form_and_a_question_before_it_are_refused(web: Web) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert web.post(ASKED, {"Content-Type": kind}).status == 415
    asks = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert web.send("OPTIONS", "/v1/completions", b"", asks).status == 405


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/completions", 405), ("POST", "/", 404), ("POST", "/v1/chat/completions", 404)],
)
def test_there_is_nothing_else(web: Web, method: str, path: str, status: int) -> None:
    reply = web.send(method, path, b"{}", None)
    assert reply.status == status and "/v1/completions" in reply.error["message"]


# What cannot be answered


@pytest.mark.parametrize(
    "body",
    [b"{", b"", b"[]", b"\xff\xfe", b"[" * 50_000, {"prompt": 1}, ASKED | {"max_tokens": "many"}],
    ids=["half", "empty", "list", "no text", "deep", "number", "text for a number"],
)
def test_what_is_malformed_gets_one_sentence_and_the_next_request_its_answer(
    web: Web, body: Any
) -> None:
    reply = web.post(body)
    assert reply.status == 400 and reply.error["type"] == "invalid_request_error"
    assert reply.error["message"].endswith(".") and "\n" not in reply.error["message"]
    assert web.post(ASKED | {"max_tokens": 1}).status == 200


@pytest.mark.parametrize(
    "body",
    [
        rb'{"prompt": "def area(", "stop": "\ud800", "max_tokens": 1}',
        rb'{"prompt": "<fim_prefix>a\ud800 = <fim_suffix>\ud800\n<fim_middle>", "max_tokens": 1}',
    ],
    ids=["in a stop text", "at a cursor"],
)
def test_half_a_character_is_answered_and_leaves_no_run_behind(web: Web, body: bytes) -> None:
    assert web.post(body).status == 200
    idle(web)


def test_who_hangs_up_within_a_body_is_no_failure() -> None:
    async def ask() -> int:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": PATH, "headers": headers}
        runs = Runs(Config(), cast(Any, None), Counter())
        app = application(runs, "", crowded=lambda: False)
        await app(scope | {"query_string": b""}, receive, send)
        status: int = sent[0]["status"]
        return status

    assert asyncio.run(ask()) == NOBODY_READS


def test_a_prompt_that_does_not_fit_or_is_for_another_model_is_refused(web: Web) -> None:
    long = web.post(ASKED | {"prompt": "z" * 5000})
    assert long.status == 400 and "4096" in long.error["message"]
    other = web.post(ASKED | {"model": "gpt-5"})
    assert (other.status, other.error["code"]) == (404, "unknown_model")
    form = web.post(ASKED | {"prompt": "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"})
    assert form.status == 400 and "prompt format" in form.error["message"]


def test_a_huge_body_is_refused_before_it_is_all_there(web: Web) -> None:
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", web.port), PATIENCE_S) as link:
        link.sendall(head.encode() + piece * (MAX_BODY // 0x10000 + 1))
        assert link.recv(12) == b"HTTP/1.1 413"


def test_what_is_no_http_is_told_so_as_json(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port), PATIENCE_S) as link:
        link.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        got = HTTPResponse(link)
        got.begin()
        assert (got.status, got.getheader("content-type")) == (400, "application/json")
        assert json.loads(got.read())["error"]["type"] == "invalid_request_error"


def test_more_connections_than_are_answered_are_told_so_as_json(web: Web) -> None:
    address = ("127.0.0.1", web.port)
    links = [socket.create_connection(address, PATIENCE_S) for _ in range(MOST_CONNECTIONS)]
    try:
        for link in links[-1:]:  # once it is answered, all before it are taken
            link.sendall(HEAD + b"Content-Length: 2\r\n\r\n{}")
            assert link.recv(12) == b"HTTP/1.1 400"
        refused = web.post(ASKED)
        assert (refused.status, refused.error["type"]) == (503, "server_error")
    finally:
        for link in links:
            link.close()
    while web.post(ASKED | {"max_tokens": 1}).status == 503:
        pass


def test_a_plain_status_counts_what_was_asked(web: Web) -> None:
    before = stats(web)["daemon http requests"]
    web.post(ASKED | {"max_tokens": 1})
    command = (sys.executable, "-m", "completiond", "status", "--endpoint", web.endpoint)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert re.search(rf"web server +{before + 1} so far\n", ran.stdout)


def test_a_port_without_a_key_or_a_port_in_use_is_one_sentence(web: Web, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    script = ("--scripted", json.dumps({"answers": ["x"]}), "--endpoint", f"ipc://{tmp_path}/d")
    serve = (sys.executable, "-m", "completiond", "serve", *script)
    for more, sentence in (((), "http.key"), (("--insecure-loopback",), "cannot be used")):
        command = (*serve, "--http", str(web.port), *more)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert ran.returncode == 1 and sentence in ran.stderr and "Traceback" not in ran.stderr
