"""The record of real processes: an editor's language server, a daemon that is killed, others."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lsp_editor import Editor

from completiond.endpoint import default_endpoint
from completiond.record import place, queries
from completiond.record.rows import Key
from completiond.record.writer import TICK_S
from scripted_daemon import daemon

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("apart")]
Run = Callable[..., tuple[int, str, str]]
TYPED = "total = len(rows)"


async def typing(text: str, endpoint: str = "") -> list[float]:
    """Type it in an editor that asks after each key; seconds of each by the editor's clock."""
    took = []
    async with Editor(endpoint=endpoint, name="vim") as editor:
        editor.open("def f():\n    ")
        for column, char in enumerate(text, 4):
            editor.edit(column, (1, column), (1, column), char)
            began = time.perf_counter()
            await editor.reply(editor.complete(1, column + 1))
            took.append(time.perf_counter() - began)
        await asyncio.sleep(3 * TICK_S)
    return took


def recorded() -> list[Key]:
    store = place.newest(place.directory())
    assert store is not None
    with queries.reading(store) as db:
        return queries.latest(db, 1000)[::-1]


def test_stages_add_up_across_processes_and_a_killed_daemon_loses_nothing_old(run: Run) -> None:
    with daemon() as process:
        took = asyncio.run(typing(TYPED, default_endpoint()))
        process.kill()
    keys = recorded()
    assert len(keys) == len(took) == len(TYPED)
    assert {key.kind for key in keys} >= {"typed", "model"}
    for key in keys:
        total = sum(key.stages.values())
        assert key.total_us is not None and key.clock_us is None
        assert total == pytest.approx(key.total_us, rel=0.02, abs=25), key
    assert sum(key.took_us for key in keys) < sum(took) * 1e6
    last = max(key.request for key in keys)
    with daemon():
        code, text, _ = run("why", str(last))
    assert code == 0 and f"Request {last}, automatic" in text and "a.py (python)" in text
    assert run("report")[0] == 0


def test_each_completion_by_hand_is_a_request_of_its_own(run: Run) -> None:
    Path("a.py").write_text("def f():\n    ")
    with daemon():
        replies = [json.loads(run("complete", "a.py:2:5", "--json")[1]) for _ in range(2)]
        one, two = (reply["id"] for reply in replies)
        assert one < two
        for ident in (one, two):
            code, text, _ = run("why", str(ident))
            assert code == 0 and f"Request {ident}, invoked" in text
        status = run("status")[1]
        assert "left by a newer key, 0 of them used for it" in status
    assert [key.request for key in recorded()] == [one, two]


def test_two_daemons_of_one_user_share_the_record(tmp_path: Path) -> None:
    other = f"ipc://{tmp_path}/run/other.sock"
    with daemon(), daemon("--endpoint", other):
        asyncio.run(typing("tot", default_endpoint()))
        asyncio.run(typing("tota", other))
    keys = recorded()
    assert len(keys) == 7 and len({key.daemon for key in keys}) == 2
    assert place.stores(place.directory()) == [place.directory() / "record-1.db"]


def test_over_tcp_on_one_machine_the_clock_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPLETIOND_SERVE_INSECURE_LOOPBACK", "true")
    endpoint = "tcp://127.0.0.1:45931"
    with daemon("--endpoint", endpoint):
        asyncio.run(typing("tot", endpoint))
    assert {key.clock_us for key in recorded() if key.kind == "model"} == {None}
