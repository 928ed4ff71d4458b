"""Laws of the bridge against a fake daemon: what is asked, cancelled and shown."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from fake_daemon import HOLD, Answer, FakeDaemon, completion

from completiond.errors import NoDaemon
from completiond.protocol import messages as m
from completiond_lsp.bridge import Bridge
from completiond_lsp.buffers import Item
from completiond_lsp.daemon_link import GONE, DaemonLink, Target
from completiond_lsp.documents import Position
from completiond_lsp.options import Options
from completiond_lsp.params import Change, InlineRequest, Opened

URI = "file:///work/space/a.py"


def but_gone(sentence: str) -> None:
    """A daemon that a test ends is gone; nothing else may be told."""
    assert sentence == GONE


Answering = Callable[[m.Complete], Answer]


@asynccontextmanager
async def bridging(
    path: Path, answer: Answering, text: str = "x = \ny\n"
) -> AsyncIterator[tuple[Bridge, FakeDaemon]]:
    """A bridge with one open document and its cursor's line `x = `, and its daemon."""
    endpoint = f"ipc://{path}/d.sock"
    link = DaemonLink(Target(endpoint, start=False), tell=but_gone)
    bridge = Bridge(link, folders=["file:///work/space"])
    bridge.open(Opened(URI, "python", 1, text))
    path.chmod(0o700)
    with FakeDaemon(endpoint, answer) as daemon:
        try:
            async with asyncio.timeout(30):
                while link.client is None:
                    with suppress(NoDaemon):  # which a busy machine may have for a moment
                        await link.connected()
            yield bridge, daemon
        finally:
            link.close()
            await asyncio.sleep(0)


def at(
    line: int, character: int, *, invoked: bool = False, version: int | None = None
) -> InlineRequest:
    return InlineRequest(URI, version, Position(line, character), 3 if invoked else 0)


def insert(bridge: Bridge, version: int, line: int, character: int, text: str) -> None:
    place = Position(line, character)
    bridge.change(URI, version, [Change((place, place), text)])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.002)


async def asking(
    bridge: Bridge, daemon: FakeDaemon, request: InlineRequest
) -> "asyncio.Task[list[Item]]":
    """A request that has reached the daemon."""
    before = len(daemon.completes)
    task = asyncio.create_task(bridge.complete(request))
    await until(lambda: len(daemon.completes) > before)
    return task


async def cancelled(task: "asyncio.Task[list[Item]]") -> bool:
    await asyncio.wait([task], timeout=30)
    return task.cancelled()


async def test_the_question_is_the_text_around_the_cursor(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        items = await bridge.complete(at(0, 4))
        asked = daemon.completes[0]
        assert (asked.before, asked.after, asked.version) == ("x = ", "\ny\n", 1)
        assert (asked.document, asked.path, asked.language) == (URI, "a.py", "python")
        assert (asked.trigger, asked.n) == ("automatic", 1)
        assert items == [Item("1", Position(0, 4), Position(0, 4), "x = ", asked.id, 0)]


async def test_a_person_who_asks_gets_several_different_items(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["1", "2", "1", ""]) as (bridge, daemon):
        items = await bridge.complete(at(0, 4, invoked=True))
        assert [item.text for item in items] == ["1", "2"]
        assert (daemon.completes[0].trigger, daemon.completes[0].n) == ("invoked", 3)


async def test_the_range_is_the_replaced_suffix_and_never_leaves_the_line(tmp_path: Path) -> None:
    def answer(asked: m.Complete) -> Answer:
        return completion(asked, ["b)"], replace=1 if asked.version == 1 else 99)

    async with bridging(tmp_path, answer, "f(😀)\r\ny") as (bridge, _):
        (item,) = await bridge.complete(at(0, 4))
        assert (item.start, item.end) == (Position(0, 4), Position(0, 5))
        insert(bridge, 2, 1, 0, "z")
        (item,) = await bridge.complete(at(0, 4))
        assert (item.start, item.end) == (Position(0, 4), Position(0, 5))


async def test_an_answer_has_line_feeds_only(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["a\r\nb\rc"], "x\r\ny") as (bridge, _):
        (item,) = await bridge.complete(at(0, 1))
        assert item.text == "a\nb\nc"


async def test_a_new_request_supersedes_the_one_before(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        first = await asking(bridge, daemon, at(0, 4))
        second = await asking(bridge, daemon, at(0, 4))
        assert await cancelled(first)
        daemon.release(daemon.completes[1].id, ["2"])
        assert [item.text for item in await second] == ["2"]
        assert daemon.cancels == [(daemon.completes[0].id, "superseded")]


async def test_typing_at_the_cursor_supersedes_and_another_edit_abandons(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        first = await asking(bridge, daemon, at(0, 4))
        insert(bridge, 2, 0, 4, "f")
        assert await cancelled(first)
        second = await asking(bridge, daemon, at(0, 5))
        insert(bridge, 3, 1, 0, "f")
        assert await cancelled(second)
        third = await asking(bridge, daemon, at(0, 5))
        bridge.close(URI)
        assert await cancelled(third)
        ids = [asked.id for asked in daemon.completes]
        await until(lambda: len(daemon.cancels) == 3)
        reasons = ["superseded", "abandoned", "abandoned"]
        assert daemon.cancels == list(zip(ids, reasons, strict=True))


async def test_a_contradicting_edit_abandons_what_the_editor_has_cancelled(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        task = await asking(bridge, daemon, at(0, 4))
        task.cancel()
        assert await cancelled(task)
        insert(bridge, 2, 1, 0, "f")
        insert(bridge, 3, 1, 0, "f")
        ident = daemon.completes[0].id
        await until(lambda: len(daemon.cancels) == 2)
        assert daemon.cancels == [(ident, "superseded"), (ident, "abandoned")]


async def test_typing_through_an_answer_asks_nobody(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["foo(1)"]) as (bridge, daemon):
        (first,) = await bridge.complete(at(0, 4))
        for i, letter in enumerate("foo(1"):
            insert(bridge, 2 + i, 0, 4 + i, letter)
            (item,) = await bridge.complete(at(0, 5 + i))
            assert (item.text, item.id) == ("foo(1)"[i + 1 :], first.id)
            assert item.start == item.end == Position(0, 5 + i)
        assert len(daemon.completes) == 1
        insert(bridge, 9, 0, 9, ")")
        await bridge.complete(at(0, 10))
        assert len(daemon.completes) == 2


async def test_another_letter_another_place_or_a_person_asks_again(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["foo"]) as (bridge, daemon):
        await bridge.complete(at(0, 4))
        await bridge.complete(at(1, 0))
        await bridge.complete(at(1, 0, invoked=True))
        insert(bridge, 2, 1, 0, "g")
        await bridge.complete(at(1, 1))
        assert len(daemon.completes) == 4


async def test_an_answer_for_another_version_or_place_is_dropped(tmp_path: Path) -> None:
    def answer(asked: m.Complete) -> Answer:
        wrong = m.Candidate("wrong", "stop")
        if asked.trigger == "invoked":
            return m.Completion(asked.id, asked.version + 1, len(asked.before), [wrong], "ok")
        return m.Completion(asked.id, asked.version, 0, [wrong], "ok")

    async with bridging(tmp_path, answer) as (bridge, _):
        assert await bridge.complete(at(0, 4)) == []
        assert await bridge.complete(at(0, 4, invoked=True)) == []


async def test_a_request_that_names_another_version_gets_nothing(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        assert await bridge.complete(at(0, 4, version=7)) == []
        assert await bridge.complete(at(0, 4, version=1)) != []
        assert len(daemon.completes) == 1


@pytest.mark.parametrize("code", ["loading", "overloaded", "engine_died", "internal", "unheard"])
async def test_a_failure_shows_nothing(tmp_path: Path, code: str) -> None:
    async with bridging(tmp_path, lambda c: m.Failure(c.id, code, "no")) as (bridge, _):
        assert await bridge.complete(at(0, 4)) == []


async def test_a_daemon_that_is_too_slow_shows_nothing(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        bridge.options = Options(max_ms=10)
        assert await bridge.complete(at(0, 4)) == []
        await until(lambda: daemon.cancels == [(daemon.completes[0].id, "abandoned")])


async def test_a_language_that_is_not_wanted_or_a_file_that_is_not_open_asks_nobody(
    tmp_path: Path,
) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.options = Options(disabled_languages=("python",))
        assert await bridge.complete(at(0, 4)) == []
        unopened = Path(__file__).as_uri()
        bridge.options = Options()
        assert await bridge.complete(at(0, 4)._replace(uri=unopened)) == []
        assert daemon.completes == []


async def test_the_settings_travel(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.options = Options(max_tokens=5, max_ms=2_000, model="m", tab_size=2)
        await bridge.complete(at(0, 4))
        asked = daemon.completes[0]
        assert asked.indent == "  "
        bridge.options = Options(tab_size=8, insert_spaces=False)
        await bridge.complete(at(1, 0))
        assert daemon.completes[1].indent == "\t"
        assert (asked.max_tokens, asked.max_ms, asked.model) == (5, 2_000, "m")


HELPER = "def helper(value):\n    return value + 1\n"


async def test_context_comes_in_a_pause_is_computed_then_and_travels_once(tmp_path: Path) -> None:
    def answer(asked: m.Complete) -> Answer:
        unknown = asked.context if asked.version == 2 else []
        return m.Completion(asked.id, asked.version, len(asked.before), [], "empty", unknown)

    async with bridging(tmp_path, answer, "x = helper(1)\n") as (bridge, daemon):
        bridge.options = Options(context=True)
        bridge.context.settled_s = 0.02
        bridge.open(Opened("file:///work/space/c.md", "markdown", 1, "# helper\n"))
        await bridge.complete(at(0, 4))
        bridge.open(Opened("file:///work/space/lib/b.py", "python", 1, HELPER))
        bridge.focused(URI)
        await bridge.complete(at(0, 4))
        await until(lambda: bool(daemon.completes[-1].chunks))
        warm = daemon.completes[-1]
        assert [(c.path, c.text) for c in warm.chunks] == [("lib/b.py", HELPER.strip())]
        assert (warm.before, warm.trigger) == ("x = ", "automatic")
        insert(bridge, 2, 0, 4, "1")
        await bridge.complete(at(0, 5))
        insert(bridge, 3, 0, 5, "2")
        await bridge.complete(at(0, 6))
        insert(bridge, 4, 0, 6, "3")
        await bridge.complete(at(0, 7))
        second, again, last = daemon.completes[-3:]
        assert second.chunks == [] and again.chunks == warm.chunks and last.chunks == []
        assert second.context == again.context == last.context == [warm.chunks[0].hash]


async def test_no_context_where_it_is_switched_off(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["1"], "x = helper(1)\n") as (bridge, daemon):
        bridge.options = Options(context=False)
        bridge.close(URI)
        bridge.open(Opened(URI, "python", 1, "x = helper(1)\n"))
        bridge.open(Opened("file:///work/space/lib/b.py", "python", 1, HELPER))
        await bridge.complete(at(0, 4))
        assert not any(held.busy or held.timer for held in bridge.context._held.values())
        assert daemon.completes[0].context == []


async def test_keys_never_change_the_context_and_a_jump_only_does_in_a_pause(
    tmp_path: Path,
) -> None:
    text = "x = helper(1)\n" + "\n" * 90 + "y = other(2)\n"
    async with bridging(tmp_path, lambda _: ["1"], text) as (bridge, daemon):
        bridge.context.settled_s = bridge.context.idle_s = 30.0
        bridge.open(Opened("file:///work/space/lib/b.py", "python", 1, HELPER))
        await bridge.complete(at(0, 4))
        for key in range(20):
            bridge.open(Opened(f"file:///work/space/lib/{key}.py", "python", 1, HELPER))
            insert(bridge, 2 + key, 91, 4 + key, "z")
            await bridge.complete(at(91, 5 + key))
        assert {tuple(asked.context) for asked in daemon.completes} == {()}
        assert all(held.timer for held in bridge.context._held.values() if held.asked)


async def test_a_file_of_secrets_is_not_asked_about_and_a_secret_is_masked(tmp_path: Path) -> None:
    key = "ghp_" + "a1B2c3D4e5" * 4
    async with bridging(tmp_path, lambda _: ["1"], f"k = '{key}'\nx = \n") as (bridge, daemon):
        bridge.open(Opened("file:///work/space/.env", "dotenv", 1, "A=1\nB="))
        asked = InlineRequest("file:///work/space/.env", None, Position(1, 2), True)
        assert await bridge.complete(asked) == []
        (item,) = await bridge.complete(at(1, 4))
        (only,) = daemon.completes
        assert key not in only.before and len(only.before) == len(f"k = '{key}'\nx = ")
        assert item.start == Position(1, 4)


async def test_an_answer_that_is_shown_or_accepted_is_told_once(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["12"]) as (bridge, daemon):
        (item,) = await bridge.complete(at(0, 4))
        insert(bridge, 2, 0, 4, "1")
        await bridge.complete(at(0, 5))
        bridge.ledger.accepted(item.id)
        await until(lambda: len(daemon.of(m.Feedback)) == 2)
        told = [m.Feedback(item.id, "shown"), m.Feedback(item.id, "accepted", 0, 2)]
        assert daemon.of(m.Feedback) == told


async def test_what_a_person_asked_for_or_nobody_sees_is_not_told_as_shown(tmp_path: Path) -> None:
    texts = iter([["1", "2"], []])
    async with bridging(tmp_path, lambda _: next(texts)) as (bridge, daemon):
        item, _ = await bridge.complete(at(0, 4, invoked=True))
        await bridge.complete(at(1, 0))
        bridge.ledger.accepted(item.id)
        await until(lambda: bool(daemon.of(m.Feedback)))
        assert [told.event for told in daemon.of(m.Feedback)] == ["accepted"]  # type: ignore[union-attr]


def edit(
    bridge: Bridge, version: int, start: tuple[int, int], end: tuple[int, int], text: str
) -> None:
    bridge.change(URI, version, [Change((Position(*start), Position(*end)), text)])


async def test_a_pair_that_the_editor_closed_keeps_the_answer_inside_it(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["f(a, g(b))\nrest"]) as (bridge, daemon):
        await bridge.complete(at(0, 4))
        insert(bridge, 2, 0, 4, "f")
        insert(bridge, 3, 0, 5, "()")
        (inside,) = await bridge.complete(at(0, 6))
        assert (inside.text, inside.start, inside.end) == ("a, g(b)", *[Position(0, 6)] * 2)
        insert(bridge, 4, 0, 6, "a, g()")
        assert [item.text for item in await bridge.complete(at(0, 11))] == ["b"]
        insert(bridge, 5, 0, 11, "b")
        edit(bridge, 6, (0, 12), (0, 13), ")")  # typed over
        daemon.answer = lambda _: []
        assert await bridge.complete(at(0, 13)) == []  # nothing is left before the outer one
        edit(bridge, 7, (0, 13), (0, 14), ")")
        assert [item.text for item in await bridge.complete(at(0, 14))] == ["\nrest"]
        assert len(daemon.completes) == 2


async def test_one_backspace_over_an_empty_pair_returns_to_the_answer(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: ["f(a)"]) as (bridge, daemon):
        await bridge.complete(at(0, 4))
        insert(bridge, 2, 0, 4, "f()")
        assert [item.text for item in await bridge.complete(at(0, 6))] == ["a"]
        edit(bridge, 3, (0, 5), (0, 7), "")
        assert [item.text for item in await bridge.complete(at(0, 5))] == ["(a)"]
        assert len(daemon.completes) == 1


async def test_a_cursor_inside_what_was_typed_is_shown_nothing_of_the_answer(
    tmp_path: Path,
) -> None:
    async with bridging(tmp_path, lambda _: ["f(a)"]) as (bridge, daemon):
        await bridge.complete(at(0, 4))
        insert(bridge, 2, 0, 4, "f(a")
        daemon.answer = lambda _: []
        assert await bridge.complete(at(0, 5)) == []
        assert len(daemon.completes) == 2


async def test_an_edit_of_a_line_above_moves_the_answer_and_one_beside_it_ends_it(
    tmp_path: Path,
) -> None:
    text = "import b\nx = \ny\n"
    async with bridging(tmp_path, lambda _: ["foo"], text) as (bridge, daemon):
        await bridge.complete(at(1, 4))
        insert(bridge, 2, 0, 0, "import a\n")
        insert(bridge, 3, 2, 4, "f")
        (item,) = await bridge.complete(at(2, 5))
        assert (item.text, item.start) == ("oo", Position(2, 5))
        insert(bridge, 4, 1, 8, "c")  # the end of the line above
        (item,) = await bridge.complete(at(2, 5))
        assert (item.text, item.start) == ("oo", Position(2, 5))
        assert len(daemon.completes) == 1
        daemon.answer = lambda _: []
        for n, place in enumerate([(1, 9), (2, 1), (3, 0)]):
            daemon.answer = lambda _: ["foo"]
            await bridge.complete(at(2, 0, invoked=True))
            edit(bridge, 9 + n, place, (place[0] + (place[0] == 1), 0 if n == 0 else place[1]), "z")
            daemon.answer = lambda _: []
            assert await bridge.complete(at(2 - (n == 0), 0)) == []
            bridge.change(URI, 20 + n, [Change(None, "import a\nimport bc\nx = f\ny\n")])


async def test_a_buffer_that_a_formatter_replaces_shows_nothing_of_an_old_answer(
    tmp_path: Path,
) -> None:
    async with bridging(tmp_path, lambda _: ["foo"]) as (bridge, daemon):
        await bridge.complete(at(0, 4))
        bridge.change(URI, 2, [Change(None, "x = \ny\n")])
        await bridge.complete(at(0, 4))
        assert len(daemon.completes) == 2


async def test_an_answer_in_flight_is_dropped_when_the_buffer_changes_above_it(
    tmp_path: Path,
) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        task = await asking(bridge, daemon, at(0, 4))
        insert(bridge, 2, 0, 0, "# ")
        assert await cancelled(task)
        daemon.answer = lambda _: ["1"]
        (item,) = await bridge.complete(at(0, 6))
        assert item.start == Position(0, 6)
