"""Laws of times: stages add up whatever the clocks say, and what cannot be is not believed."""

import random

import pytest

from completiond.record.spread import bucket, edges, exact, middle, percentiles
from completiond.record.stages import Clocks, Course, believed

MS = 1_000_000


def test_stages_add_up_whatever_was_noted() -> None:
    draw = random.Random(3)
    for _ in range(3000):
        arrived = draw.randrange(10**12)
        replied = arrived + draw.randrange(10**9)
        around = [draw.choice((0, draw.randrange(arrived - MS, replied + MS))) for _ in range(3)]
        told = [draw.choice((None, draw.randrange(2 * 10**9))) for _ in range(3)]
        course = Course(arrived, replied, around[0], draw.randrange(MS), *around[1:], *told)
        stages = course.stages()
        assert all(us >= 0 for us in stages.values()), course
        assert abs(sum(stages.values()) - (replied - arrived) // 1000) <= 1, course


def test_a_new_run_has_all_its_stages() -> None:
    course = Course(
        arrived=0,
        replied=100 * MS,
        answered=99 * MS,
        prompt=2 * MS,
        opened=5 * MS,
        first=40 * MS,
        queued=10 * MS,
        prefilled=20 * MS,
        decoded=50 * MS,
    )
    assert course.stages() == {
        "lookup": 3000,
        "prompt": 2000,
        "queue": 10_000,
        "prefill": 20_000,
        "decode": 50_000,
        "door": 14_000,
        "finish": 1000,
    }


def test_of_a_run_that_was_on_its_way_only_what_was_waited_for_counts() -> None:
    course = Course(50 * MS, 80 * MS, 79 * MS, 0, opened=0 + 1, first=60 * MS, queued=0)
    stages = course.stages()
    assert (stages["lookup"], stages["prompt"], stages["queue"]) == (0, 0, 0)
    assert (stages["prefill"], stages["decode"], stages["finish"]) == (10_000, 19_000, 1000)


def moments(sent: int, answered: int) -> dict[str, int]:
    return {"received": sent - MS, "sent": sent, "answered": answered, "replied": answered + MS}


def test_one_clock_is_seen_and_the_ways_are_exact() -> None:
    join = Clocks().join(moments(10 * MS, 30 * MS), 12 * MS, 27 * MS)
    assert join.clock is None
    assert join.stages == {"before": 1000, "there": 2000, "back": 3000, "after": 1000}


def test_another_machines_clock_is_learnt_from_the_quickest_request() -> None:
    clocks, ahead = Clocks(), 3600 * 10**9
    clocks.join(moments(10 * MS, 30 * MS), ahead + 11 * MS, ahead + 29 * MS)
    slow = clocks.join(moments(100 * MS, 140 * MS), ahead + 101 * MS, ahead + 120 * MS)
    assert slow.clock == 1000, "the quickest spent 2 ms on the way: half of it may be wrong"
    assert slow.stages["there"] == 1000 and slow.stages["back"] == 20_000
    total = sum(slow.stages.values()) + 19_000
    assert total == 42_000


@pytest.mark.parametrize("behind", [5 * 86_400 * 10**9, 9 * 10**18, -(10**9)])
def test_of_a_cancelled_key_no_absurd_way_is_believed(behind: int) -> None:
    at = {"received": 10 * MS - behind, "sent": 11 * MS - behind}
    assert Clocks().join(at, 13 * MS, 20 * MS).stages == {"before": 1000, "there": 0}


def test_absurd_moments_are_not_believed() -> None:
    good = moments(10 * MS, 30 * MS)
    assert believed(good | {"other": 5}) == good
    for wrong in (
        good | {"sent": 31 * MS},
        good | {"replied": -1},
        good | {"replied": good["received"] + 601 * 10**9},
        {"sent": 1, "answered": 2},
        {},
    ):
        assert believed(wrong) == {}


def test_percentiles_of_buckets_are_within_five_percent() -> None:
    draw = random.Random(1)
    times = [int(draw.lognormvariate(9, 1.5)) + 2 for _ in range(2000)]
    counts: dict[int, int] = {}
    for us in times:
        counts[bucket(us)] = counts.get(bucket(us), 0) + 1
    shares = (0.5, 0.9, 0.99)
    for guess, true in zip(percentiles(counts, shares), exact(times, shares), strict=True):
        assert abs(guess - true) <= 0.05 * true + 1
    assert percentiles({}, shares) == [0, 0, 0] == exact([], shares)
    for us in (0, 1, 2, 3, 1000, 10**12, 10**30):
        low, high = edges(bucket(us))
        assert us >= low and (us < high or us > middle(bucket(us)))
