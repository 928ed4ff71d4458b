"""What stays on the screen while one types, and since when it counts as seen."""

from pathlib import Path

import replay_screen as screens
from hand_made import events, typed, write
from replay_screen import Screen, Suggestion
from replay_traces import Trace, desk, read


def through(trace: Trace, screen: Screen, suggestion: Suggestion) -> list[str]:
    """Type the trace, one key a second; the suggestion comes half a second behind the first."""
    here, seen = desk(trace), []
    for number, step in enumerate(trace.steps):
        old, new = here.moments[step.document], here.apply(step)
        screen.step(number, step, old, new, float(number))
        if number == 0:
            screen.show(suggestion, 0.5)
        seen.append(screen.shown.text if screen.shown else "")
    screen.end(float(len(trace.steps)))
    return seen


def test_an_editor_keeps_what_is_typed_through_until_it_is_contradicted(tmp_path: Path) -> None:
    screen = Screen()
    seen = through(typed(tmp_path, "", "abcx"), screen, Suggestion("bcd"))
    assert seen == ["bcd", "cd", "d", ""]
    assert [show.since for key in screen.keys for show in key.shows] == [0.5] * 3
    assert [key.first().suggestion.origin for key in screen.keys if key.first()] == [
        "pass",
        "kept",
        "kept",
    ]


def test_an_editor_that_keeps_nothing_finds_it_again_as_old_as_it_was(tmp_path: Path) -> None:
    screen = Screen(keeps=False)
    assert through(typed(tmp_path, "", "ab"), screen, Suggestion("bc")) == ["bc", ""]
    screen.show(Suggestion("c", 0, "cache"), 1.2)
    (show,) = screen.keys[-1].shows
    assert (show.at, show.since) == (1.2, 0.5)


def test_a_newer_answer_does_not_replace_a_kept_one(tmp_path: Path) -> None:
    screen = Screen()
    through(typed(tmp_path, "", "ab"), screen, Suggestion("bcd"))
    screen.show(Suggestion("cxy"), 1.5)
    assert screen.shown is not None and screen.shown.text == "cd"
    assert [answer.text for answer in screen.keys[-1].answers] == ["cxy"]


def test_a_pair_that_closes_itself_and_a_jump_take_it_away(tmp_path: Path) -> None:
    pair = {"t_ms": 1, "offset": 1, "delete": "", "insert": "()", "kind": "autoclose", "cursor": 2}
    jump = {"t_ms": 1, "offset": 0, "delete": "", "insert": "", "kind": "move"}
    for event in (pair, jump):
        trace = read(write(tmp_path, "", [*events("f", 0), event]))
        assert through(trace, Screen(), Suggestion("(x)")) == ["(x)", ""]


def test_a_closer_is_typed_over_only_if_the_suggestion_replaces_it(tmp_path: Path) -> None:
    over = {"t_ms": 900, "offset": 1, "delete": ")", "insert": ")", "kind": "overtype"}
    trace = read(write(tmp_path, ")", [*events("f", 0), over]))
    assert through(trace, Screen(), Suggestion("):", 1)) == ["):", ":"]
    assert through(trace, Screen(), Suggestion("):", 0)) == ["):", ""]


def test_the_first_line_is_the_first_that_says_something() -> None:
    assert screens.first_line("a\nb") == "a"
    assert screens.first_line("\n\n  a = 1\nb") == "\n\n  a = 1"
    assert screens.first_line("a") == "a"
