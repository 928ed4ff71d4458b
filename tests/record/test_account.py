"""Laws of the report: its figures are those of the rows, advice has numbers, its page is whole."""

import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows_made import DAEMON, NOW_MS, full

from completiond.measure.report_page import overview, report
from completiond.record import figures, queries
from completiond.record.account import DAY_MS, Account, account
from completiond.record.advice import advice
from completiond.record.metrics import BOUNDS_S, WEEK_MS, numbers
from completiond.record.rows import Filter, Rate, Served, Spread
from completiond.record.store import Full, Store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def db(tmp_path: Path) -> Any:
    """Three hundred keys of today and as many of ten days ago."""
    store = Store(tmp_path / "record-1.db", DAEMON)
    made: dict[int, Full] = {}
    for n in range(1, 301):
        outcome = ("accepted", "rejected", "typed", "shown", "superseded")[n % 5]
        now = {"outcome": outcome, "taken": 20 if outcome == "accepted" else None}
        made[n] = full(at_ms=NOW_MS, kept_30=15 if now["taken"] else None, **now)
        made[n + 300] = full(at_ms=NOW_MS - 10 * DAY_MS, language="<b>rust</b>", model="other")
    store.write(made)
    store.close()
    with queries.reading(store.path) as found:
        yield found


def test_figures_are_those_of_its_days(db: sqlite3.Connection) -> None:
    week, month = account(db, 7, NOW_MS), account(db, 30, NOW_MS)
    assert (week.totals.keys, month.totals.keys) == (300, 600)
    assert (week.totals.accepted, week.totals.taken, week.totals.answers) == (60, 120, 300)
    assert (week.retained[0].left, week.retained[0].taken) == (900, 1200)
    assert [group.name for group in week.languages] == ["python"]
    assert {group.name for group in month.models} == {"a model", "other"}
    assert week.totals.tokens_per_pass == 3.0, "passes that only read a prompt do not count"


@pytest.mark.parametrize("path", ["", "src/a.py"], ids=["from sums", "from keys"])
def test_what_was_cut_off_by_the_clock_is_counted_by_what_was_shown(
    tmp_path: Path, path: str
) -> None:
    store = Store(tmp_path / "record-1.db", DAEMON)
    late = {"reason": "timeout", "outcome": ""}
    store.write(
        {
            1: full(**late | {"outcome": "shown"}, trigger="invoked"),
            2: full(**late, why="timeout", shown=0, candidates=0),
        }
    )
    store.close()
    with queries.reading(store.path) as found:
        counts = figures.counted(found, Filter(path=path))
    assert figures.named(counts, "reason") == {"ok": 1, "timeout": 1}
    assert figures.totals(counts).answers == 1, "those asked for by hand are counted"


def test_a_report_says_that_it_counts_what_was_asked_by_hand(db: sqlite3.Connection) -> None:
    assert dict(overview(account(db, 7, NOW_MS)))["answers shown"] == (
        "300, those asked for by hand among them"
    )


def test_the_page_is_whole_and_of_itself(db: sqlite3.Connection) -> None:
    page = report(account(db, 30, NOW_MS), "0.1")
    assert not re.search(r"https?://|<script|<link|src=", page)
    assert "<b>rust" not in page and "&lt;b&gt;rust" in page
    for words in ("left after 30 s", "tokens per pass", "By language", "Advice", "suffix"):
        assert words in page
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")


def changed(found: Account, facts: dict[str, Any] | None = None, **more: Any) -> list[str]:
    served = replace(Served(), facts=facts or {})
    return advice(replace(found, served=served, **more))


def test_advice_rests_on_numbers(db: sqlite3.Connection) -> None:
    found = account(db, 7, NOW_MS)
    quick = [Spread("daemon", 300, 50_000, 90_000, 200_000)]
    slow = [Spread("daemon", 300, 300_000, 800_000, 900_000)]
    good = [Rate("suffix", 2000, 900)]
    few = found.totals._replace(accepted=2, typed=1, partially=0)
    dull = found.totals._replace(generated=1000, wrote=1000)
    wide = found.totals._replace(generated=3000, wrote=100)
    cases: list[tuple[list[str], str]] = [
        (changed(found, stages=quick, rates=good), "Nothing to advise"),
        (changed(found, kinds={"model": 199}), "Only 199 keys"),
        (changed(found, stages=slow, rates=good), "over 800 ms: a smaller model"),
        (changed(found, stages=quick, rates=good, totals=few), "Only 1% of the answers"),
        (changed(found, stages=quick, rates=[*good, Rate("lookup", 900, 9)]), "lookup drafts 1%"),
        (changed(found, stages=quick, rates=good, totals=dull), "yields 1.00 tokens"),
        (changed(found, {"drafters": []}, stages=quick, rates=[]), "Drafts are off"),
        (
            changed(
                found, {"draft_tokens": 4}, stages=quick, rates=[Rate("a", 500, 450)], totals=wide
            ),
            "raise engine.draft_tokens",
        ),
        (
            changed(
                found,
                {"draft_tokens": 31, "policy": "fixed"},
                stages=quick,
                rates=[Rate("a", 3000, 60)],
            ),
            "lower engine.draft_tokens",
        ),
        (
            changed(found, stages=quick, rates=good, reasons={"timeout": 99}),
            "99 keys ran out of time with nothing",
        ),
        (
            changed(found, stages=[*quick, Spread("queue", 9, 1, 70_000, 1)], rates=good),
            "waits 70 ms for the engine",
        ),
    ]
    for sentences, words in cases:
        assert any(words in sentence for sentence in sentences), (words, sentences)


def test_numbers_only_grow_and_their_buckets_add_up(tmp_path: Path) -> None:
    store = Store(tmp_path / "record-1.db", DAEMON)
    before: Any = None
    for n in range(1, 30):
        store.write({n: full(total_us=n * 700)})
        with queries.reading(store.path) as found:
            now = numbers(found, NOW_MS)
        (total,) = [one for one in now.durations if one.stage == "total"]
        assert list(total.up_to) == sorted(total.up_to) and len(total.up_to) == len(BOUNDS_S)
        assert total.up_to[-1] == total.keys == now.counts["keys"] == n
        assert total.seconds == pytest.approx(sum(k * 700 for k in range(1, n + 1)) / 1e6, rel=0.05)
        if before is not None:
            assert all(now.counts[name] >= count for name, count in before.counts.items())
        before = now
    store.write({99: full(at_ms=NOW_MS - 3 * WEEK_MS)})
    with queries.reading(store.path) as found:
        assert numbers(found, NOW_MS).counts["keys"] == 29
    store.close()


def recorded(tmp_path: Path, **more: Any) -> None:
    store = Store(tmp_path / "state" / "record-1.db", DAEMON)
    store.write({1: full(request=41, at_ms=time.time_ns() // 1_000_000 - 90_000, **more)})
    store.close()


def test_why_answers_from_the_record_when_no_daemon_runs(
    apart: None, run: Run, tmp_path: Path
) -> None:
    code, _, said = run("why", "41")
    assert code == 1 and "No daemon answers" in said
    recorded(tmp_path, outcome="accepted", taken=20, kept_30=17, kind="ahead")
    code, text, _ = run("why", "41")
    assert code == 0
    for words in (
        "Request 41, automatic, 90 s ago: src/a.py (python)",
        "It took 91 ms: 18 tokens in 9 passes",
        "It had been computed before it was asked for.",
        "60.0 ms decoding the other tokens, 30.0 ms until the first token",
        "5 of 12 by suffix, 0 of 4 by lookup",
        "It was accepted: 20 characters, of which are left 17 after 30 s.",
    ):
        assert words in text, text
    code, text, _ = run("why", "last", "--json")
    assert code == 0 and '"request": 41' in text
    assert run("why", "42")[0] == 1


def test_report_on_the_terminal_and_as_a_page(apart: None, run: Run, tmp_path: Path) -> None:
    code, _, said = run("report")
    assert (code, "Nothing has been recorded yet" in said) == (1, True)
    recorded(tmp_path)
    code, text, _ = run("report", "--days", "7", "--out", "page.html")
    assert code == 0 and "python" in text and "Only 1 key waited" in text
    assert "</html>" in Path("page.html").read_text()
    code, text, _ = run("report", "--json")
    assert code == 0 and '"advice": ["Only 1 key waited' in text
    code, _, said = run("report", "--out", "none/page.html")
    assert code == 1 and "name another --out" in said
    (tmp_path / "state" / "record-1.db").write_bytes(b"rubbish" * 2000)
    for command in ("report", "why 41"):
        code, _, said = run(*command.split())
        assert code == 1 and "cannot be read" in said and "Traceback" not in said
