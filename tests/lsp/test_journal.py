"""Laws of the bridge's journal: every key is told of once, in batches, with times that add up."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_daemon import HOLD
from test_bridge import URI, at, bridging, insert, until

from completiond.protocol import messages as m
from completiond.protocol.codec import decode_from_client, encode
from completiond_lsp import journal as journal_module
from completiond_lsp.documents import Document, Position
from completiond_lsp.journal import BATCH, MOST_WAITING, Journal
from completiond_lsp.typed import Typed

TEXT = "value = 1"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "FLUSH_S", 0.05)


class Wire:
    """Takes what a journal tells, if it is there."""

    def __init__(self) -> None:
        self.there = True
        self.told: list[m.Spans | m.Feedback] = []

    def send(self, message: m.Spans | m.Feedback) -> bool:
        if self.there:
            self.told.append(message)
        return self.there

    @property
    def spans(self) -> list[m.Span]:
        return [span for told in self.told if isinstance(told, m.Spans) for span in told.spans]

    @property
    def fates(self) -> list[tuple[str, int, float]]:
        found = [told for told in self.told if isinstance(told, m.Feedback)]
        return [(told.event, told.characters, told.after_s) for told in found]


def document(text: str) -> Document:
    return Document(URI, text, language="python", encoding="utf-16")


def answer(start: int, *texts: str, ident: int = 5) -> Any:
    candidates = [m.Candidate(text, "eos") for text in texts]
    return SimpleNamespace(id=ident, typed=Typed(start), candidates=candidates)


def shown(journal: Journal, where: Document, ask: Any) -> None:
    """An answer to a key that the daemon was asked about."""
    with journal.key(invoked=False) as key:
        key.of(where, ask.typed.start, "a.py")
        key.ask = ask
        journal.sent(ask.id)
        journal.answered(ask.id)
        key.items = [SimpleNamespace(text=ask.candidates[0].text)]


@pytest.mark.slow  # two clocks of real time: not beside others
async def test_a_key_that_was_asked_has_all_its_moments_in_order(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: [TEXT]) as (bridge, daemon):
        bridge.journal.editor = "an editor"
        await bridge.complete(at(0, 4))
        insert(bridge, 2, 0, 4, "v")
        await bridge.complete(at(0, 5))
        await until(lambda: bool(daemon.of(m.Spans)))
        (told,) = daemon.of(m.Spans)
        ident = daemon.completes[0].id
    assert isinstance(told, m.Spans)
    asked, typed = told.spans
    assert told.editor == "an editor"
    assert (asked.id, asked.kind, asked.characters) == (ident, "asked", len(TEXT))
    assert list(asked.at) == ["received", "sent", "answered", "replied"]
    assert list(asked.at.values()) == sorted(asked.at.values())
    assert asked.took == pytest.approx(asked.at["replied"] - asked.at["received"], rel=0.02)
    assert (typed.id, typed.kind, typed.answer, typed.characters) == (
        0,
        "typed",
        ident,
        len(TEXT) - 1,
    )
    assert (typed.language, typed.path, typed.position) == ("python", "a.py", 5)


async def test_a_cancelled_key_tells_no_end(tmp_path: Path) -> None:
    async with bridging(tmp_path, lambda _: HOLD) as (bridge, daemon):
        task = asyncio.create_task(bridge.complete(at(0, 4)))
        await until(lambda: bool(daemon.completes))
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: bool(daemon.of(m.Spans)))
        (told,) = daemon.of(m.Spans)
        ident = daemon.completes[0].id
    assert isinstance(told, m.Spans)
    (span,) = told.spans
    assert (span.id, list(span.at), span.took) == (ident, ["received", "sent"], 0)


async def test_a_failure_is_told_with_its_code(tmp_path: Path) -> None:
    failed = lambda request: m.Failure(request.id, "overloaded", "No room.")  # noqa: E731
    async with bridging(tmp_path, failed) as (bridge, daemon):
        assert await bridge.complete(at(0, 4)) == []
        await until(lambda: bool(daemon.of(m.Spans)))
        (told,) = daemon.of(m.Spans)
    assert isinstance(told, m.Spans) and told.spans[0].reason == "overloaded"


async def test_batches_are_small_and_what_nobody_takes_is_bounded() -> None:
    wire = Wire()
    journal = Journal(wire.send)
    wire.there = False
    for _ in range(MOST_WAITING + 40):
        with journal.key(invoked=False) as key:
            key.of(document(""), 0, "a.py")
    journal.flush()
    assert wire.told == []
    wire.there = True
    journal.flush()
    assert len(wire.spans) == MOST_WAITING
    assert all(len(told.spans) <= BATCH for told in wire.told if isinstance(told, m.Spans))


async def test_a_key_that_is_nowhere_is_not_told_of() -> None:
    wire = Wire()
    journal = Journal(wire.send)
    with journal.key(invoked=True):
        pass
    journal.flush()
    assert wire.told == []


async def test_what_is_drawn_is_told_with_its_key() -> None:
    wire = Wire()
    journal = Journal(wire.send)
    shown(journal, document("x = "), answer(4, TEXT))
    journal.drawn(5)
    journal.drawn(5)
    journal.drawn(6)
    journal.flush()
    (span,) = wire.spans
    assert span.at["drawn"] >= span.at["replied"]


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, Callable[[], None]]]:
    """What was to happen later, and when; the test lets it."""
    later: list[tuple[float, Callable[[], None]]] = []

    class Loop:
        def call_later(self, delay: float, call: Callable[..., None], *values: object) -> None:
            later.append((delay, lambda: call(*values)))

    monkeypatch.setattr(journal_module.asyncio, "get_running_loop", Loop)
    return later


def passed(timers: list[tuple[float, Callable[[], None]]], seconds: float) -> None:
    for delay, call in timers:
        if delay == seconds:
            call()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_left_of_accepted_text_is_told_at_its_times(
    end: str, timers: list[tuple[float, Callable[[], None]]]
) -> None:
    wire, where = Wire(), document(f"def f():{end}    ")
    journal, start = Journal(wire.send), len(f"def f():{end}    ")
    ask = answer(start, "a = 1\n    return a")
    shown(journal, where, ask)
    place = Position(1, 4)
    edit = where.change(place, place, f"a = 1{end}    return a")
    journal.edited(where, edit)
    ask.typed.follow(edit)
    journal.told(m.Feedback(5, "accepted", 0, 18))
    passed(timers, 30)
    journal.edited(where, where.change(Position(2, 4), Position(2, 10), "yield"))
    passed(timers, 120)
    journal.closed(where)
    passed(timers, 300)
    long = 18 + len(end) - 1
    assert wire.fates == [("retained", long, 30), ("retained", long - 6, 120)]


def test_more_of_an_answer_is_added_to_what_was_taken(
    timers: list[tuple[float, Callable[[], None]]],
) -> None:
    wire, where = Wire(), document("")
    journal = Journal(wire.send)
    shown(journal, where, answer(0, "one two"))
    for taken in (3, 7):
        where.replace("one two"[:taken])
        journal.told(m.Feedback(5, "accepted", 0, taken))
    passed(timers, 600)
    assert wire.fates == [("retained", 7, 600)]
    assert [delay for delay, _ in timers if delay > 1] == [30, 120, 300, 600]


def test_text_that_is_not_there_is_not_counted(
    timers: list[tuple[float, Callable[[], None]]],
) -> None:
    wire, where = Wire(), document("something else")
    journal = Journal(wire.send)
    shown(journal, where, answer(0, TEXT))
    journal.told(m.Feedback(5, "accepted", 0, 9))
    journal.told(m.Feedback(77, "accepted", 0, 9))
    passed(timers, 30)
    assert wire.fates == []


async def test_an_answer_that_was_typed_to_its_end_or_replaced_is_told_once() -> None:
    wire = Wire()
    journal = Journal(wire.send)
    through, replaced, broken = (answer(0, "one", ident=n) for n in (1, 2, 3))
    through.typed.text, replaced.typed.text, broken.typed.broken = "one!", "on", True
    for _ in range(2):
        for ask in (through, replaced, broken, None):
            journal.left(ask)
    journal.left(replaced, replaced=True)
    journal.left(broken, replaced=True)
    journal.flush()
    events = [(told.id, told.event) for told in wire.told if isinstance(told, m.Feedback)]
    assert events == [(1, "typed"), (2, "superseded")]


async def test_what_the_wire_cannot_hold_is_cut_or_dropped_and_the_rest_is_told() -> None:
    told: list[m.FromClient] = []

    def send(message: m.Spans | m.Feedback) -> bool:
        told.append(decode_from_client(encode(message)))
        return True

    journal = Journal(send)
    journal.editor = "e" * 5_000 + "\ud800"
    for version in (1 << 70, -(1 << 70)):
        odd = Document("file:///\ud800" + "u" * 5_000, "", language="l" * 5_000, encoding="utf-16")
        odd.version = version
        with journal.key(invoked=False) as key:
            key.of(odd, 0, "p" * 5_000)
    journal.flush()
    (first,) = told
    assert isinstance(first, m.Spans)
    assert [span.version for span in first.spans] == [(1 << 63) - 1, 0]
    with journal.key(invoked=False) as key:
        key.of(document(""), 1 << 70, "a.py")
    journal.flush()
    with journal.key(invoked=False) as key:
        key.of(document(""), 3, "a.py")
    journal.flush()
    assert isinstance(told[-1], m.Spans)
    assert [span.position for span in told[-1].spans] == [3], "one that cannot be sent stops none"
