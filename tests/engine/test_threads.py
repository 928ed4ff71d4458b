"""All threads on a quiet machine, one beside others, and back again."""

from completiond.engine.threads import FIRST_PAUSE_S, LONGEST_PAUSE_S, PATIENCE, Threads
from completiond.engine.timing import rising


class Machine:
    """A clock, and the counts that were asked for."""

    def __init__(self, most: int = 2) -> None:
        self.now, self.used = 0.0, []
        self.threads = Threads(most, self.used.append, lambda rows: 10.0 + rows, lambda: self.now)

    def passes(self, count: int, took_ms: float, rows: int = 1, each_s: float = 0.02) -> None:
        for _ in range(count):
            self.now += each_s
            self.threads.observe(rows, took_ms)


def test_passes_as_expected_keep_all_threads() -> None:
    machine = Machine()
    machine.passes(1000, 25.0)
    machine.passes(10, 100.0, rows=32)  # wider passes may take longer
    assert machine.used == [2]


def test_one_slow_pass_is_chance_and_some_in_a_row_are_not() -> None:
    machine = Machine()
    machine.passes(PATIENCE - 1, 500.0)
    machine.passes(1, 12.0)
    assert machine.used == [2]
    machine.passes(PATIENCE, 500.0)
    assert machine.used == [2, 1]


def test_all_threads_are_tried_again_after_a_pause_that_grows_while_it_fails() -> None:
    machine, tries = Machine(), []
    machine.passes(PATIENCE, 500.0)
    for _ in range(12):
        began = machine.now
        while machine.threads.count == 1:
            machine.passes(1, 17.0)
        tries.append(machine.now - began)
        machine.passes(PATIENCE, 500.0)
    assert FIRST_PAUSE_S < tries[0] < 2 * FIRST_PAUSE_S < tries[1]
    assert all(later > earlier - 0.1 for earlier, later in zip(tries, tries[1:], strict=False))
    assert tries[-1] < LONGEST_PAUSE_S + 1


def test_a_new_disturbance_after_a_calm_time_starts_with_the_short_pause() -> None:
    machine = Machine()
    for calm_s in (1.0, LONGEST_PAUSE_S + 1):
        machine.passes(PATIENCE, 500.0)
        while machine.threads.count == 1:
            machine.passes(1, 17.0)
        machine.passes(1, 12.0, each_s=calm_s)
    machine.passes(PATIENCE, 500.0)
    began = machine.now
    while machine.threads.count == 1:
        machine.passes(1, 17.0)
    assert machine.now - began < 2 * FIRST_PAUSE_S


def test_a_single_core_has_nothing_to_choose() -> None:
    machine = Machine(most=1)
    machine.passes(100, 5000.0)
    assert machine.used == [1]


def test_a_narrow_pass_costs_no_more_than_a_wider_one_whatever_ran_beside_it() -> None:
    assert rising({1: 40, 2: 60, 4: 83, 8: 128, 16: 60, 32: 317}) == {
        1: 40,
        2: 60,
        4: 60,
        8: 60,
        16: 60,
        32: 317,
    }
