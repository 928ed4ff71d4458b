"""Laws of keys that the bridge refuses by itself: nobody is asked, and everywhere is told why."""

from pathlib import Path

import pytest
from fake_daemon import FakeDaemon
from test_bridge import URI, at, bridging, until

from completiond.protocol import messages as m
from completiond.reasons import REFUSED, plainly
from completiond_lsp.bridge import Bridge
from completiond_lsp.options import Options
from completiond_lsp.params import InlineRequest, Opened
from completiond_lsp.why import why

SECRET = "file:///work/space/keys/.env"
ASKED = at(0, 4)
CASES = [
    ("switched_off", ASKED, Options(enabled=False), "a.py"),
    ("language_off", ASKED, Options(disabled_languages=("python",)), "a.py"),
    ("secret_file", ASKED._replace(uri=SECRET), Options(), "keys/.env"),
    ("several_cursors", ASKED._replace(cursors=2), Options(), "a.py"),
    ("not_open", ASKED._replace(uri="file:///work/space/b.py"), Options(), "b.py"),
    ("outdated", at(0, 4, version=7), Options(), "a.py"),
]


def test_there_is_a_case_for_every_refusal_and_a_sentence() -> None:
    assert {case[0] for case in CASES} == REFUSED
    assert all(plainly(reason).endswith(".") for reason in REFUSED)


@pytest.mark.parametrize(("reason", "request_", "options", "path"), CASES)
async def test_nobody_is_asked_and_record_status_and_why_say_the_reason(
    tmp_path: Path, reason: str, request_: InlineRequest, options: Options, path: str
) -> None:
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.open(Opened(SECRET, "dotenv", 1, "A=1\nB="))
        bridge.options = options
        assert await bridge.complete(request_) == []
        assert daemon.completes == []
        span = await told(daemon)
        assert (span.reason, span.path, span.kind, span.id) == (reason, path, "none", 0)
        assert bridge.standing.now()["last"] == {"id": 0, "reason": plainly(reason)}
        where, sentence = await why(bridge, "last")
        assert path in where and sentence == plainly(reason)
        assert daemon.of(m.AskWhy) == []
        await asks_again(bridge)


async def test_a_link_to_a_file_of_secrets_is_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\n")
    (tmp_path / "settings").symlink_to(".env")
    uri = (tmp_path / "settings").as_uri()
    async with bridging(tmp_path, lambda _: ["1"]) as (bridge, daemon):
        bridge.open(Opened(uri, "ini", 1, "A=1\nB="))
        assert await bridge.complete(at(1, 2)._replace(uri=uri)) == []
        assert daemon.completes == []
        assert (await told(daemon)).reason == "secret_file"


async def told(daemon: FakeDaemon) -> m.Span:
    await until(lambda: bool(daemon.of(m.Spans)))
    (told,) = daemon.of(m.Spans)
    assert isinstance(told, m.Spans)
    (span,) = told.spans
    return span


async def asks_again(bridge: Bridge) -> None:
    """The refusal is over with the next key that is asked about."""
    bridge.options = Options()
    assert await bridge.complete(at(0, 4)._replace(uri=URI))
    assert bridge.refused is None


async def test_an_answer_for_a_text_that_is_gone_is_no_answer_that_was_shown(
    tmp_path: Path,
) -> None:
    def answer(asked: m.Complete) -> m.Completion:
        wrong = m.Candidate("wrong", "stop")
        return m.Completion(asked.id, asked.version + 1, len(asked.before), [wrong], "ok")

    async with bridging(tmp_path, answer) as (bridge, _):
        assert await bridge.complete(at(0, 4)) == []
        assert bridge.standing.now()["last"]["reason"] == plainly("outdated")
