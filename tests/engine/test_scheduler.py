"""Who goes into the next pass: newest first, nobody starves, passes stay short."""

from collections import Counter

from completiond.core import CancelToken, Prompt
from completiond.engine.job import Job, Rules
from completiond.engine.scheduler import OLDEST_EVERY, PassSize, plan
from completiond.engine.sequence import Sequence


class Pending(Sequence):
    """A sequence with a given number of pending tokens and no tensors."""

    def __init__(
        self, number: int, pending: int, priority: int = 0, client: str = "c", hint: int = 0
    ) -> None:
        hinted = tuple(range(hint))
        job = Job(number, f"b{number}", client, Prompt((1,)), 8, hint=hinted, priority=priority)
        super().__init__(job, Rules(None, None), CancelToken())  # type: ignore[arg-type]
        self._pending = [0] * pending

    @property
    def pending(self) -> list[int]:
        return self._pending


def test_every_decoding_run_gets_a_turn_newest_first() -> None:
    runs = [Pending(i, 1, priority=i) for i in range(5)]
    turns = plan(runs, rows=32, draft_rows=8, count=1)
    assert [t.sequence.job.id for t in turns] == [4, 3, 2, 1, 0]
    assert all(t.rows >= 1 for t in turns)


def test_prefill_takes_the_rows_that_decoding_leaves() -> None:
    decoding, prefill = Pending(1, 1), Pending(2, 1000, priority=9)
    turns = {t.sequence.job.id: t.rows for t in plan([decoding, prefill], 32, 8, 1)}
    assert turns == {1: 8, 2: 24}


def test_a_pass_never_exceeds_its_rows_unless_more_runs_decode() -> None:
    runs = [Pending(i, 1) for i in range(3)] + [Pending(9, 500), Pending(10, 500)]
    for rows in range(8, 64):
        assert sum(t.rows for t in plan(runs, rows, 8, 1)) <= rows


def test_the_newest_prefill_goes_first_and_the_oldest_is_not_starved() -> None:
    old, new = Pending(1, 500, priority=1), Pending(2, 500, priority=2)
    old.waited = 3
    first = [plan([old, new], 16, 8, n)[0].sequence.job.id for n in range(1, OLDEST_EVERY)]
    assert set(first) == {2}
    assert plan([old, new], 16, 8, OLDEST_EVERY)[0].sequence.job.id == 1


def test_pass_size_shrinks_when_passes_are_slow_and_grows_when_they_are_quick() -> None:
    size = PassSize(50, 32)
    size.observe(32, 80)
    assert size.rows == 27
    for _ in range(50):
        size.observe(size.rows, 10)
    assert size.rows == 512
    for _ in range(100):
        size.observe(size.rows, 500)
    assert size.rows == 8


def test_a_small_quick_pass_says_nothing_about_large_ones() -> None:
    size = PassSize(50, 64)
    size.observe(1, 20)
    assert size.rows == 64


def rows_by_client(runs: list[Pending], rows: int, passes: int) -> Counter[str]:
    """What each client gets in so many passes, as the core counts them."""
    served: dict[str, int] = {}
    total: Counter[str] = Counter()
    for count in range(passes):
        for run in runs:
            run.waited += 1
        for sequence, taken in plan(runs, rows, 8, count, served):
            total[sequence.job.client] += taken
            served[sequence.job.client] = count
            sequence.waited = 0
    return total


def test_a_client_with_many_buffers_gets_the_prefill_rows_of_one_client() -> None:
    flood = [Pending(i, 500, client="flood") for i in range(20)]
    others = [Pending(100 + i, 500, client=f"typist {i}") for i in range(3)]
    for runs in ([*flood, *others], [*others, *flood]):  # whoever came last
        total = rows_by_client(runs, 32, 40)
        assert set(total.values()) == {32 * 40 // 4}


def test_a_client_that_comes_back_is_served_before_those_that_were_served_since() -> None:
    runs = [Pending(1, 500, client="a"), Pending(2, 500, client="b")]
    assert plan(runs, 16, 8, 1, {"a": 3, "b": 7})[0].sequence is runs[0]
    assert plan(runs, 16, 8, 1, {"a": 7})[0].sequence is runs[1]


def test_a_client_with_many_decoding_runs_shares_the_drafts_of_one_client() -> None:
    flood = [Pending(i, 1, client="flood") for i in range(20)]
    turns = {t.sequence.job.id: t.rows for t in plan([*flood, Pending(99, 1)], 64, 8, 1)}
    assert turns[99] == 4
    assert sum(turns.values()) == 4 + 20


def test_no_client_is_left_out_when_more_runs_decode_than_a_pass_has_rows() -> None:
    flood = [Pending(i, 1, client="flood") for i in range(40)]
    old = Pending(99, 1)
    old.arrived = 0.0
    assert old in [t.sequence for t in plan([*flood, old], 16, 8, 1)]


def test_of_a_clients_own_prompts_the_oldest_is_not_starved() -> None:
    runs = [Pending(i, 500) for i in range(6)]
    seen = set()
    for count in range(1, 1 + 6 * OLDEST_EVERY):
        for run in runs:
            run.waited += 1
        first = plan(runs, 16, 8, count)[0].sequence
        first.waited = 0
        seen.add(first.job.id)
    assert seen == set(range(6))


def test_half_of_a_pass_is_left_to_a_run_that_begins() -> None:
    turns = {t.sequence.job.id: t.rows for t in plan([Pending(1, 1), Pending(2, 90)], 8, 8, 1)}
    assert turns == {1: 4, 2: 4}


def test_a_hint_goes_into_the_pass_that_begins_as_far_as_there_are_rows() -> None:
    hinted = Pending(1, 1, hint=40)
    assert plan([hinted], 64, 8, 1)[0].rows == 41
    assert plan([hinted], 16, 8, 1)[0].rows == 16
    hinted.first_token = 1.0
    assert plan([hinted], 64, 8, 1)[0].rows == 8


def test_runs_ahead_get_a_turn_only_when_nobody_asked_for_another() -> None:
    ahead = [Pending(i, 50, priority=-1) for i in range(3)]
    real = Pending(9, 1)
    assert [t.sequence for t in plan([*ahead, real], 64, 8, 1)] == [real]
    assert {t.sequence.job.id for t in plan(ahead, 200, 8, 1)} == {0, 1, 2}


def test_a_run_that_begins_gets_half_of_a_pass_however_many_decode() -> None:
    flood = [Pending(i, 1, client="flood") for i in range(60)]
    begins = Pending(99, 500)
    turns = {t.sequence.job.id: t.rows for t in plan([*flood, begins], 32, 8, 1)}
    assert turns[99] == 16 and sum(turns.values()) == 32


def test_decoding_runs_that_a_pass_has_no_rows_for_take_turns() -> None:
    runs, seen = [Pending(i, 1) for i in range(20)], set()
    for count in range(1, 12 * OLDEST_EVERY):
        for run in runs:
            run.waited += 1
        for turn in plan([*runs, Pending(99, 500)], 16, 8, count):
            turn.sequence.waited = 0
            seen.add(turn.sequence.job.id)
    assert seen == {*range(20), 99}
