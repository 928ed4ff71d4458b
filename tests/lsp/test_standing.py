"""Laws of the status that editors get: what it says, when it is sent, and how often."""

import asyncio
from typing import Any

import pytest

from completiond.protocol import messages as m
from completiond_lsp import standing as subject
from completiond_lsp.daemon_link import Way
from completiond_lsp.standing import Standing


def answer(reason: str = "ok", why: str = "", **tokens: int) -> m.Completion:
    return m.Completion(3, 1, 0, [], reason, why=why, tokens=tokens)


async def test_each_state_has_one_sentence() -> None:
    here = Standing(lambda _: None)
    said: dict[str, str] = {}
    for way in (
        Way("starting"),
        Way("loading", "small"),
        Way("ready", "small"),
        Way("unreachable"),
        Way("unreachable", why="It has gone."),
    ):
        here.way(way)
        found = here.now()
        assert found["state"] == way.state and found["message"].endswith((".", "`."))
        said[found["message"]] = way.state
    assert "small is ready." in said and "small is being loaded." in said and "It has gone." in said
    here.pulling("small", 40)
    assert (here.now()["state"], here.now()["progress"]) == ("loading", 40)
    here.pulling("", None)
    here.enabled(False)
    assert here.now()["state"] == "off"


async def test_the_last_answer_says_where_it_came_from_or_why_there_is_none() -> None:
    here = Standing(lambda _: None)
    here.answered(answer(passes=2), 12.34, True)
    assert here.now()["last"] == {"id": 3, "latencyMs": 12.3, "source": "model"}
    here.answered(answer("empty", "blank"), 1.0, False)
    assert here.now()["last"]["reason"] == "The model wrote nothing but white space."
    here.answered(answer("superseded"), 1.0, False)
    assert here.now()["last"]["source"] == "reuse"
    here.typed(9)
    assert here.now()["last"] == {"id": 9, "source": "typed"}
    here.refused(0, "No daemon answers yet.")
    assert here.now()["last"] == {"id": 0, "reason": "No daemon answers yet."}


@pytest.mark.slow
async def test_it_is_sent_when_it_changes_after_the_reply_and_not_too_often() -> None:
    sent: list[tuple[float, dict[str, Any]]] = []
    loop = asyncio.get_running_loop()
    here = Standing(lambda found: sent.append((loop.time(), found)))
    here.way(Way("ready", "small"))
    assert sent == []
    until = loop.time() + 2.5 * subject.PAUSE_S
    while loop.time() < until:
        here.typed(len(sent) + 1)
        await asyncio.sleep(0.005)
    times = [when for when, _ in sent]
    assert 2 <= len(sent) <= 4
    assert all(b - a >= subject.PAUSE_S * 0.9 for a, b in zip(times, times[1:], strict=False))
    await asyncio.sleep(1.5 * subject.PAUSE_S)
    count = len(sent)
    here.way(Way("ready", "small"))
    await asyncio.sleep(1.5 * subject.PAUSE_S)
    assert len(sent) == count, "nothing has changed"
