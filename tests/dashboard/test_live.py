"""What an open page hears: that the record has changed, and what the daemon says of itself."""

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path

from rows_made import DAEMON, full

from completiond.dashboard import live
from completiond.errors import NoDaemon
from completiond.protocol.messages import Status
from completiond.record import place
from completiond.record.store import Store

READY = Status(1, "ready", "a model", "cpu", 9.0, 1, 0, 0, {"pid": os.getpid()})


class Fake:
    """A daemon that is asked, and may be gone."""

    def __init__(self) -> None:
        self.asked = 0
        self.gone = False

    async def ask(self) -> Status:
        self.asked += 1
        if self.gone:
            raise NoDaemon("No daemon answers.")
        return READY


def write(store: Path, number: int = 1) -> None:
    writer = Store(store, DAEMON)
    writer.write({number: full()})
    writer.close()


def test_a_change_is_seen_once(tmp_path: Path) -> None:
    store = place.following(None, tmp_path)
    writer = Store(store, DAEMON)
    watch = live.Watch(tmp_path)
    assert watch.changed() and not watch.changed()
    writer.write({1: full()})
    assert watch.changed() and not watch.changed()
    writer.close()
    watch.close()


def test_the_first_store_is_seen_at_once_and_a_newer_one_soon(tmp_path: Path) -> None:
    watch = live.Watch(tmp_path)
    assert watch.changed() and not watch.changed()
    first = place.following(None, tmp_path)
    write(first)
    assert watch.changed() and not watch.changed()
    write(place.following(first, tmp_path))
    watch._look_at = 0.0  # as if a second had gone by
    assert watch.changed()
    watch.close()


def test_a_store_that_is_no_database_changes_nothing_for_ever(tmp_path: Path) -> None:
    (tmp_path / "record-1.db").write_bytes(b"no database" * 500)
    watch = live.Watch(tmp_path)
    watch.changed()
    assert not watch.changed()
    watch.close()


async def test_a_page_hears_of_the_record_and_the_daemon_until_it_is_over(tmp_path: Path) -> None:
    fake, over = Fake(), asyncio.Event()
    daemon = live.Daemon(fake.ask)
    heard: list[str] = []
    async with asyncio.timeout(10), aclosing(live.events(tmp_path, daemon, over)) as events:
        async for event in events:
            heard.append(event)
            if event.startswith("event: daemon"):
                over.set()
    names = [event.split("\n")[0] for event in heard]
    assert names == ["event: hello", "event: record", "event: daemon"]
    said = json.loads(heard[-1].split("data: ")[1])
    assert said["status"]["model"] == "a model" and said["status"]["memory"] > 1 << 20


async def test_nobody_asks_the_daemon_while_no_page_is_open(tmp_path: Path) -> None:
    fake = Fake()
    daemon = live.Daemon(fake.ask)
    with daemon, daemon:
        while not daemon.number:
            await asyncio.sleep(0)
    asked = fake.asked
    assert asked == 1  # two pages, one question
    for _ in range(10):
        await asyncio.sleep(0)
    assert fake.asked == asked and daemon._asker is None


async def test_a_daemon_that_is_gone_is_said_to_be() -> None:
    fake = Fake()
    fake.gone = True
    assert await live.Daemon(fake.ask).once() == {"status": None, "trouble": "No daemon answers."}


def test_the_memory_of_a_process_that_is_not_here_is_nothing() -> None:
    assert live._memory(0) == 0 and live._memory(2**30) == 0
