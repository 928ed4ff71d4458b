"""Laws of the thread that writes: nothing that happens to a store stops it, all is said once."""

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rows_made import DAEMON, full

from completiond.config import Record
from completiond.errors import RecordError
from completiond.record import place, queries, writer
from completiond.record.writer import Writer


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[], Writer]]:
    """Writers whose ticks the test makes."""
    every: list[Writer] = []

    def make() -> Writer:
        every.append(Writer(DAEMON, Record(), tmp_path))
        return every[-1]

    yield make
    for one in every:
        one._close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the monotonic clock, as the test says."""
    now = [1000.0]
    monkeypatch.setattr("completiond.record.store.BUSY_S", 0.01)
    monkeypatch.setattr(writer.time, "monotonic", lambda: now[0])
    return now


def kept(tmp_path: Path) -> list[int]:
    """Requests in the store that is in use, the oldest first."""
    store = place.newest(tmp_path)
    assert store is not None
    with queries.reading(store) as db:
        return [key.request for key in queries.latest(db, 1000)][::-1]


def test_nobody_asks_no_file(tmp_path: Path, made: Callable[[], Writer]) -> None:
    made().tick()
    assert place.stores(tmp_path) == []


def test_what_is_put_is_in_the_store_within_a_second(tmp_path: Path) -> None:
    one = Writer(DAEMON, Record(), tmp_path)
    one.start()
    assert writer.TICK_S <= 0.5
    one.put(1, full(request=1))
    one.put(1, full(request=1, outcome="accepted"))
    one.put(2, full(request=2))
    one.stop()
    assert kept(tmp_path) == [1, 2]


def test_a_corrupt_store_is_left_and_said_once(
    tmp_path: Path, made: Callable[[], Writer], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "record-1.db").write_bytes(b"not a database at all" * 500)
    one = made()
    one.put(1, full(request=1))
    for _ in range(4):
        one.tick()
    assert kept(tmp_path) == [1] and one._store is not None
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "record-2.db is begun" in caplog.text
    assert (tmp_path / "record-1.db").read_bytes().startswith(b"not a database")


@pytest.mark.parametrize("what", ["directory", "pipe", "link", "dangling link"])
def test_what_is_no_file_is_passed_over_and_said_once(
    what: str, tmp_path: Path, made: Callable[[], Writer], caplog: pytest.LogCaptureFixture
) -> None:
    odd = tmp_path / "record-1.db"
    (tmp_path / "another.db").touch()
    {
        "directory": odd.mkdir,
        "pipe": lambda: os.mkfifo(odd),
        "link": lambda: odd.symlink_to(tmp_path / "another.db"),
        "dangling link": lambda: odd.symlink_to(tmp_path / "nowhere"),
    }[what]()
    with pytest.raises(RecordError, match="no regular file"), queries.reading(odd):
        pass
    assert place.newest(tmp_path) is None
    one = made()
    for n in (1, 2):
        one.put(n, full(request=n))
        one.tick()
    assert kept(tmp_path) == [1, 2] and place.newest(tmp_path) == tmp_path / "record-2.db"
    assert len(caplog.records) == 1 and "record-2.db is begun" in caplog.text


def test_one_that_becomes_corrupt_is_left_too(
    tmp_path: Path, made: Callable[[], Writer], caplog: pytest.LogCaptureFixture
) -> None:
    one = made()
    one.put(1, full(request=1))
    one.tick()
    one._close()
    store = tmp_path / "record-1.db"
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    one.put(2, full(request=2))
    for _ in range(3):
        one.tick()
    assert kept(tmp_path) == [2] and "record-2.db is begun" in caplog.text


def test_a_locked_store_is_waited_for_then_left(
    tmp_path: Path, made: Callable[[], Writer], clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = made()
    one.put(1, full(request=1))
    one.tick()
    holder = sqlite3.connect(tmp_path / "record-1.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    one.put(2, full(request=2))
    one.tick()
    clock[0] += 1
    holder.execute("ROLLBACK")
    one.tick()
    assert kept(tmp_path) == [1, 2] and not caplog.records, "a moment's lock costs nothing"
    holder.execute("BEGIN IMMEDIATE")
    one.put(3, full(request=3))
    one.tick()
    clock[0] += writer.LOCKED_S + 1
    one.tick()
    one.tick()
    holder.close()
    assert kept(tmp_path) == [3] and "has been locked" in caplog.text
    assert len(caplog.records) == 1


def test_a_full_disk_loses_rows_says_so_once_and_goes_on(
    tmp_path: Path, made: Callable[[], Writer], clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = made()
    one.put(1, full(request=1))
    one.tick()
    assert one._store is not None
    db = one._store._db
    pages = int(db.execute("PRAGMA page_count").fetchone()[0])
    db.execute(f"PRAGMA max_page_count = {pages + 4}")
    for n in range(2, 500):
        one.put(n, full(request=n, path=f"path {n}"))
    for _ in range(5):
        one.tick()
        clock[0] += writer.AGAIN_S + 1
    assert caplog.text.count("is full") == 1 == len(caplog.records)
    db.execute("PRAGMA max_page_count = 1000000")
    one.put(500, full(request=500))
    one.tick()
    assert kept(tmp_path)[-1] == 500 and place.stores(tmp_path) == [tmp_path / "record-1.db"]


def test_what_waits_is_bounded_and_the_newest_is_kept(
    tmp_path: Path, made: Callable[[], Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_WAITING", 10)
    one = made()
    for n in range(1, 26):
        one.put(n, full(request=n))
    assert (len(one._waiting), one.lost) == (10, 15)
    one.put(3, full(request=3, outcome="accepted"))
    assert (len(one._waiting), one.lost) == (10, 15), "a change of what waits takes no room"


def test_a_directory_that_cannot_be_written_is_said_once_and_tried_again(
    tmp_path: Path, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "state"
    blocked.write_text("a file")
    one = Writer(DAEMON, Record(), blocked)
    one.put(1, full(request=1))
    for _ in range(3):
        one.tick()
        clock[0] += writer.AGAIN_S + 1
    assert len(caplog.records) == 1 and "cannot be written" in caplog.text
    blocked.unlink()
    one.tick()
    assert kept(blocked) == [1]
    one._close()


def test_stores_that_never_work_end_it(
    tmp_path: Path, made: Callable[[], Writer], monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    def broken(*_: object) -> None:
        raise sqlite3.DatabaseError("file is not a database")

    monkeypatch.setattr(writer, "Store", broken)
    one = made()
    for n in range(1, 12):
        one.put(n, full(request=n))
        one.tick()
    assert one._off and len(caplog.records) == 2
    assert len(place.stores(tmp_path)) <= place.KEPT


def test_two_daemons_go_on_with_the_store_that_either_begins(
    tmp_path: Path, made: Callable[[], Writer], clock: list[float]
) -> None:
    one, two = made(), made()
    for n, each in enumerate((one, two), 1):
        each.put(n, full(request=n))
        each.tick()
    one._leave("of a test")
    one.put(3, full(request=3))
    one.tick()
    clock[0] += writer.LOOK_S + 1
    two.put(4, full(request=4))  # where it is, then it looks
    two.tick()
    two.put(5, full(request=5))
    two.tick()
    assert kept(tmp_path) == [3, 5]


def test_a_key_that_no_store_can_hold_does_not_end_it(
    tmp_path: Path, made: Callable[[], Writer], caplog: pytest.LogCaptureFixture
) -> None:
    one = made()
    for odd in ({"position": 1 << 70}, {"path": "\ud800"}):
        one.put(1, full(request=1, **odd))
        one.tick()
    one.put(2, full(request=2))
    one.tick()
    assert kept(tmp_path) == [2] and (one.lost, len(caplog.records)) == (2, 1)


FULL_DISK = """
import logging, resource, signal, sys, time
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from rows_made import DAEMON, full
from completiond.config import Record
from completiond.record import writer

logging.basicConfig(format="%(message)s", stream=sys.stdout)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
now = [1000.0]
writer.time.monotonic = lambda: now[0]
one = writer.Writer(DAEMON, Record(), Path(sys.argv[1]))
one.put(1, full(request=1))
one.tick()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, hard))
for n in range(2, 2000):
    one.put(n, full(request=n, path=f"a rather long path of a file, number {n}"))
    if n % 100 == 0:
        one.tick()
        now[0] += writer.AGAIN_S + 1
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
now[0] += writer.AGAIN_S + 1
one.put(2000, full(request=2000))
one.tick()
one._close()
"""


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_said_once_and_written_again_when_it_may(
    tmp_path: Path,
) -> None:
    """The system's own refusal, in a process of its own: its files have a limit."""
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), *sys.path], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.splitlines()) == 1 and "cannot be written" in ran.stdout, ran.stdout
    assert kept(tmp_path)[-1] == 2000 and place.newest(tmp_path) == tmp_path / "record-1.db"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_is_really_full_loses_keys_and_no_store(
    tmp_path: Path, clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a disk cannot be mounted here")
    try:
        one = Writer(DAEMON, Record(), disk)
        for n in range(1, 3000):
            one.put(n, full(request=n, path=f"a rather long path of a file, number {n}"))
            if n % 100 == 0:
                one.tick()
                clock[0] += writer.AGAIN_S + 1
        assert [record.message for record in caplog.records] == [
            f"The disk of {disk} is full: keys of the record are lost."
        ]
        found = kept(disk)
        assert found and found == sorted(found) and place.stores(disk) == [disk / "record-1.db"]
        one._close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)
