"""bench.py record: a store of a million made-up keys, how long questions to it take, and what it
costs a request to be recorded.

The keys are made as a person's day would: mostly typed through, in bursts, over `--days`.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench_page import page
from bench_recording import recording

from completiond.record import figures, place, queries
from completiond.record.rows import Drafted, Filter, Key, Pass, Served
from completiond.record.store import Full, Store

DAY_MS = 86_400_000
LANGUAGES = ("python", "typescript", "rust", "go", "markdown")
EDITORS = ("Neovim 0.12", "Visual Studio Code")
MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
SOURCES = ("suffix", "lookup", "recycled")
PATHS = [f"src/package{n % 23}/module{n}.py" for n in range(400)]
BATCH = 5_000


def add_record(commands: Any) -> None:
    parser = commands.add_parser("record", help="the record at a million keys")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=20, help="times that each question is asked")
    parser.add_argument("--recorded", type=int, default=5_000, help="replies that are timed")
    parser.set_defaults(run=run, name="record")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = place.following(None, Path(folder))
        began = time.monotonic()
        fill(store, arguments.keys, arguments.days)
        filled_s, mb = time.monotonic() - began, place.bytes_of(store) / 1e6
        print(f"{arguments.keys:,} keys in {filled_s:.0f} s, {mb:.0f} MB")
        asked = questions(store, arguments.repeat)
        for name, times in asked.items():
            print(f"  {name:28} p50 {_at(times, 0.5):6.1f} ms  p95 {_at(times, 0.95):6.1f} ms")
        opened = page(Path(folder))
    every = [ms for times in asked.values() for ms in times]
    return {
        "keys": arguments.keys,
        "mb": round(mb, 1),
        "query_p50_ms": round(_at(every, 0.5), 2),
        "query_p95_ms": round(_at(every, 0.95), 2),
        "slowest": max(asked, key=lambda name: _at(asked[name], 0.95)),
        **opened,
    } | recording(arguments.recorded)


def _at(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


# -- a store ---------------------------------------------------------------------------------------


def fill(path: Path, keys: int, days: int) -> None:
    """Made-up keys up to now, as a daemon would write them."""
    store = Store(path, Served(0, 1, 1, "bench", MODELS[0]))
    made = enumerate(make(keys, days), 1)
    while batch := dict(next_of(made, BATCH)):
        store.write(batch)
    store.close()


def next_of(made: Iterator[Any], many: int) -> list[Any]:
    return [item for _, item in zip(range(many), made, strict=False)]


def make(keys: int, days: int) -> Iterator[Full]:
    draw = random.Random(7)
    at = time.time_ns() / 1e6 - days * DAY_MS
    step = days * DAY_MS / keys
    path, language = PATHS[0], LANGUAGES[0]
    for number in range(keys):
        at += draw.expovariate(1 / step)
        if draw.random() < 0.004:
            path = draw.choice(PATHS)
            language = draw.choice(LANGUAGES)
        yield _one(draw, number, int(at), path, language)


def _one(draw: random.Random, number: int, at_ms: int, path: str, language: str) -> Full:
    same: dict[str, Any] = {
        "at_ms": at_ms,
        "language": language,
        "editor": EDITORS[number % 9 == 0],
        "model": MODELS[number % 50_000 > 40_000],
        "path": path,
        "position": number % 20_000,
    }
    if draw.random() < 0.55:
        us = int(draw.lognormvariate(5, 0.4))
        typed = Key(**same, kind="typed", reason="ok", shown=30, before_us=us, total_us=us + 2)
        return Full(typed)
    return _asked(draw, number, same)


def _asked(draw: random.Random, number: int, same: dict[str, Any]) -> Full:
    asked = draw.random()
    if asked < 0.25:
        us = int(draw.lognormvariate(6, 0.4))
        reused = _stages(draw, {"lookup": us, "finish": 40})
        kind = draw.choice(("reuse", "ahead"))
        return Full(Key(**same, request=number + 1, kind=kind, reason="ok", shown=40, **reused))
    decode = int(draw.lognormvariate(11, 0.6))
    found = _stages(
        draw, {"lookup": 80, "prompt": 900, "queue": 60, "prefill": 33_000, "decode": decode}
    )
    drafts = tuple(Drafted(source, draw.randrange(60), draw.randrange(9)) for source in SOURCES)
    key = Key(
        **same,
        request=number + 1,
        kind="model",
        reason="ok",
        outcome=draw.choice(("accepted", "rejected", "shown", "superseded", "typed")),
        candidates=1,
        shown=40,
        taken=draw.choice((None, 40)),
        text_us=34_000,
        prompt=1500,
        reused=1480,
        prefilled=20,
        generated=18,
        passes=9,
        wrote=8,
        drafted=sum(draft.drafted for draft in drafts),
        held=sum(draft.held for draft in drafts),
        details={"ended": ["eos"]},
        **found,
    )
    return Full(key, drafts, (Pass(2, drafts),) * 3 if number % 40 == 0 else ())


def _stages(draw: random.Random, most: dict[str, int]) -> dict[str, Any]:
    around = {"before": 400, "there": 300, "door": 500, "finish": 120, "back": 250, "after": 90}
    found = {f"{n}_us": int(us * draw.lognormvariate(0, 0.4)) for n, us in (around | most).items()}
    return found | {"total_us": sum(found.values())}


# -- questions -------------------------------------------------------------------------------------


def questions(path: Path, repeat: int) -> dict[str, list[float]]:
    """Milliseconds of each question, each time on a connection of its own."""
    now = time.time_ns() // 1_000_000
    filters = {
        "all": Filter(),
        "a week": Filter(since_ms=now - 7 * DAY_MS),
        "an hour": Filter(since_ms=now - DAY_MS // 24),
        "a language": Filter(language="rust"),
        "an editor, a day": Filter(editor=EDITORS[0], since_ms=now - DAY_MS),
        "a buffer": Filter(path=PATHS[17]),
        "nothing": Filter(language="cobol"),
    }
    asked: dict[str, list[float]] = {}
    for name, only in filters.items():
        for what, question in _questions(only).items():
            asked[f"{what}, {name}"] = [_timed(path, question) for _ in range(repeat)]
    return asked


def _questions(only: Filter) -> dict[str, Callable[[Any], Any]]:
    return {
        "latest": lambda db: [queries.drafts(db, k.key) for k in queries.latest(db, 50, only)],
        "over time": lambda db: figures.over_time(db, only),
        "by stage": lambda db: figures.by_stage(db, only),
        "histogram": lambda db: figures.histogram(db, only),
        "counts": lambda db: figures.counted(db, only),
        "names": queries.names,
        "one": lambda db: queries.of_request(db, 777_777),
    }


def _timed(path: Path, question: Callable[[Any], Any]) -> float:
    with queries.reading(path) as db:
        began = time.perf_counter()
        question(db)
        return (time.perf_counter() - began) * 1e3
