"""The dashboard as a process under attack: who it serves, what bounds it, how it ends."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from rows_made import DAEMON, full
from shown import client, reader, with_token

from completiond import loopback
from completiond.dashboard import server
from completiond.record import place
from completiond.record.store import Store

FD_LIMIT = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160)); "
ANOTHER_USER = 65_534


class Served:
    """A dashboard that runs, and its link."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.link = process.stdout.readline().strip()
        found = urlsplit(self.link)
        self.port, self.token = found.port, found.fragment

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        given = {"Authorization": f"Bearer {self.token}"} | headers
        request = Request(f"http://127.0.0.1:{self.port}{path}", headers=given)
        try:
            with urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except HTTPError as exc:
            with exc:
                return exc.code, exc.read()

    def connect(self, text: str = "") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        made.sendall(text.encode())
        return made


@contextmanager
def served(state: Path, before: str = "import runpy, sys; ") -> Iterator[Served]:
    code = f"{before}sys.argv = ['completiond', 'dashboard']; runpy.run_module('completiond')"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            code.replace("'completiond')", "'completiond', run_name='__main__')"),
        ],
        env=os.environ | {"COMPLETIOND_STATE": str(state)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Served(process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def fill(state: Path, keys: int = 3, **more: Any) -> None:
    store = Store(place.following(None, state), DAEMON)
    store.write({number: full(**more) for number in range(1, keys + 1)})
    store.close()


LIVE = (
    "GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{0.port}\r\nAuthorization: Bearer {0.token}\r\n\r\n"
)


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_its_first_line_is_its_link_and_a_signal_ends_it_with_0(
    tmp_path: Path, number: signal.Signals
) -> None:
    """Also while a page is open."""
    fill(tmp_path)
    with served(tmp_path) as here:
        assert here.link == f"http://127.0.0.1:{here.port}/#{here.token}" and len(here.token) > 40
        assert here.get("/")[0] == 200 and here.get("/api/keys")[0] == 200
        with here.connect(LIVE.format(here)) as page:
            assert b"200 OK" in page.recv(100)
            here.process.send_signal(number)
            assert here.process.wait(10) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_connections_that_say_nothing_keep_nobody_out(tmp_path: Path) -> None:
    """More of them than it may have files open, from somebody without the token."""
    fill(tmp_path)
    quick = FD_LIMIT + "from completiond import web_server; web_server.REQUEST_S = 1.0; "
    with ExitStack() as stack, served(tmp_path, quick) as here:
        for number in range(300):
            begun = "GET / HTTP/1.1\r\nHost: " if number % 2 else ""
            stack.enter_context(here.connect(begun))
        assert here.get("/api/keys")[0] == 200
        assert here.process.poll() is None


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_so_many_pages_may_be_open_and_one_more_when_one_is_closed(tmp_path: Path) -> None:
    fill(tmp_path)
    with served(tmp_path) as here, ExitStack() as stack:
        pages = [stack.enter_context(here.connect(LIVE.format(here))) for _ in range(server.PAGES)]
        assert all(b"200 OK" in page.recv(100) for page in pages)
        code, said = here.get("/api/live")
        assert code == 503 and "Too many pages" in json.loads(said)["error"]
        assert here.get("/api/keys")[0] == 200
        pages[0].close()
        give_up = time.monotonic() + 10
        while True:
            with here.connect(LIVE.format(here)) as page:
                if b"200 OK" in page.recv(100):
                    break
            assert time.monotonic() < give_up
            time.sleep(0.05)


def test_files_are_made_in_turns_and_not_for_everybody(tmp_path: Path) -> None:
    gate, now, most = threading.Event(), [0], [0]

    def slowly(db: object, asked: object) -> server.exports.File:
        now[0] += 1
        most[0] = max(most[0], now[0])
        gate.wait(10)
        now[0] -= 1
        return server.exports.File("a", "text/csv", "a")

    async def ask() -> list[int]:
        pages = server.Pages(tmp_path, lambda: None)  # type: ignore[arg-type,return-value]
        app = server.Starlette(
            routes=[server.Route("/", pages.export)],
            exception_handlers={server.RecordError: server._wrong},
        )
        codes: list[int] = []

        async def one() -> None:
            async def send(message: Any) -> None:
                if message["type"] == "http.response.start":
                    codes.append(message["status"])
                    if message["status"] == 503:
                        gate.set()

            scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
            scope |= {"query_string": b"form=csv", "root_path": "", "server": None}

            async def nothing_more() -> dict[str, str]:
                return {"type": "http.request"}

            await app(scope, nothing_more, send)

        await asyncio.gather(*(one() for _ in range(server.EXPORTS + 2)))
        return codes

    fill(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server.exports, "export", slowly)
        codes = asyncio.run(ask())
    assert sorted(codes) == [200] * server.EXPORTS + [503] * 2 and most[0] == 1


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "9" * 5000, "-1", "1e3", "٣", "0x1", " "]
)
def test_a_number_that_is_none_is_no_failure(tmp_path: Path, number: str) -> None:
    with reader(tmp_path, full()) as browser:
        answer = browser.get(f"/api/key/{number}")
    assert answer.status_code == 404 and "no number" in answer.json()["error"]


def test_a_question_that_takes_too_long_is_given_up_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LONGEST_S", 0.0)
    monkeypatch.setattr(server, "STEPS", 10)
    with reader(tmp_path, *(full() for _ in range(50))) as browser:
        for path in ("/api/keys", "/api/charts", "/api/about"):
            answer = browser.get(path)
            assert answer.status_code == 503 and "too long" in answer.json()["error"]


def test_a_port_that_is_taken_is_said() -> None:
    with loopback.listener(0) as on, pytest.raises(server.RequestError, match="name another"):
        loopback.listener(on.getsockname()[1])


# -- two users ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_two_dashboards_of_one_machine_know_only_their_own_token_and_record(
    tmp_path: Path,
) -> None:
    states = [tmp_path / name for name in ("ours", "theirs")]
    for state in states:
        fill(state, path=f"{state.name}.py")
    with served(states[0]) as ours, served(states[1]) as theirs:
        assert ours.token != theirs.token
        for here, other in ((ours, theirs), (theirs, ours)):
            assert here.get("/api/keys", Authorization=f"Bearer {other.token}")[0] == 401
        assert b"ours.py" in ours.get("/api/keys")[1] and b"ours" not in theirs.get("/api/keys")[1]
        for here in (ours, theirs):
            started = Path(f"/proc/{here.process.pid}/cmdline").read_bytes()
            started += Path(f"/proc/{here.process.pid}/environ").read_bytes()
            assert here.token.encode() not in started, "every user can read how it was started"
    for state in states:
        assert state.stat().st_mode & 0o777 == 0o700
        files = list(state.iterdir())
        assert files and {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_reads_neither_the_record_nor_the_page(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)  # what is tested is the state's own mode
    state = tmp_path / "ours"
    fill(state)
    with served(state) as here:
        store = state / "record-1.db"
        begged = f"/proc/{here.process.pid}"
        asks = [
            f"cat {store}",
            f"ls {state}",
            f"cat {begged}/environ",
            f"ls {begged}/fd",
            f"echo x >> {store}",
        ]
        for ask in asks:
            assert subprocess.run(["sh", "-c", ask], capture_output=True).returncode == 0, ask
            ran = subprocess.run(
                ["sh", "-c", ask],
                capture_output=True,
                user=ANOTHER_USER,
                group=ANOTHER_USER,
                extra_groups=[],
            )
            assert ran.returncode != 0 and b"denied" in ran.stderr, ask


def test_the_page_and_its_guard_are_the_same_for_a_client_that_forges_more(tmp_path: Path) -> None:
    """A request of another page that a browser sends along: simple, with cookies, from a frame."""
    with client(tmp_path) as browser:
        for more in (
            {"Origin": "http://127.0.0.1:9999"},
            {"Origin": "file://"},
            {"Host": "localhost.evil.example:80"},
            {"Host": "127.0.0.1:80:80"},
            {"Host": "[::1"},
        ):
            assert browser.get("/api/keys", headers=with_token(more)).status_code == 403, more
        answer = browser.get(
            "/api/keys", headers={"Cookie": "token=x", "Sec-Fetch-Site": "cross-site"}
        )
        assert answer.status_code == 401
