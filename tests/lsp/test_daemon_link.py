"""Laws of the way to the daemon: it never makes a request wait, and it comes back."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fake_daemon import HOLD, FakeDaemon

from completiond.errors import NoDaemon
from completiond.protocol import messages as m
from completiond_lsp.daemon_link import GONE, DaemonLink, Target, Way

pytestmark = pytest.mark.slow  # real processes


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("COMPLETIOND_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COMPLETIOND_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path))
    return f"ipc://{tmp_path}/d.sock"


@asynccontextmanager
async def linking(target: Target, tell: Callable[[str], None]) -> AsyncIterator[DaemonLink]:
    link = DaemonLink(target, tell)
    try:
        yield link
    finally:
        link.close()
        await asyncio.sleep(0)


async def connected(link: DaemonLink) -> None:
    """As requests do: each one waits a moment only."""
    async with asyncio.timeout(30):
        while True:
            try:
                await link.connected()
            except NoDaemon:
                continue
            return


async def test_without_a_daemon_a_request_is_told_at_once_and_the_person_nothing(
    endpoint: str,
) -> None:
    async with linking(Target(endpoint, start=False), but_gone) as link:
        async with asyncio.timeout(1):
            with pytest.raises(NoDaemon):
                await link.connected()
        with FakeDaemon(endpoint, lambda _: HOLD):
            await connected(link)


async def test_the_default_endpoint_is_the_daemons(endpoint: str, tmp_path: Path) -> None:
    async with linking(Target(start=False), but_gone) as link:
        with FakeDaemon(f"ipc://{tmp_path}/daemon.sock", lambda _: HOLD):
            await connected(link)


async def test_a_lost_daemon_is_told_once_ends_its_requests_and_the_next_is_found(
    endpoint: str,
) -> None:
    told: list[str] = []
    async with linking(Target(endpoint, start=False), told.append) as link:
        with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
            client = await link.connected()
            asked = asyncio.create_task(link.complete(client, m.Complete(1, "d", 1, "", ""), 30.0))
            async with asyncio.timeout(30):
                while not daemon.completes:
                    await asyncio.sleep(0.002)
        async with asyncio.timeout(2):
            with pytest.raises(NoDaemon):
                await asked
        assert link.client is None
        for _ in range(2):
            with pytest.raises(NoDaemon):
                await link.connected()
        assert told == [GONE]
        with FakeDaemon(endpoint, lambda _: HOLD):
            await connected(link)
            assert told == [GONE]


async def test_a_daemon_that_comes_back_is_found_though_nobody_asks(endpoint: str) -> None:
    ways: list[Way] = []
    link = DaemonLink(Target(endpoint, start=False), lambda _: None, ways.append)
    link.want()
    for _ in range(2):
        with FakeDaemon(endpoint, lambda _: HOLD):
            async with asyncio.timeout(30):
                while link.way.state != "ready":
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(30):
            while link.way.state != "unreachable":
                await asyncio.sleep(0.01)
    link.close()
    await asyncio.sleep(0)
    states = [way.state for way in ways if way.why != ""]
    assert [way.state for way in ways] == ["ready", "unreachable"] * 2 + ["starting"]
    assert len(states) == 2


async def test_a_request_waits_for_a_model_that_loads(endpoint: str) -> None:
    async with linking(Target(endpoint, start=False), but_gone) as link:
        with FakeDaemon(endpoint, lambda _: HOLD) as daemon:
            daemon.state = "loading"
            with pytest.raises(NoDaemon):
                await link.connected(patience=0.3)
            assert link.way == Way("loading", "fake")
            waiting = asyncio.create_task(link.connected())
            await asyncio.sleep(0.05)
            assert not waiting.done()
            daemon.state = "ready"
            assert await asyncio.wait_for(waiting, 5) is link.client
            link.unready()
            assert link.way.state == "loading"
            assert await link.connected() is link.client


def but_gone(sentence: str) -> None:
    """A daemon that a test ends is gone; nothing else may be told."""
    assert sentence == GONE


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ((sys.executable, "-c", "1/0"), "ZeroDivisionError: division by zero"),
        ((sys.executable, "-c", "exit(1)"), "daemon.log says why"),
        (("/no/such/program",), "No such file or directory, /no/such/program."),
    ],
)
async def test_a_failed_start_is_told_once_with_its_reason_and_not_repeated_at_once(
    endpoint: str, tmp_path: Path, command: tuple[str, ...], why: str
) -> None:
    told: list[str] = []
    async with linking(Target(endpoint, command=command), told.append) as link:
        async with asyncio.timeout(30):
            while not told:
                with pytest.raises(NoDaemon):
                    await link.connected()
        for _ in range(3):
            with pytest.raises(NoDaemon):
                await link.connected()
    assert len(told) == 1 and why in told[0]
    log = tmp_path / "state" / "daemon.log"
    assert log.read_text().count("ZeroDivisionError: ") == ("1/0" in command)


async def test_another_target_is_another_connection(endpoint: str) -> None:
    async with linking(Target(endpoint, start=False), but_gone) as link:
        with (
            FakeDaemon(endpoint, lambda _: HOLD),
            FakeDaemon(endpoint + "2", lambda _: HOLD) as two,
        ):
            first = await link.connected()
            link.aim(Target(endpoint, start=False))
            assert await link.connected() is first
            asked = asyncio.create_task(link.complete(first, m.Complete(1, "d", 1, "", ""), 30.0))
            await asyncio.sleep(0)
            link.aim(Target(endpoint + "2", start=False))
            async with asyncio.timeout(30):
                with pytest.raises(NoDaemon):
                    await asked
            first.cancel(1)
            await connected(link)
            assert two.of(m.Hello)


async def test_a_target_that_makes_no_sense_is_told_and_is_no_crash(endpoint: str) -> None:
    told: list[str] = []
    async with linking(Target("nonsense"), told.append) as link:
        with pytest.raises(NoDaemon):
            await link.connected()
        assert "nonsense" in told[0]
