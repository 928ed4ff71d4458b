"""From the keyboard to the store: a replay through a bridge, a daemon and a scripted engine."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from completiond import config
from completiond.record import figures, place, queries
from completiond.record.rows import Key, Served
from completiond.record.writer import Writer
from completiond_lsp.bridge import Bridge, Item
from completiond_lsp.daemon_link import DaemonLink, Target
from completiond_lsp.documents import Position
from completiond_lsp.params import Change, InlineRequest, Opened
from tests.daemon_world import World, ask, world

URI = "file:///work/space/lib/a.py"
SAYS = "total = count(items)\n    return total"
TYPED = "total = len(rows)\ntotal = count(it"
TEN_MS = 10_000
NAMES = [*("before there lookup prompt queue prefill decode door finish back after".split())]


class Typist(NamedTuple):
    """A person at a bridge. `took` has for each key the request that was made of the daemon, 0 if
    none was, and the seconds that it took by the test's clock."""

    bridge: Bridge
    world: World
    took: list[tuple[int, float]]

    async def ask(self, line: int, column: int, *, invoked: bool = False) -> list[Item]:
        before = self._request
        began = time.perf_counter()
        request = InlineRequest(URI, None, Position(line, column), invoked)
        found = await self.bridge.complete(request)
        took = time.perf_counter() - began
        self.took.append((self._request if self._request != before else 0, took))
        return found

    @property
    def _request(self) -> int:
        newest = self.bridge._buffers[URI].newest
        return newest.id if newest is not None else 0

    def put(self, line: int, column: int, text: str) -> None:
        here = Position(line, column)
        self.bridge.change(URI, None, [Change((here, here), text)])

    async def type(self, text: str) -> None:
        """Key by key, asking after each; what is answered does not matter."""
        line, column = 1, 4
        for char in text:
            self.put(line, column, char)
            line, column = (line + 1, 0) if char == "\n" else (line, column + 1)
            await self.ask(line, column)


@asynccontextmanager
async def typing(tmp_path: Path, record: config.Record) -> AsyncIterator[Typist]:
    writer = Writer(Served(started_ms=1, pid=2, version="0.1"), record, tmp_path / "state")
    writer.start()
    settings = config.Config(completion=config.Completion(gate=False), record=record)
    script = {"answers": [SAYS], "pass_ms": 2.0, "tokens_per_pass": 4}
    try:
        async with world(tmp_path, settings=settings, sink=writer, **script) as w:
            bridge = Bridge(DaemonLink(Target(w.endpoint, start=False), pytest.fail))
            bridge.folders = ["file:///work/space"]
            bridge.journal.editor = "an editor"
            bridge.open(Opened(URI, "python", 1, "def f():\n    "))
            bridge.connect()
            async with asyncio.timeout(5):
                while bridge.link.client is None:
                    await asyncio.sleep(0.002)
            try:
                yield Typist(bridge, w, [])
            finally:
                bridge.journal.flush()
                await w.client().ask(ask(900, "x"))  # what was sent before has been read by then
                bridge.link.close()
                await asyncio.sleep(0.15)
    finally:
        writer.stop()


def recorded(tmp_path: Path) -> list[Key]:
    store = place.newest(tmp_path / "state")
    assert store is not None
    with queries.reading(store) as db:
        found = queries.latest(db, 1000)[::-1]
        assert figures.counted(db)["keys"] == len(found)
    return [key for key in found if key.editor]


@pytest.mark.slow  # two clocks of real time: not beside others
async def test_stages_of_each_key_add_up_to_a_total_that_was_timed_elsewhere(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, config.Record()) as person:
        await person.type(TYPED)
    keys = recorded(tmp_path)
    assert len(keys) == len(person.took) == len(TYPED)
    asked_first = sorted(person.took, key=lambda took: not took[0])
    assert [key.request for key in keys if key.request] == [i for i, _ in asked_first if i]
    keys.sort(key=lambda key: not key.request)
    for key, (_, took) in zip(keys, asked_first, strict=True):
        total = sum(key.stages.values())
        assert total == pytest.approx(key.total_us, rel=0.02, abs=20), key
        assert total == pytest.approx(took * 1e6, rel=0.02, abs=60), key
    kinds = {key.kind for key in keys}
    assert {"typed", "model"} <= kinds
    asked = [key for key in keys if key.kind == "model" and key.editor]
    assert all(list(key.stages) == NAMES for key in asked)
    assert all(key.prefill_us >= 2000 and key.passes > 0 for key in asked if key.prefill_us)
    own = [key for key in keys if key.kind == "typed"]
    assert all(key.request == 0 and key.answer in {one.key for one in keys} for key in own)


async def test_no_text_is_stored_unless_it_is_asked_for(tmp_path: Path) -> None:
    for text in (False, True):
        folder = tmp_path / str(text)
        folder.mkdir()
        async with typing(folder, config.Record(text=text)) as person:
            await person.type("total = c")
        data = b"".join(file.read_bytes() for file in (folder / "state").iterdir())
        assert b"items" not in data and b"def f" not in data  # what is asked for is packed
        assert b"lib/a.py" in data
        store = place.newest(folder / "state")
        assert store is not None
        with queries.reading(store) as db:
            said = [
                queries.said(db, key.key)
                for key in queries.latest(db)
                if key.kind == "model" and key.editor
            ]
        assert said and all((found is not None) is text for found in said)
        if text and said[0] is not None:
            assert said[0].answers[0] in SAYS and said[0].before.startswith("def f")


async def test_what_becomes_of_an_answer_is_in_its_row(tmp_path: Path) -> None:
    async with typing(tmp_path, config.Record()) as person:
        (item,) = await person.ask(1, 4)
        person.put(1, 4, item.text)
        person.bridge.ledger.accepted(item.id, item.text)
    (key,) = recorded(tmp_path)
    assert (key.outcome, key.taken, key.shown) == ("accepted", len(item.text), len(item.text))
    assert (key.path, key.language, key.model) == ("lib/a.py", "python", "scripted")


async def test_a_run_is_told_once_whoever_got_its_answer(tmp_path: Path) -> None:
    async with typing(tmp_path, config.Record()) as person:
        first = asyncio.create_task(person.ask(1, 4))
        await asyncio.sleep(0.006)
        person.put(1, 4, "t")
        await person.ask(1, 5)
        await asyncio.wait([first])
        engine = await person.world.engine.stats()
    keys = recorded(tmp_path)
    assert sorted(key.kind for key in keys) == ["joined", "none"]
    assert sum(key.generated for key in keys) == len(SAYS) + 1 == engine["generated"]
    joined = next(key for key in keys if key.kind == "joined")
    assert sum(joined.stages.values()) == pytest.approx(joined.total_us, rel=0.02, abs=20)


@pytest.mark.slow  # real time
async def test_a_key_that_joined_a_run_and_was_superseded_waited_for_the_run(
    tmp_path: Path,
) -> None:
    async with typing(tmp_path, config.Record()) as person:
        waits = [asyncio.create_task(person.ask(1, 4))]
        for column, char in enumerate("to", 4):
            await asyncio.sleep(0.006)
            person.put(1, column, char)
            waits.append(asyncio.create_task(person.ask(1, column + 1)))
        await asyncio.wait(waits)
    keys = sorted(recorded(tmp_path), key=lambda key: key.position)
    assert [key.kind for key in keys] == ["none", "none", "joined"]
    joined = keys[1]
    assert joined.reason == "superseded" and joined.lookup_us is not None
    waited = (joined.prefill_us or 0) + (joined.decode_us or 0) + (joined.door_us or 0)
    assert joined.lookup_us < 2000 < 4000 < waited, joined
    assert sum(key.generated for key in keys) == len(SAYS) + 1
    store = place.newest(tmp_path / "state")
    assert store is not None
    with queries.reading(store) as db:
        passes = [one for key in keys for one in queries.strip(db, key.key)]
    assert sum(key.wrote for key in keys) == len(passes) >= len(SAYS) // 4


async def test_a_cancel_tells_when_the_device_was_free(tmp_path: Path) -> None:
    async with typing(tmp_path, config.Record()) as person:
        task = asyncio.create_task(person.ask(1, 4))
        await asyncio.sleep(0.008)
        person.bridge.close(URI)
        await asyncio.wait([task])
    (key,) = recorded(tmp_path)
    assert (key.reason, key.total_us) == ("abandoned", None)
    assert key.free_us is not None and key.free_us < TEN_MS * 10


async def test_a_store_that_cannot_be_used_slows_no_answer(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory")
    async with typing(tmp_path, config.Record()) as person:
        (item,) = await person.ask(1, 4)
        assert item.text == SAYS
