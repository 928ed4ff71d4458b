"""Traces: what counts as a typed key, what comes next, and one clear sentence for bad ones."""

from pathlib import Path
from typing import Any

import pytest
import replay_traces as traces
from hand_made import events, typed, write

from completiond.errors import RequestError

DATA = Path(__file__).parents[3] / "shared/data"


def event(offset: int, delete: str, insert: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"t_ms": 0, "offset": offset, "delete": delete, "insert": insert, "kind": kind} | more


@pytest.mark.parametrize(
    "one, is_typed, cursor",
    [
        (event(2, "", "x", "type"), True, 3),
        (event(2, "", "\n    ", "newline"), True, 7),
        (event(2, "", "()", "autoclose", cursor=3), True, 3),
        (event(2, "", "()", "edit"), True, 3),
        (event(2, ")", ")", "overtype"), True, 3),
        (event(1, "(", "", "fix"), False, 1),
        (event(0, "", "", "move"), False, 0),
        (event(2, "", "pasted", "paste-like"), False, 8),
        (event(2, "", "x", "accept"), False, 3),
        (event(1, "(", "[", "edit"), False, 2),
    ],
)
def test_a_typed_key_is_what_one_key_press_makes(
    tmp_path: Path, one: dict[str, Any], is_typed: bool, cursor: int
) -> None:
    (step,) = traces.read(write(tmp_path, "f()", [one])).steps
    assert (step.typed, step.cursor) == (is_typed, cursor)


BAD = {
    "comes at 100 ms, before": [event(0, "", "a", "type", t_ms=t) for t in (200, 100)],
    "version 1 after version 2": [event(0, "", "a", "type", version=v) for v in (2, 1)],
    "is at 9, but": [event(9, "", "a", "type")],
    "is not there": [event(0, "x", "", "fix")],
    "outside the text": [event(0, "", "a", "type", cursor=5)],
    "is not one": [{"t_ms": 0}],
    "which is not open": [event(0, "", "a", "type", doc=3)],
}


@pytest.mark.parametrize("sentence", BAD)
def test_a_bad_trace_ends_in_one_sentence_that_names_the_event(
    tmp_path: Path, sentence: str
) -> None:
    path = write(tmp_path, "ab\n", BAD[sentence])
    with pytest.raises(RequestError, match=sentence) as caught:
        traces.read(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: event {len(BAD[sentence])} ") and "\n" not in text


def test_halves_of_a_character_are_split_only_when_the_cursor_is_between_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hand.json"
    halves = '"insert": "\\ud83d"', '"insert": "\\ude00"'
    one = '{"t_ms": 0, "offset": 0, "delete": "", "kind": "type", %s}'
    path.write_text('{"before_text": "\\ude00", "events": [%s]}' % (one % halves[0]))
    with pytest.raises(RequestError, match="surrogate pair"):
        traces.read(path)
    path.write_text('{"before_text": "a", "events": [%s]}' % (one % halves[1]))
    assert traces.read(path).keys == 1


def test_events_that_lead_elsewhere_than_the_trace_says_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "", events("abc", 0), after_text="abd")
    with pytest.raises(RequestError, match="do not lead to its own last text"):
        traces.read(path)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"events": 3}'):
        (tmp_path / "hand.json").write_text(text)
        with pytest.raises(RequestError):
            traces.read(tmp_path / "hand.json")
    with pytest.raises(RequestError, match="No trace matches"):
        traces.find("nothing*", [tmp_path])


def test_pauses_are_cut_and_seconds_count_without_them(tmp_path: Path) -> None:
    keys = [*events("ab", 0), *events("cd", 2, start_ms=60_200)]
    trace = traces.read(write(tmp_path, "", keys))
    assert [step.at_s for step in traces.timed(trace, 0, 3).steps] == pytest.approx(
        [0, 0.2, 3.2, 3.4]
    )
    assert len(traces.timed(trace, 3.3, 3).steps) == 3
    assert traces.timed(trace, 0, 0).steps[-1].at_s == pytest.approx(60.4)


def test_a_move_that_moves_nothing_is_no_step(tmp_path: Path) -> None:
    keys = [event(0, "", "()", "edit"), event(1, "", "", "move"), event(0, "", "", "move")]
    assert [step.cursor for step in traces.read(write(tmp_path, "", keys)).steps] == [1, 0]


def test_what_comes_next_follows_typos_that_are_mended_and_ends_at_a_jump(tmp_path: Path) -> None:
    keys = events("ax", 0)
    keys += [event(1, "x", "", "fix", t_ms=500), event(1, "", "b", "type", t_ms=600)]
    keys += [event(3, "", "!", "paste-like", t_ms=700), event(0, "", "", "move", t_ms=800)]
    trace = traces.read(write(tmp_path, "\n\n", keys))
    following = list(traces.ahead(trace.steps, 0, "\n\n"))
    assert [f.typed for f in following] == ["x", "", "b", "b\n!"]
    assert [f.step for f in following] == [1, 2, 3, 4]


def test_a_closer_that_is_typed_over_is_part_of_what_was_typed(tmp_path: Path) -> None:
    keys = [event(1, "", "()", "autoclose", cursor=2), event(2, "", "x", "type", t_ms=1)]
    keys += [event(3, ")", ")", "overtype", t_ms=2)]
    trace = traces.read(write(tmp_path, "f", keys))
    assert [(f.typed, f.after) for f in traces.ahead(trace.steps, 0, ")")] == [
        ("x", ")"),
        ("x)", ""),
    ]


def test_a_desk_goes_through_a_trace_without_changing_earlier_moments(tmp_path: Path) -> None:
    trace = typed(tmp_path, "a = ", "12")
    here = traces.desk(trace)
    first = here.apply(trace.steps[0])
    second = here.apply(trace.steps[1])
    assert (first.text, first.version) == ("a = 1", 2)
    assert (second.text, second.version, second.cursor) == ("a = 12", 3, 6)


@pytest.mark.parametrize("folder", ["traces_dev", "traces_real_dev"])
def test_every_trace_we_have_can_be_read(folder: str) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip("the shared data are not here")
    for path in traces.find("*.json", [DATA / folder]):
        trace = traces.read(path)
        assert trace.keys > 100 and trace.recorded == ("real" in folder)
