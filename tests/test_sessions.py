"""Admission and its bounds: newest wins, one settling each, room for everybody, chunks by hash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond import sessions
from completiond.core import Snapshot, text_hash
from completiond.errors import Overloaded, RequestError
from completiond.moments import typed_since
from completiond.protocol import messages as m
from completiond.reuse import Answered, remainder
from completiond.sessions import ChunkStore, Sessions, Ticket


def make(clients: int = 8, queue: int = 100) -> Sessions[str]:
    return Sessions(clients=clients, queue=queue)


def ask(ident: int, document: str = "a.py", **more: object) -> m.Complete:
    return m.Complete(ident, document, 1, more.pop("before", "x"), "", **more)  # type: ignore[arg-type]


def chunk(text: str, name: str | None = None) -> m.Chunk:
    return m.Chunk(name or text_hash(text), "b.py", "python", text)


def test_the_newest_request_of_a_buffer_wins():
    s = make()
    first, none = s.admit(b"1", ask(1), 0)
    assert none is None
    second, old = s.admit(b"1", ask(2), 0)
    assert old is first
    assert (first.settled, second.settled) == (True, False)
    assert list(s) == [second]


def test_other_buffers_and_other_clients_are_not_superseded():
    s = make()
    for client, document in ((b"1", "a"), (b"1", "b"), (b"2", "a")):
        assert s.admit(client, ask(1 if document == "a" else 2, document), 0).superseded is None
    assert s.waiting == 3


def test_a_ticket_is_settled_once():
    s = make()
    ticket, _ = s.admit(b"1", ask(1), 0)
    assert [s.settle(ticket), s.settle(ticket)] == [True, False]
    assert s.waiting == 0


def test_an_id_in_use_is_refused_and_the_one_that_uses_it_is_kept():
    s = make()
    ticket, _ = s.admit(b"1", ask(1), 0)
    with pytest.raises(RequestError):
        s.admit(b"1", ask(1, "other"), 0)
    assert s.find(b"1", 1) is ticket
    s.settle(ticket)
    assert s.admit(b"1", ask(1), 0).ticket is not ticket


def test_what_became_of_a_request_is_remembered_for_a_while():
    s = make()
    assert s.find(b"1", 1) == "unknown"
    for ident in range(1, sessions.MAX_FINISHED + 2):
        s.settle(s.admit(b"1", ask(ident), 0).ticket)
    assert s.find(b"1", 1) == "unknown"
    assert s.find(b"1", 2) == "finished"


def test_one_client_may_not_wait_for_too_much():
    s = make(queue=1000)
    for ident in range(1, m.MAX_WAITING + 1):
        s.admit(b"1", ask(ident, f"{ident}"), 0)
    with pytest.raises(Overloaded):
        s.admit(b"1", ask(99, "one more"), 0)
    assert s.admit(b"1", ask(99, "1"), 0).superseded is not None  # makes its own room
    s.admit(b"2", ask(1), 0)


def test_the_queue_is_bounded_over_all_clients():
    s = make(queue=2)
    s.admit(b"1", ask(1), 0)
    s.admit(b"2", ask(1), 0)
    with pytest.raises(Overloaded):
        s.admit(b"3", ask(1), 0)


def test_the_longest_idle_client_is_forgotten_and_never_one_that_waits():
    s = make(clients=2)
    s.admit(b"waits", ask(1), 0)
    s.settle(s.admit(b"idle", ask(1), 0).ticket)
    s.settle(s.admit(b"new", ask(1), 0).ticket)
    assert (s.find(b"idle", 1), s.find(b"new", 1)) == ("unknown", "finished")
    s.admit(b"new", ask(2), 0)
    with pytest.raises(Overloaded):
        s.admit(b"third", ask(1), 0)
    assert len(s) == 2


def test_idle_buffers_are_forgotten_in_the_order_of_their_last_use():
    s = make()
    first, _ = s.admit(b"1", ask(1, "0"), 0)
    s.buffer(first).flight = "run"
    s.settle(first)
    for ident in range(1, sessions.MAX_BUFFERS):
        s.settle(s.admit(b"1", ask(ident + 1, str(ident)), 0).ticket)
    assert s.buffer(first).flight == "run"
    s.admit(b"1", ask(99, "one more"), 0)
    s.admit(b"1", ask(100, "and another"), 0)
    assert s.buffer(first).flight == "run"  # those that wait do not count
    s.settle(s.find(b"1", 99))  # type: ignore[arg-type]
    s.admit(b"1", ask(101, "and a third"), 0)
    assert s.buffer(first).flight is None


def test_a_client_that_is_gone_leaves_nothing_but_its_runs():
    s = make()
    ticket, _ = s.admit(b"1", ask(1), 0)
    s.buffer(ticket).flight = "run"
    assert [buffer.flight for buffer in s.forget(b"1")] == ["run"]
    assert (len(s), s.waiting, s.settle(ticket)) == (0, 0, False)
    assert s.forget(b"1") == []


def test_chunks_travel_once_and_unknown_ones_are_named_in_order():
    s = make()
    one, two = chunk("one"), chunk("two")
    ticket, _ = s.admit(b"1", ask(1, chunks=[one], context=[one.hash, two.hash, "?"]), 0)
    assert (ticket.chunks, ticket.unknown) == ([one], [two.hash, "?"])
    ticket, _ = s.admit(b"1", ask(2, chunks=[two], context=[two.hash, one.hash]), 0)
    assert (ticket.chunks, ticket.unknown) == ([two, one], [])
    other, _ = s.admit(b"2", ask(1, context=[one.hash]), 0)
    assert other.unknown == [one.hash]


def test_a_chunk_that_does_not_match_its_hash_is_ignored():
    store = ChunkStore()
    store.add(chunk("poison", text_hash("good")))
    assert store.get([text_hash("good")]) == ([], [text_hash("good")])


def test_what_clients_that_are_gone_left_does_not_add_up(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_REMEMBERED", 3 * (sessions.BUFFER_BYTES + 100))
    s = make()
    waiting, _ = s.admit(b"waits", ask(1), 0)
    for number in range(1, 6):
        text = chunk(f"{number}" * 100)
        ticket, _ = s.admit(b"%d" % number, ask(1, chunks=[text], context=[text.hash]), 0)
        assert ticket.chunks == [text]
        s.settle(ticket)
        assert len(s) == min(number + 1, 3)
    assert s.find(b"waits", 1) is waiting
    assert [s.find(b"%d" % number, 1) for number in (3, 4, 5)] == ["unknown"] + ["finished"] * 2


def test_one_client_s_answers_are_bounded_and_those_of_the_longest_idle_buffers_go_first(
    monkeypatch,
):
    monkeypatch.setattr(sessions, "MAX_ANSWER_BYTES", 50_000)
    s = make()
    buffers = []
    for ident in range(1, 6):
        ticket, _ = s.admit(b"1", ask(ident, f"{ident}", before="x" * 20_000), 0)
        buffer = s.buffer(ticket)
        buffer.answers.keep(Answered(ticket.snapshot, "k", "answer", "line"))
        buffers.append(buffer)
        s.settle(ticket)
    s.admit(b"1", ask(9, "5"), 0)
    assert [len(buffer.answers) for buffer in buffers] == [0, 0, 0, 1, 1]


def test_answers_of_clients_that_are_gone_count_as_what_is_remembered(monkeypatch):
    monkeypatch.setattr(sessions, "MAX_REMEMBERED", sessions.BUFFER_BYTES + 300_000)
    s = make()
    ticket, _ = s.admit(b"gone", ask(1), 0)
    for n in range(9):
        at = Snapshot("a.py", n, "", "", f"{n}" * 50_000, "")
        s.buffer(ticket).answers.keep(Answered(at, "k", "answer", "line"))
    s.settle(ticket)
    s.settle(s.admit(b"gone", ask(2), 0).ticket)
    s.admit(b"here", ask(1), 0)
    assert s.find(b"gone", 1) == "unknown"


def test_the_text_that_is_shown_is_found_by_its_request_until_the_next_one():
    s = make()
    ticket, _ = s.admit(b"1", ask(1), 0)
    s.settle(ticket)
    s.show(ticket, "text")
    assert s.shown(b"1", 1) == (ticket, "text")
    assert s.shown(b"1", 2) is s.shown(b"2", 1) is None
    s.admit(b"1", ask(2), 0)
    assert s.shown(b"1", 1) is None


def test_only_clients_that_wait_are_owed_a_reply():
    s = make()
    ticket, _ = s.admit(b"1", ask(1), 0)
    s.admit(b"2", ask(1), 0)
    s.settle(ticket)
    assert s.owed() == [b"2"]


@given(st.lists(st.text(max_size=20), max_size=60))
def test_chunks_are_bounded_in_bytes(texts):
    store = ChunkStore(limit=50)
    for text in texts:
        store.add(chunk(text))
        assert store.bytes <= 50
    known, _ = store.get([text_hash(text) for text in texts])
    assert sum(len(c.text.encode()) for c in known) == store.bytes


def moment(before: str, after: str = "", **more: object) -> Snapshot:
    return Snapshot("d", 1, "", "", before, after, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("new", "typed"),
    [
        (moment("ab"), ""),
        (moment("abc"), "c"),
        (moment("a"), None),
        (moment("xb"), None),
        (moment("abc", "z"), None),
        (moment("abc", offset=4096), None),
        (moment("abc", prefix_hash="other"), None),
    ],
)
def test_only_typing_forward_at_one_place_continues_a_moment(new, typed):
    assert typed_since(moment("ab"), new) == typed


@pytest.mark.parametrize(
    ("text", "typed", "rest"),
    [
        ("foo()", "foo", "()"),
        ("f", "foo", ""),
        ("", "foo", ""),
        ("fa", "foo", None),
        ("a", "", "a"),
    ],
)
def test_a_prediction_fits_while_it_agrees_as_far_as_it_goes(text, typed, rest):
    assert remainder(text, typed) == rest


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "settle", "forget"]),
            st.sampled_from([b"1", b"2", b"3"]),
            st.integers(1, 6),
            st.sampled_from(["a", "b", "c"]),
        ),
        max_size=60,
    )
)
def test_every_admitted_request_is_settled_once_whatever_happens(actions):
    s = make(clients=2, queue=5)
    admitted: list[Ticket] = []
    settled: list[Ticket] = []
    for what, client, ident, document in actions:
        if what == "ask":
            try:
                ticket, old = s.admit(client, ask(ident, document), 0)
            except (RequestError, Overloaded):
                continue
            admitted.append(ticket)
            settled += [old] if old else []
        elif what == "forget":
            settled += [t for t in admitted if t.client == client and not t.settled]
            s.forget(client)
        else:
            found = s.find(client, ident)
            if isinstance(found, Ticket) and s.settle(found):
                settled.append(found)
        assert s.waiting == sum(not t.settled for t in admitted) == len(list(s)) <= 5
        assert len(s) <= 2
    assert len(set(map(id, settled))) == len(settled)
    assert {id(t) for t in admitted if t.settled} == {id(t) for t in settled}


def test_requests_that_wait_hold_no_more_text_than_their_client_may():
    s = make()
    for number in range(40):
        texts = [f"{number} {k} ".ljust(60_000, "x") for k in range(8)]
        chunks = [chunk(text) for text in texts]
        names = [one.hash for one in chunks]
        ticket, _ = s.admit(b"1", ask(number, f"{number}", chunks=chunks, context=names), 0)
        assert not ticket.request.chunks, "they are in the store, or gone"
        assert (len(ticket.chunks), len(ticket.unknown)) in ((8, 0), (0, 8))
    held = {c.hash: len(c.text) for t in s for c in t.chunks}
    assert 0 < sum(held.values()) <= sessions.MAX_WAITING_TEXT
    other = chunk("another client's")
    ticket, _ = s.admit(b"2", ask(1, chunks=[other], context=[other.hash]), 0)
    assert ticket.chunks == [other]
