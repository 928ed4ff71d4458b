"""What became of a request: remembered in numbers, told in words, and never with text."""

import json

import pytest

from completiond import config
from completiond.client import Client
from completiond.core import Outcome
from completiond.protocol import messages as m
from completiond.reasons import sentences
from completiond.record.rows import Spelled
from completiond.recorder import Editors, Recorder, _passes
from completiond.remembered import Remembered
from completiond.sessions import Sessions
from tests.daemon_world import PATIENCE_S, ask, world

BEFORE = "def secret_name():\n    "


def told(*replies: m.Completion) -> Remembered:
    keys, sessions = Remembered(kept=4), Sessions(clients=1, queue=9)
    recorder = Recorder(keys, Editors(lambda client: "an editor", lambda: "a model"))
    for reply in replies:
        ticket, _ = sessions.admit(b"c", ask(reply.id, BEFORE), 0)
        recorder.replied(ticket, reply, 5_000_000)
    return keys


def empty(ident: int, why: str = "blank") -> m.Completion:
    return m.Completion(ident, 7, 0, [], "empty", why=why)


def test_the_newest_of_an_id_is_found_and_only_so_many_are_kept() -> None:
    keys = told(*(empty(n, why) for n, why in enumerate("abcdef", 1)))
    assert len(keys) == 4
    found = [keys.find(b"c", request) for request in (0, 4)]
    assert [entry.key.why for entry in found if entry is not None] == ["f", "d"]
    assert (keys.find(b"c", 2), keys.of(b"c", 2)) == (None, None)
    assert keys.summary() == {"c": 1, "d": 1, "e": 1, "f": 1}


def test_the_words_of_a_strip_are_what_was_committed_then_what_did_not_hold() -> None:
    strip = [
        (2, [("suffix", 3, 1)], [(10, "suffix", True), (11, "suffix", False), (12, "a", False)]),
        (1, [("suffix", 1, 1)], [(13, "suffix", True)]),  # the limit left the own token no room
        (1, [], []),
    ]
    out = Outcome(ids=[10, 20, 13, 30], strip=strip)
    found = _passes(out, 1, lambda ids: f"<{ids[0]}>")
    assert [one.words for one in found] == [
        (Spelled("<13>", "suffix", True),),
        (Spelled("<30>", "", True),),
    ]
    (first, *_) = _passes(out, 0, lambda ids: f"<{ids[0]}>")
    assert first.words == (
        *(Spelled("<10>", "suffix", True), Spelled("<20>", "", True)),
        *(Spelled("<11>", "suffix", False), Spelled("<12>", "a", False)),
    )
    assert not any(one.words for one in _passes(out, 0, None))


@pytest.mark.parametrize(
    ("answer", "more", "why", "removed"),
    [
        (" \n", {}, "blank", {}),
        ("1 + x", {"after": "1 + x"}, "repeats_suffix", {"overlap": 5}),
        ("a = 1\n", {"after": "\n    a = 1\n"}, "repeats_suffix", {}),
        (")\n", {}, "closes_too_much", {}),
        ("<|endoftext|>", {}, "sentinel", {}),
    ],
)
async def test_each_empty_answer_has_its_reason(tmp_path, answer, more, why, removed):
    async with world(tmp_path, answers=[answer]) as w:
        reply = await w.client().ask(ask(1, BEFORE, **more))
        assert (reply.reason, reply.why, reply.removed) == ("empty", why, removed)


async def test_what_is_too_short_is_shown_to_who_asks_for_it_only(tmp_path):
    settings = config.Config(completion=config.Completion(min_chars=3))
    async with world(tmp_path, settings=settings, answers=["})"]) as w:
        client, before = w.client(), "call_something({"
        reply = await client.ask(ask(1, before))
        assert (reply.reason, reply.why, reply.removed) == ("empty", "too_short", {"least": 2})
        assert (await client.ask(ask(2, before, trigger="invoked"))).candidates[0].text == "})"


async def test_a_client_asks_why_and_is_told_numbers_without_text(tmp_path):
    async with world(tmp_path, answers=["hidden_word + 1"]) as w:
        wire = w.client()
        await wire.ask(ask(41, BEFORE, path="lib/a.py", language="python"))
        await wire.ask(ask(42, BEFORE, after="hidden_word + 1", max_tokens=40))
        await wire.ask(ask(43, BEFORE, model="another"))
        async with Client(w.endpoint) as client:
            shown, nothing = await client.why(41, PATIENCE_S), await client.why(42, PATIENCE_S)
            last, unknown = await client.why(0, PATIENCE_S), await client.why(99, PATIENCE_S)
        told = {n: "\n".join(sentences(why)) for n, why in ((1, shown), (2, nothing), (3, last))}
        assert "lib/a.py (python), character 23." in told[1]
        assert "Shown: 15 characters (ended by eos)." in told[1]
        assert f"{shown.facts['tokens']['generated']} tokens in" in told[1]
        assert "right of the cursor already" in told[2] and "Taken away: 15" in told[2]
        assert "serves scripted, not 'another'" in told[3]
        assert "ok 1" in told[3] and "unknown_model 1" in told[3] and "repeats_suffix 1" in told[3]
        assert unknown.facts == {}
        said = json.dumps([shown.facts, nothing.facts, last.facts])
        assert "secret_name" not in said and "hidden_word" not in said


async def test_candidates_that_leave_the_file_whole_come_first(tmp_path):
    async with world(tmp_path, answers=["f(", "f()", "f(("]) as w:
        reply = await w.client().ask(ask(1, "x = ", n=3, trigger="invoked", language="python"))
        texts = [candidate.text for candidate in reply.candidates]
        assert texts[0] == "f()" and len(texts) == len(set(texts)) > 1
