"""What the page is told of the record: each question, absurd ones, stores that are not there."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import replay_traces
from rows_made import NOW_MS, full
from shown import client, reader, with_token
from starlette.testclient import TestClient

from completiond.record.rows import Drafted, Pass, Said, Spelled
from completiond.record.store import Full

WORDS = (
    Spelled("x", "suffix", True),
    Spelled(" =", "suffix", True),
    Spelled(" 1", "", True),
    Spelled(" 2", "suffix", False),
)
STRIP = (Pass(3, (Drafted("suffix", 6, 2),)), Pass(1))
PLACES = ("/api/keys", "/api/charts", "/api/export?form=csv")


def keys(browser: TestClient, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = browser.get("/api/keys", params=query).json()["keys"]
    return found


def test_the_newest_key_comes_first_with_its_stages(tmp_path: Path) -> None:
    with reader(tmp_path, full(path="a.py"), full(path="b.py", at_ms=NOW_MS + 1)) as browser:
        found = keys(browser)
    assert [key["path"] for key in found] == ["b.py", "a.py"]
    assert found[0]["stages"]["decode"] == 60_000 and found[0]["took_us"] == 90_850


def test_one_key_has_its_drafts_its_strip_and_its_words(tmp_path: Path) -> None:
    with reader(tmp_path, full()._replace(passes=STRIP)) as browser:
        found = browser.get("/api/key/1").json()
    assert found["strip"] == [
        {"committed": 3, "drafts": [{"source": "suffix", "drafted": 6, "held": 2}], "words": []},
        {"committed": 1, "drafts": [], "words": []},
    ]
    assert found["drafts"][0] == {"source": "suffix", "drafted": 12, "held": 5}
    assert "5 of 12 by suffix" in " ".join(found["words"]) and found["said"] is None


def test_the_words_of_a_strip_are_told_where_they_were_recorded(tmp_path: Path) -> None:
    spelled = (replace(STRIP[0], words=WORDS), STRIP[1])
    with reader(tmp_path, full()._replace(passes=spelled), full()) as browser:
        first, second = browser.get("/api/key/1").json()["strip"]
        assert browser.get("/api/key/2").json()["strip"] == []
    assert first["words"] == [one._asdict() for one in WORDS] and second["words"] == []


def test_a_key_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    with reader(tmp_path, full()) as browser:
        assert "no such key" in browser.get("/api/key/77").json()["error"]
        assert browser.get("/api/key/x").status_code == 404


def test_charts_say_what_the_keys_say(tmp_path: Path) -> None:
    both = (full()._replace(passes=STRIP), full(kind="reuse", passes=0, wrote=0, outcome=""))
    with reader(tmp_path, *both) as browser:
        found = browser.get("/api/charts", params={"stage": "decode"}).json()
    assert found["totals"]["keys"] == 2 and found["kinds"] == {"model": 1, "reuse": 1}
    assert found["totals"]["tokens_per_pass"] == 36 / 6
    assert {one["source"]: one["held"] for one in found["sources"]} == {"suffix": 10, "lookup": 0}
    chosen = found["choices"]
    assert (chosen["runs"], chosen["passes"], chosen["plain"], chosen["written"]) == (1, 2, 1, 4)
    assert chosen["sources"] == [{"source": "suffix", "passes": 1, "drafted": 6, "held": 2}]
    assert chosen["committed"] == {"1": 1, "3": 1}
    assert found["points"][0]["keys"] == 2 and sum(bar["keys"] for bar in found["bars"]) == 2


def test_each_filter_takes_only_what_fits(tmp_path: Path) -> None:
    odd = {"language": "rust", "editor": "vim", "path": "c.rs", "model": "other"}
    with reader(tmp_path, full(), full(**odd), full(at_ms=NOW_MS - 3_600_000)) as browser:
        for name, value in odd.items():
            assert [key[name] for key in keys(browser, **{name: value})] == [value]
            assert keys(browser, **{name: "nobody"}) == []
            drawn = browser.get("/api/charts", params={name: value}).json()
            assert drawn["totals"]["keys"] == 1
        assert len(keys(browser, last_s=600)) == 2 and len(keys(browser, many=1)) == 1
        assert len(keys(browser, until_ms=NOW_MS - 1000)) == 1


@pytest.mark.parametrize(
    "query",
    [
        *("last_s=-1", "last_s=1e9", "last_s=٣", "many=x", "since_ms=99999999999999999999"),
        *("stage=nothing", "since_ms=9&until_ms=8", "path=" + "a" * 401, "path=%00", "colour=red"),
    ],
)
def test_an_absurd_filter_is_refused_in_one_sentence(tmp_path: Path, query: str) -> None:
    with reader(tmp_path, full()) as browser:
        for place in PLACES:
            answer = browser.get(f"{place}{'&' if '?' in place else '?'}{query}")
            assert answer.status_code == 400 and answer.json()["error"].endswith(".")


@pytest.mark.parametrize("query", ["last_s=9007199254740992", "path='%20OR%201=1", "many=0"])
def test_a_strange_filter_is_answered(tmp_path: Path, query: str) -> None:
    with reader(tmp_path, full()) as browser:
        for place in ("/api/keys", "/api/charts"):
            assert browser.get(f"{place}?{query}").status_code == 200


def test_what_one_may_filter_by_is_told_and_who_wrote(tmp_path: Path) -> None:
    with reader(tmp_path, full()) as browser:
        found = browser.get("/api/about").json()
    assert found["names"]["language"] == ["python"] and found["names"]["path"] == ["src/a.py"]
    assert found["served"][0]["device"] == "cpu" and found["text"] is False


# -- stores that are not there --------------------------------------------------------------------


def test_without_a_store_everything_is_empty_and_nothing_is_made(tmp_path: Path) -> None:
    with client(tmp_path) as browser:
        for path in ("/api/about", "/api/keys", "/api/charts", "/api/key/1"):
            answer = browser.get(path, headers=with_token({}))
            assert answer.status_code == 200 and answer.json()["empty"] is True
        answer = browser.get("/api/export?form=csv", headers=with_token({}))
        assert answer.status_code == 503 and "Nothing has been recorded" in answer.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a database, far from it" * 300])
def test_a_store_that_cannot_be_read_is_said_and_left_alone(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("completiond.record.queries.BUSY_S", 0.05)
    store = tmp_path / "record-1.db"
    store.write_bytes(content)
    with client(tmp_path) as browser:
        for path in ("/api/about", "/api/keys", "/api/charts", "/api/key/1"):
            answer = browser.get(path, headers=with_token({}))
            assert answer.status_code == 503 and "docs/record.md" in answer.json()["error"]
    assert store.read_bytes() == content


# -- files ----------------------------------------------------------------------------------------


def test_csv_has_a_row_for_each_key_that_is_shown_and_no_formula(tmp_path: Path) -> None:
    with reader(tmp_path, full(path="=cmd|' /C calc'!A0"), full(path="b.py")) as browser:
        answer = browser.get("/api/export?form=csv")
        assert "completiond-keys.csv" in answer.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["path"] for row in rows] == ["b.py", "'=cmd|' /C calc'!A0"]
        assert rows[0]["decode_us"] == "60000" and rows[0]["queue_us"] == ""
        only = browser.get("/api/export?form=csv&path=b.py").text
        assert len(only.splitlines()) == 2


def test_json_has_the_keys_with_their_drafts_and_the_figures(tmp_path: Path) -> None:
    with reader(tmp_path, full()) as browser:
        found = json.loads(browser.get("/api/export?form=json").text)
        assert found["keys"][0]["drafts"][0]["source"] == "suffix"
        assert found["figures"]["totals"]["keys"] == 1
        assert browser.get("/api/export?form=exe").status_code == 400


def test_without_text_there_is_no_trace(tmp_path: Path) -> None:
    with reader(tmp_path, full()) as browser:
        answer = browser.get("/api/export?form=trace&path=src/a.py")
    assert answer.status_code == 503 and "--record-text" in answer.json()["error"]


def asked(at: int, before: str, after: str = "", offset: int = 0) -> Full:
    said = Said(0, "file:///a.py", offset, before, after, ("answer",))
    return full(at_ms=at, position=offset + len(before))._replace(text=said)


def typed(at: int, position: int) -> Full:
    return full(at_ms=at, position=position, kind="typed")


def test_a_trace_is_what_was_typed_and_can_be_replayed(tmp_path: Path) -> None:
    t = NOW_MS
    session = [
        asked(t, "def f(", ")\n"),
        typed(t + 100, 7),
        typed(t + 200, 8),
        asked(t + 300, "def f(abc", ")\n"),
        asked(t + 700, "def f(abc", "):\n    pass\n"),  # text came in behind the cursor
        asked(t + 900, "def g(abc", "):\n    pass\n"),
        asked(t + 950, "def g(abc):\n", "    pass\n"),  # the cursor went on
        asked(t + 1200, "def g(abc):\n    ", "    pass\n"),
        asked(t + 1500, "g(abc):\n    ", "    pass\n", offset=4),  # the window moved
    ]
    with reader(tmp_path, *session) as browser:
        answer = browser.get("/api/export?form=trace&path=src/a.py")
    file = tmp_path / "trace.json"
    file.write_text(answer.text, encoding="utf-8")
    trace = replay_traces.read(file)  # it checks every event against the text, and the last text
    strokes = [(round(step.at_s * 1000), step.insert) for step in trace.steps if step.typed]
    assert strokes[:3] == [(100, "a"), (200, "b"), (300, "c")] and trace.recorded
    assert trace.documents["0"].language == "python" and trace.documents["0"].path == "src/a.py"


def test_a_clock_that_goes_backwards_makes_no_broken_trace(tmp_path: Path) -> None:
    with reader(tmp_path, asked(NOW_MS, "a"), asked(NOW_MS - 5000, "ab")) as browser:
        answer = browser.get("/api/export?form=trace&path=src/a.py")
    file = tmp_path / "trace.json"
    file.write_text(answer.text, encoding="utf-8")
    assert [step.at_s for step in replay_traces.read(file).steps] == [0.0, 0.0]


def test_the_text_of_a_key_is_told_where_it_was_recorded(tmp_path: Path) -> None:
    with reader(tmp_path, asked(NOW_MS, "def f(")) as browser:
        found = browser.get("/api/key/1").json()
        assert found["said"] == {"before": "def f(", "answers": ["answer"]}
        assert browser.get("/api/about").json()["text"] is True
