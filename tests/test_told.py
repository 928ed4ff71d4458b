"""Laws of what clients tell: their times are joined, absurd ones refused, floods bounded."""

import time
from dataclasses import replace
from typing import Any

import pytest

from completiond import told as told_module
from completiond.protocol import messages as m
from completiond.reasons import sentences
from completiond.record.facts import facts_of
from completiond.record.rows import Key
from completiond.recorder import Editors, Recorder
from completiond.remembered import Entry, Remembered
from completiond.sessions import Sessions
from completiond.told import Told
from tests.daemon_world import ask

MS = 1_000_000
CLIENT = b"client"


class World:
    """One request of 20 ms that was answered, 10 ms after its sending on the same clock."""

    def __init__(
        self, text: str = "value = 1", arrived: int = 10 * MS, replied: int = 30 * MS
    ) -> None:
        self.keys = Remembered()
        self.told = Told(self.keys)
        sessions: Sessions[Any] = Sessions(clients=1, queue=9)
        ticket, _ = sessions.admit(CLIENT, ask(7, path="a.py", language="python"), arrived)
        recorder = Recorder(self.keys, Editors(self.told.editor, lambda: "a model"))
        reply = m.Completion(7, 7, 0, [m.Candidate(text, "eos")], "ok")
        recorder.replied(ticket, reply, replied)

    @property
    def entry(self) -> Entry:
        found = self.keys.of(CLIENT, 7)
        assert found is not None
        return found

    @property
    def key(self) -> Key:
        return self.entry.key

    def span(self, ident: int = 7, kind: m.SpanKind = "asked", **more: Any) -> int:
        at = {"received": 4 * MS, "sent": 5 * MS, "answered": 32 * MS, "replied": 33 * MS}
        span = m.Span(ident, "d", 1, kind, more.pop("at", at), **more)
        return self.told.spans(CLIENT, m.Spans([span], "an editor"), "a model")

    def feedback(self, event: m.FeedbackEvent, **more: Any) -> None:
        self.told.feedback(CLIENT, m.Feedback(7, event, **more))


def test_the_clients_stages_and_the_daemons_add_up_to_the_clients_total() -> None:
    world = World()
    world.span(took=29 * MS, characters=9)
    key = world.key
    assert key.stages == {
        "before": 1000,
        "there": 5000,
        "lookup": 20_000,
        "finish": 0,
        "back": 2000,
        "after": 1000,
    }
    assert sum(key.stages.values()) == key.total_us == 29_000
    assert (key.editor, key.outcome, key.clock_us) == ("an editor", "shown", None)


def test_a_cancelled_key_has_no_total() -> None:
    world = World()
    world.span(at={"received": 4 * MS, "sent": 5 * MS})
    assert (world.key.total_us, world.key.stages["there"]) == (None, 5000)
    assert "back" not in world.key.stages


@pytest.mark.parametrize(
    "at",
    [
        {"received": 9 * MS, "sent": 5 * MS, "answered": 32 * MS, "replied": 33 * MS},
        {"received": -(1 << 62), "sent": 5 * MS, "answered": 32 * MS, "replied": (1 << 62)},
        {"sent": 5 * MS},
        {},
    ],
)
def test_absurd_times_are_refused_and_the_row_stays(at: dict[str, int]) -> None:
    world = World()
    world.span(at=at, took=1 << 62)
    assert (world.key.total_us, world.key.before_us) == (None, None)
    assert world.key.stages == {"lookup": 20_000, "finish": 0}


S = 1_000_000_000


@pytest.mark.parametrize(
    "at",
    [
        # by its own clock it waited for ten seconds, but the reply left a second ago
        {"received": 0, "sent": 1 * MS, "answered": 10 * S, "replied": 10 * S},
        # on our clock: an answer that comes tomorrow, a question that was sent an hour ago
        {"received": 900 * S, "sent": 901 * S, "answered": 1090 * S, "replied": 1090 * S},
        {"received": 700 * S, "sent": 701 * S, "answered": 1001 * S, "replied": 1001 * S},
    ],
    ids=["another clock", "the future", "long ago"],
)
def test_ways_that_cannot_be_are_refused_and_counted(
    at: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(arrived=1000 * S, replied=1000 * S + 20 * MS)
    monkeypatch.setattr(told_module.time, "monotonic_ns", lambda: 1001 * S)
    assert world.span(at=at, characters=9) == 1
    assert (world.key.total_us, world.key.stages) == (None, {"lookup": 20_000, "finish": 0})
    assert world.key.outcome == "shown", "what became of it is believed"
    good = {"received": 3 * S, "sent": 3 * S + MS, "answered": 4 * S, "replied": 4 * S}
    assert world.span(at=good) == 0 and world.key.clock_us is not None


def test_a_key_that_the_client_answered_itself_takes_no_minutes() -> None:
    world = World()
    slow = {"received": 40 * MS, "replied": 40 * MS + 61 * S}
    assert world.span(0, "typed", at=slow) == 1
    assert world.span(0, "typed", at={"received": 40 * MS, "replied": 41 * MS}) == 0
    late = {"received": 40 * MS, "replied": 41 * MS, "drawn": 41 * MS + 61 * S}
    assert world.span(0, "typed", at=late) == 0
    *_, first, second, third = (entry.key for entry in world.keys._entries.values())
    assert (first.stages, second.total_us, third.total_us) == ({}, 1000, 1000)
    assert third.drawn_us is None


def test_an_absurd_total_gives_way_to_the_moments() -> None:
    world = World()
    world.span(took=1 << 62)
    assert world.key.total_us == 29_000


def test_a_key_that_the_client_answered_itself_is_there_too() -> None:
    world = World()
    at = {"received": 40 * MS, "replied": 41 * MS, "drawn": 45 * MS}
    world.span(0, "typed", at=at, answer=7, characters=8, path="a.py", language="python")
    numbers = list(world.keys._entries)
    key = world.keys._entries[numbers[-1]].key
    assert (key.kind, key.request, key.answer, key.shown) == ("typed", 0, numbers[0], 8)
    assert (key.stages, key.total_us, key.drawn_us) == ({"before": 1000}, 1000, 4000)
    assert world.keys.find(b"", 0) is world.entry, "why is about requests of the daemon"


def test_a_key_that_the_client_refused_is_the_last_one_with_its_reason() -> None:
    world = World()
    world.span(0, "none", reason="secret_file", path="keys/.env", language="dotenv", at={})
    entry = world.keys.find(b"another", 0)
    assert entry is not None and (entry.key.kind, entry.key.reason) == ("refused", "secret_file")
    assert world.keys.summary() == {"ok": 1, "secret_file": 1}
    text = "\n".join(sentences(m.Why(0, facts_of(entry.key, (), entry.key.at_ms))))
    assert "A key that asked nobody" in text and "keys/.env (dotenv)" in text
    assert "keeps secrets by its name" in text


def test_of_one_number_a_client_finds_its_own_key() -> None:
    world = World()
    other = world.keys.add(b"other", replace(world.key, path="b.py"))
    assert world.keys.find(CLIENT, 7) is world.entry
    assert world.keys.find(b"nobody", 7) is other


def test_what_was_computed_in_a_pause_is_no_key() -> None:
    world = World()
    world.span(kind="warm")
    assert world.key.kind == "warm"
    world.span(99, "warm")
    assert len(world.keys) == 1


def test_outcomes_only_become_weightier() -> None:
    world = World()
    events: list[tuple[m.FeedbackEvent, dict[str, Any], str]] = [
        ("shown", {}, "shown"),
        ("superseded", {}, "superseded"),
        ("shown", {}, "superseded"),
        ("accepted", {"characters": 4}, "partially"),
        ("rejected", {}, "partially"),
        ("accepted", {"characters": 9}, "accepted"),
        ("typed", {}, "accepted"),
    ]
    for event, more, outcome in events:
        world.feedback(event, **more)
        assert world.key.outcome == outcome
    assert world.key.taken == 9


def test_what_is_left_is_at_most_what_was_taken_and_at_known_times() -> None:
    world = World()
    world.feedback("retained", characters=5, after_s=30)
    assert world.key.kept_30 is None, "nothing was taken"
    world.feedback("accepted", characters=9)
    world.feedback("retained", characters=1 << 40, after_s=30.4)
    world.feedback("retained", characters=-3, after_s=600)
    world.feedback("retained", characters=5, after_s=75)
    key = world.key
    assert (key.kept_30, key.kept_120, key.kept_300, key.kept_600) == (9, None, None, 0)


def test_no_more_is_taken_or_shown_than_the_daemon_offered() -> None:
    world = World()
    world.span(characters=5_000)
    world.feedback("accepted", characters=999_999)
    assert (world.key.shown, world.key.taken, world.key.outcome) == (9, 9, "accepted")


def test_a_total_is_not_less_than_the_daemons_part() -> None:
    world = World()
    world.span(at={"received": 11 * MS, "sent": 11 * MS, "answered": 12 * MS, "replied": 12 * MS})
    assert world.key.total_us == 20_000


def test_a_flood_of_one_client_is_bounded_and_another_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(told_module.time, "monotonic", lambda: now[0])
    keys = Remembered()
    told = Told(keys)
    flood = m.Spans([m.Span(0, "d", 1, "typed")] * 500)
    refused = [told.spans(CLIENT, flood, "a model") for _ in range(6)]
    assert sum(refused) == 3000 - told_module.BURST
    now[0] += 1
    assert told.spans(CLIENT, flood, "a model") == 500 - told_module.A_SECOND
    assert told.spans(b"another", flood, "a model") == 0


def test_memory_of_clients_and_keys_is_bounded() -> None:
    keys = Remembered(kept=10)
    told = Told(keys)
    for n in range(told_module.CLIENTS + 50):
        told.spans(str(n).encode(), m.Spans([m.Span(n + 1, "d", 1, "none")], "an editor"), "")
    assert len(keys) == 10 and len(told._clients) == told_module.CLIENTS
    assert told.editor(b"0") == "" and told.editor(b"60") == "an editor"


def test_a_long_name_is_cut() -> None:
    world = World()
    told = m.Spans([m.Span(0, "d", 1, "none", reason="r" * 4000, language="l" * 4000)], "e" * 4000)
    world.told.spans(CLIENT, told, "a model")
    entry = next(reversed(world.keys._entries.values()))
    assert len(entry.key.reason) == len(entry.key.language) == len(entry.key.editor) == 64


def test_time_of_the_wall_may_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(time, "time_ns", lambda: 5)  # which wall.now_ms reads
    world.span(0, "typed", at={"received": 1, "replied": MS})
    assert next(reversed(world.keys._entries.values())).key.at_ms == 0
