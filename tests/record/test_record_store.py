"""Laws of a store: what is written is read, changes replace, sums follow the rows, bounds hold."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rows_made import DAEMON, DRAFTS, NOW_MS, full, key

from completiond.errors import RecordError
from completiond.record import figures, place, queries, schema
from completiond.record.rows import NUMBERS, WORDS, Filter, Pass, Said, Spelled
from completiond.record.store import Full, Newer, Store
from completiond.record.tallies import HOUR_MS

ALL = Filter()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "record-1.db", DAEMON)
    yield made
    made.close()


def test_a_key_is_read_as_it_was_written(store: Store) -> None:
    words = (Spelled("n", "suffix", True), Spelled(" \ud800", "", True), Spelled("x", "a", False))
    strip = (Pass(3, DRAFTS), Pass(1))
    said = Said(0, "file:///a.py", 4096, "x = \ud800", "\n", ("1", "2"))
    store.write({1: Full(key(request=9, clock_us=4, free_us=7), DRAFTS, strip, said)})
    with queries.reading(store.path) as db:
        found = queries.one(db, 1)
        assert found == key(key=1, daemon=1, request=9, clock_us=4, free_us=7)
        assert queries.drafts(db, 1) == list(DRAFTS)
        assert queries.strip(db, 1) == list(strip)
        text = queries.said(db, 1)
        assert text is not None and (text.before, text.answers) == ("x = ?", ("1", "2"))
        assert [one.model for one in queries.served(db)] == ["a model"]
    store.write({2: Full(key(), passes=(Pass(2, (), words), Pass(1)))})
    with queries.reading(store.path) as db:
        (one, two) = queries.strip(db, 2)
        assert (one.committed, two.words) == (2, ())
        assert [word.text for word in one.words] == ["n", " ?", "x"] and one.words[0] == words[0]


def test_a_change_replaces_the_row_and_what_it_added(store: Store) -> None:
    store.write({1: full(request=5), 2: full(kind="typed", outcome="", answer=1)})
    store.write({1: full(request=5, outcome="accepted", taken=20, total_us=1000, kept_30=15)})
    with queries.reading(store.path) as db:
        first, second = queries.one(db, 1), queries.one(db, 2)
        assert first is not None and second is not None
        assert (first.outcome, first.kept_30, second.answer) == ("accepted", 15, 1)
        counts = figures.counted(db, ALL)
        assert figures.named(counts, "outcome") == {"accepted": 1}
        assert (counts["keys"], counts["taken characters"], counts["drafted suffix"]) == (2, 20, 24)
        (total,) = figures.by_stage(db, ALL, ["total"])
        assert total.keys == 2 and total.p50 == pytest.approx(1000, rel=0.05)


def test_the_sums_say_what_the_keys_themselves_say(store: Store) -> None:
    made = {}
    for n in range(1, 300):
        kind = ("model", "typed", "reuse", "warm", "none")[n % 5]
        made[n] = full(
            at_ms=NOW_MS - n * 60_000,
            kind=kind,
            why=("", "blank")[n % 3 == 0],
            outcome=("shown", "accepted", "")[n % 3],
            total_us=1000 + 37 * n,
            taken=(None, 12)[n % 2],
            kept_120=(None, 9)[n % 2],
            language=("python", "rust")[n % 4 == 0],
        )
    store.write(made)
    for only in ({}, {"language": "rust"}, {"editor": "none such"}):
        sums = Filter(**only)
        keys = Filter(path="src/a.py", **only)  # a buffer's keys are read one by one
        with queries.reading(store.path) as db:
            assert +figures.counted(db, sums) == +figures.counted(db, keys)
            assert figures.by_stage(db, sums) == figures.by_stage(db, keys)
            assert figures.histogram(db, sums) == figures.histogram(db, keys)


def test_a_time_is_covered_once_by_weeks_days_and_hours(store: Store) -> None:
    store.write({n: full(at_ms=NOW_MS - n * 6 * HOUR_MS) for n in range(1, 200)})
    with queries.reading(store.path) as db:
        for days in (1, 2, 3, 10, 20, 40):
            since = (NOW_MS // HOUR_MS // 24 - days) * 24 * HOUR_MS
            expected = sum(NOW_MS - n * 6 * HOUR_MS >= since for n in range(1, 200))
            assert figures.counted(db, Filter(since_ms=since))["keys"] == expected, days
            points = figures.over_time(db, Filter(since_ms=since))
            assert sum(point.keys for point in points) == expected
            assert [point.at_ms for point in points] == sorted(point.at_ms for point in points)


def test_the_oldest_go_first_and_their_sums_with_them(store: Store) -> None:
    day = 24 * HOUR_MS
    store.write({n: full(at_ms=NOW_MS - (100 - n) * day) for n in range(1, 101)})
    goal = store.doomed(before_ms=NOW_MS - 30 * day, most_bytes=1 << 30)
    while store.remove(goal, most=9):
        pass
    with queries.reading(store.path) as db:
        left = queries.latest(db, 200)
        assert len(left) == 88, "at most an eighth goes for its age at once: the clock may be wrong"
        for _ in range(30):
            store.remove(store.doomed(before_ms=NOW_MS - 30 * day, most_bytes=1 << 30))
        assert [k.at_ms for k in queries.latest(db, 200)][-1] >= NOW_MS - 30 * day
        sums = db.execute(
            "SELECT SUM(n) FROM sums JOIN words ON id = what WHERE word = 'keys' AND hours = 1"
        )
        assert sums.fetchone()[0] == len(queries.latest(db, 200)) == 31


def test_the_bound_of_bytes_holds(store: Store) -> None:
    store.write({n: full(path=f"p{n}") for n in range(1, 1501)})
    bound = 200_000
    assert store._bytes() > bound
    while store._bytes() > bound:
        store.remove(store.doomed(before_ms=0, most_bytes=bound))
        store.tidy()
    with queries.reading(store.path) as db:
        left = queries.latest(db, 1500)
        assert left and left[0].path == "p1500"


def test_a_clock_that_goes_back_loses_nothing(store: Store) -> None:
    store.write({1: full(at_ms=NOW_MS), 2: full(at_ms=1000), 3: full(at_ms=NOW_MS + 5)})
    for now_ms in (1000, NOW_MS):
        month_ms = 30 * 24 * HOUR_MS
        store.remove(store.doomed(before_ms=now_ms - month_ms, most_bytes=1 << 30))
    with queries.reading(store.path) as db:
        assert [k.key for k in queries.latest(db)] == [3, 2, 1]
        assert figures.counted(db, ALL)["keys"] == 3
    store.write({4: full(at_ms=NOW_MS - HOUR_MS)})
    with queries.reading(store.path) as db:
        for only in (ALL, Filter(since_ms=NOW_MS - 2 * HOUR_MS)):
            assert queries.latest(db, 1, only)[0].key == 4, "the newest is the one written last"


def test_a_failed_write_leaves_nothing_and_is_repeated(store: Store) -> None:
    store.write({1: full()})
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError):
        store.write({2: full(path="new")})
    other.execute("ROLLBACK")
    other.close()
    store.write({2: full(path="new")})
    with queries.reading(store.path) as db:
        assert figures.counted(db, ALL)["keys"] == len(queries.latest(db)) == 2


def test_two_daemons_write_one_store(tmp_path: Path) -> None:
    path = tmp_path / "record-1.db"
    one, two = Store(path, DAEMON), Store(path, DAEMON)
    for n in range(1, 8):
        one.write({n: full(path=f"one{n}")})
        two.write({n: full(path=f"two{n}", language=f"l{n}")})
    one.write({1: full(path="one1", outcome="accepted")})
    with queries.reading(path) as db:
        keys = queries.latest(db)
        assert len(keys) == 14 and {k.daemon for k in keys} == {1, 2}
        assert {k.path for k in keys if k.daemon == 2} == {f"two{n}" for n in range(1, 8)}
        assert figures.named(figures.counted(db, ALL), "outcome") == {"shown": 13, "accepted": 1}
    one.close()
    two.close()


def test_words_that_nothing_names_are_removed_and_found_again(store: Store, monkeypatch) -> None:
    monkeypatch.setattr("completiond.record.store.MANY_WORDS", 10)
    store.write({n: full(path=f"p{n}") for n in range(1, 101)})
    for _ in range(20):
        store.remove(store.doomed(before_ms=NOW_MS + 1, most_bytes=1 << 30))
    store.tidy()
    store.write({200: full(path="p1")})
    with queries.reading(store.path) as db:
        assert "p1" in queries.names(db)["path"]
        assert db.execute("SELECT count(*) FROM words").fetchone()[0] < 60


def test_an_empty_store_is_brought_to_todays_version_and_a_later_one_is_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "record-1.db"
    sqlite3.connect(path).close()
    Store(path, DAEMON).close()
    db = sqlite3.connect(path)
    assert schema.version(db) == schema.VERSION == len(schema.MIGRATIONS)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()
    with pytest.raises(Newer):
        Store(path, DAEMON)


FIRST = """
INSERT INTO words VALUES (1, ''), (2, 'model'), (3, 'warm');
INSERT INTO groups VALUES (1, 1, 1, 1);
INSERT INTO strips VALUES (1, '[[3, []], [1, []]]');
"""
"""What version 1 had beside its keys."""


def test_a_store_of_the_first_version_is_migrated_with_its_keys_and_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "BUSY_S", 0.01)
    path = tmp_path / "record-1.db"
    db = sqlite3.connect(path)
    db.executescript(schema.MIGRATIONS[0] + FIRST + "PRAGMA user_version = 1;")
    same = dict.fromkeys((*WORDS, "grp", *NUMBERS), 1) | {"details": None}
    same.pop("wrote")
    for number, (kind, passes) in enumerate([(2, 9), (2, 9), (3, 9), (2, 0)], 1):
        row = same | {"key": number, "kind": kind, "passes": passes, "generated": 4}
        row["at_ms"] = NOW_MS
        db.execute(
            f"INSERT INTO keys ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )
    db.commit()
    db.close()
    with pytest.raises(RecordError, match="An older version"), queries.reading(path):
        pass
    Store(path, DAEMON).close()
    with queries.reading(path) as db:
        assert schema.version(db) == schema.VERSION
        assert [one.wrote for one in queries.latest(db)] == [0, 4, 4, 2]
        for only in (ALL, Filter(since_ms=NOW_MS - 1000)):  # by the sums, and by the keys
            assert figures.counted(db, only)["wrote"] == 2 + 4
        assert [one.committed for one in queries.strip(db, 1)] == [3, 1]


def test_a_migration_is_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "record-1.db"
    Store(path, DAEMON).close()
    broken = (*schema.MIGRATIONS, "CREATE TABLE more (x); CREATE TABLE more (x);")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        Store(path, DAEMON)
    with queries.reading(path) as db:
        assert schema.version(db) == len(broken) - 1
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'more'").fetchall()
    monkeypatch.setattr(schema, "MIGRATIONS", (*broken[:-1], "CREATE TABLE more (x);"))
    monkeypatch.setattr(schema, "VERSION", len(broken))
    Store(path, DAEMON).close()
    with queries.reading(path) as db:
        assert schema.version(db) == len(broken)


def test_only_the_user_can_read_it(store: Store) -> None:
    store.write({1: full()})
    files = list(store.path.parent.glob("record-1.db*"))
    assert len(files) == 3
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    store.path.chmod(0o644)
    place.create(store.path)
    assert store.path.stat().st_mode & 0o777 == 0o600


def test_a_store_that_is_just_being_begun_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "record-1.db"
    path.touch(mode=0o600)
    begun = threading.Timer(0.1, lambda: Store(path, DAEMON).close())
    begun.start()
    with queries.reading(path) as db:
        assert schema.version(db) == schema.VERSION and queries.latest(db) == []
    begun.join()
