"""Who goes into the next pass: newest first, nobody starves, passes stay short."""

from completiond.core import CancelToken, Prompt
from completiond.engine.job import Job, Rules
from completiond.engine.scheduler import OLDEST_EVERY, PassSize, plan
from completiond.engine.sequence import Sequence


class Pending(Sequence):
    """A sequence with a given number of pending tokens and no tensors."""

    def __init__(self, number: int, pending: int, priority: int = 0) -> None:
        job = Job(number, f"b{number}", "c", Prompt((1,)), 8, priority=priority)
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
