"""The arithmetic of the figures, on logs that are made by hand."""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
import replay_metrics as metrics
from hand_made import events, typed, write
from replay_account import Account, merged
from replay_screen import Screen, Suggestion
from replay_traces import Trace, desk, read

from completiond.protocol import messages as m

Shows = dict[int, tuple[float, Suggestion]]


def screen_of(trace: Trace, shows: Shows, key_s: float = 1.0, keeps: bool = True) -> Screen:
    """One key every `key_s`; `shows[n]` comes so many seconds behind key n."""
    screen, here = Screen(keeps), desk(trace)
    for number, step in enumerate(trace.steps):
        old, new = here.moments[step.document], here.apply(step)
        screen.step(number, step, old, new, number * key_s)
        if number in shows:
            after, suggestion = shows[number]
            screen.show(suggestion, number * key_s + after)
    screen.end(len(trace.steps) * key_s)
    return screen


def judged(trace: Trace, shows: Shows, key_s: float = 1.0) -> list[metrics.Judged]:
    return metrics.judge(trace, screen_of(trace, shows, key_s).keys)


def test_silence_is_infinite_and_typing_through_costs_nothing(tmp_path: Path) -> None:
    keys = judged(typed(tmp_path, "", "abcz"), {0: (0.25, Suggestion("bcd\n"))})
    assert [key.latency_ms for key in keys] == [250.0, 0.0, 0.0, math.inf]
    assert [key.free for key in keys] == [False, True, True, False]
    found = metrics.figures([keys])
    assert (found["keys"], found["before_next_key"]) == (4, 0.75)
    assert (found["p50_ms"], found["p95_ms"], found["no_pass_share"]) == (0.0, None, 0.5)


def test_an_answer_that_comes_with_the_next_key_came_too_late(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "ab")
    keys = judged(trace, {0: (1.0, Suggestion("b"))})
    assert keys[0].latency_ms == math.inf


def test_a_first_line_is_right_if_the_person_types_all_of_it(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "xabc\nd")
    right = judged(trace, {0: (0.1, Suggestion("abc\nwrong"))})[0]
    wrong = judged(trace, {0: (0.1, Suggestion("abx\n"))})[0]
    longer = judged(trace, {0: (0.1, Suggestion("abc + 1\n"))})[0]
    assert (right.right, right.right_chars) == (True, 4)
    assert (wrong.right, wrong.right_chars) == (False, 2)
    assert (longer.right, longer.right_chars) == (False, 3)


def test_an_accept_spares_the_keys_of_the_line_and_needs_150_ms_on_the_screen(
    tmp_path: Path,
) -> None:
    trace = typed(tmp_path, "", "xabc\nd")
    assert metrics.saved(judged(trace, {0: (0.80, Suggestion("abc"))})) == 3
    assert metrics.saved(judged(trace, {0: (0.90, Suggestion("abc"))})) == 2
    assert metrics.figures([judged(trace, {0: (0.8, Suggestion("abc"))})])["saved_share"] == 0.5


def test_what_is_typed_through_has_been_seen_since_it_first_came(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "xabcdef")
    keys = judged(trace, {0: (0.05, Suggestion("abcdef"))}, key_s=0.1)
    # Seen since 50 ms, so taken before the third key (300 ms), which spares the last three.
    assert [bool(key.taken) for key in keys] == [False, True, True, True, True, True, False]
    assert metrics.saved(keys) == 5


def test_a_line_may_be_taken_behind_a_step_that_is_no_key(tmp_path: Path) -> None:
    keys = events("x", 0)
    keys += [{"t_ms": 300, "offset": 0, "delete": "x", "insert": "", "kind": "fix"}]
    keys += events("abc", 0, start_ms=600)
    trace = read(write(tmp_path, "", keys))
    found = judged(trace, {1: (0.1, Suggestion("abc"))})
    assert metrics.saved(found) == 3 and metrics.figures([found])["keys"] == 4


def test_a_key_is_spared_once(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "abcdef")
    shows = {0: (0.1, Suggestion("bcd")), 1: (0.1, Suggestion("cdef"))}
    assert metrics.saved(metrics.judge(trace, screen_of(trace, shows, keeps=False).keys)) == 3


def test_the_upper_bound_remembers_every_answer_however_late_it_is_needed(tmp_path: Path) -> None:
    trace = typed(tmp_path, "", "abc")
    screen = screen_of(trace, {0: (0.5, Suggestion("bcd"))}, keeps=False)
    keys = metrics.judge(trace, screen.keys)
    assert [key.bound for key in keys] == [False, True, True]
    assert metrics.figures([keys])["no_pass_bound"] == pytest.approx(2 / 3, abs=1e-3)


@pytest.mark.parametrize(
    "values, at, expected",
    [
        ([1, 2, 3, 4], 0.5, 2),
        ([1], 0.99, 1),
        ([], 0.5, None),
        ([1, math.inf], 0.5, 1),
        ([1, math.inf], 0.9, None),
        (range(1, 101), 0.95, 95),
        (range(1, 101), 1.0, 100),
    ],
)
def test_quantiles_are_values_that_were_seen(
    values: Iterable[float], at: float, expected: float | None
) -> None:
    assert metrics.quantile(list(values), at) == expected


# -- the wire -------------------------------------------------------------------------------------


def account(*messages: m.Message) -> Account:
    made = Account()
    for message in messages:
        made.take(message)
    return made


def reply(ident: int, passes: int, prefilled: int) -> m.Completion:
    tokens = {"passes": passes, "prefilled": prefilled}
    return m.Completion(ident, 1, 0, [], "ok", tokens=tokens)


def test_prefill_counts_every_run_once_cancelled_ones_too() -> None:
    found = metrics.wire_figures(
        account(
            reply(1, 4, 1),
            reply(2, 0, 0),  # memory answered
            m.Cancel(3, "superseded"),
            m.Cancelled(3, "running"),  # taken over by request 4
            reply(4, 6, 2),
            m.Cancel(5, "abandoned"),
            m.Cancelled(5, "running", 3, 40.0, 2, 300),
            m.Cancel(6, "abandoned"),
            m.Cancelled(6, "queued"),
        ),
        Counter(passes=12),
    )
    assert found["requests_with_a_pass"] == 3
    assert (found["prefill_p50"], found["prefill_mean"]) == (2, 101.0)
    assert found["passes_per_request"] == 4.0
    assert (found["tokens_after_cancel"], found["cancel_p99_ms"]) == (3.0, 40.0)
    assert (found["cancelled_queued"], found["tokens_of_queued"]) == (1, 0)
    assert (found["superseded_running"], found["superseded_used_share"]) == (1, 1.0)


def test_a_superseded_run_that_the_next_key_contradicts_was_not_used() -> None:
    made = account(
        m.Cancel(1, "superseded"),
        m.Cancel(1, "abandoned"),
        m.Cancelled(1, "running", 1, 20.0, 2, 9),
        m.Cancelled(1, "finished"),  # the second cancel came too late
    )
    assert made.superseded() == (1, 0)
    assert [ack.free_ms for ack in made.freed()] == [20.0]


def test_a_daemon_that_counts_the_uses_of_superseded_runs_is_believed() -> None:
    counts = {"daemon superseded runs": 4, "daemon joined": 1, "daemon superseded hits": 2}
    found = metrics.wire_figures(account(), Counter(counts))
    assert (found["superseded_running"], found["superseded_used_share"]) == (4, 0.75)


def test_accounts_of_clients_that_count_alike_do_not_mix() -> None:
    both = merged([account(reply(1, 1, 5)), account(reply(1, 2, 7))])
    assert [run.prefilled for run in both.runs()] == [5, 7]


def test_the_table_tells_infinity_from_nothing() -> None:
    drawn = metrics.table({"a": {"p95_ms": None, "saved_share": 0.25}, "b": {"p95_ms": 3.0}})
    assert "inf" in drawn and "25.0%" in drawn and drawn.splitlines()[0].split() == ["a", "b"]
