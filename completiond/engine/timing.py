"""What passes cost on this machine: timed by their rows, remembered, looked at again at each start.

Knows a runner and a cache to time on; knows no jobs and no drafts.
"""

import os
import time
from collections.abc import Sequence
from itertools import accumulate

import torch

from completiond.drafters.costs import Costs
from completiond.drafters.tree import forks
from completiond.engine.threads import Threads
from completiond.model.attention import Segment
from completiond.model.kv_cache import KVCache
from completiond.model.measured import Measured
from completiond.model.quantize import one_thread
from completiond.model.runner import Runner

TRIAL = "a trial at start"
"""Name of the slot in which passes are timed."""
TRIAL_ROWS = (1, 2, 4, 8, 16, 32)
"""Widths of the passes that are timed, once on a processor: the planner's first cost table."""
KNOWN_ROWS = (1, 32)
"""Those that are timed at each start, with one of the others where they are remembered."""
CROOKED = 1.3
"""A width may lie so far over the line between the first and the last, which are timed at every
start: beyond, something else used the machine, and a cost that is taken too high is never tried."""
DEAREST_FORK = 0.1
"""The same of a branch, as a part of a pass of one row."""
FORKED = [-1, 0, 1, 2, 1, 1, 0, 0]
"""Eight rows as a tree of five branches, timed against a chain: what a branch costs."""


def timed(runner: Runner, cache: KVCache, name: str, most: int) -> tuple[Costs, Threads | None]:
    """What passes of the model `name` cost with `most` threads, and who chooses how many a pass
    gets; on a GPU nobody does."""
    if runner.kv.device.type != "cpu":
        return Costs(time_passes(runner, cache)), None
    known = Measured("row_costs")
    thing = f"{name} {runner.decoder.kernel} {most} of {len(os.sched_getaffinity(0))}"
    held = known.get(thing)
    fork_ms = held.pop("fork", 0.0)
    best = {int(rows): ms for rows, ms in held.items() if rows.isdecimal() and ms > 0}
    new = set(best) != set(TRIAL_ROWS)
    if most > 1 and not best.keys() >= set(KNOWN_ROWS):
        # More threads are never slower on a quiet machine, so this one is not quiet if they are.
        with one_thread():
            best = time_passes(runner, cache, (*KNOWN_ROWS, 1))
    order = 2 * TRIAL_ROWS if new else (*KNOWN_ROWS, _dearest(best), 1)
    trial = time_passes(runner, cache, order)
    if new:
        fork_ms = time_forks(runner, cache)
    # The best that was ever seen is what a quiet machine does.
    best |= {rows: min(ms, best.get(rows, ms)) for rows, ms in trial.items()}
    line = _line(best)
    best = rising({rows: min(ms, CROOKED * line.ms(rows)) for rows, ms in best.items()})
    fork_ms = min(fork_ms, DEAREST_FORK * best[1])
    known.put(thing, {str(r): round(ms, 2) for r, ms in best.items()} | {"fork": fork_ms})
    costs = Costs(best, fork_ms)
    for rows in KNOWN_ROWS:
        costs.observe(rows, trial[rows])
    return costs, Threads(most, torch.set_num_threads, Costs(best).ms)


def _line(best: dict[int, float]) -> Costs:
    return Costs({rows: best[rows] for rows in KNOWN_ROWS})


def rising(best: dict[int, float]) -> dict[int, float]:
    """A narrow pass costs no more than a wider one: where it did, something else ran beside it."""
    widest_first = sorted(best, reverse=True)
    least = accumulate((best[rows] for rows in widest_first), min)
    return dict(sorted(zip(widest_first, least, strict=True)))


def _dearest(best: dict[int, float]) -> int:
    """The width that is most likely to have been timed on a busy machine: it gets another try."""
    line = _line(best)
    return max(set(best) - set(KNOWN_ROWS), key=lambda rows: best[rows] / line.ms(rows))


def time_passes(
    runner: Runner, cache: KVCache, widths: Sequence[int] = 2 * TRIAL_ROWS
) -> dict[int, float]:
    """Milliseconds of a pass by rows, after one that warms up. On a GPU a shape's first pass is
    recorded, so that a width must come twice. Each row has its logits, as a draft's rows do: they
    are a seventh of a wide pass of a small model."""
    slot = cache.acquire(TRIAL, max(widths))
    runner.forward([Segment(slot, [0] * max(widths))])
    best: dict[int, float] = {}
    for rows in widths:
        took = _took_ms(runner, Segment(slot, [0] * rows, None, range(rows)))
        best[rows] = min(took, best.get(rows, took))
    slot.release()
    cache.forget(TRIAL)
    return best


def time_forks(runner: Runner, cache: KVCache) -> float:
    """Milliseconds that a branch beyond the first adds to a pass: the least of some pairs."""
    rows = len(FORKED)
    slot = cache.acquire(TRIAL, rows)
    chain, tree = (Segment(slot, [0] * rows, parents, range(rows)) for parents in (None, FORKED))
    pairs = [(_took_ms(runner, tree), _took_ms(runner, chain)) for _ in range(3)]
    slot.release()
    cache.forget(TRIAL)
    forked, plain = min(tree for tree, _ in pairs), min(chain for _, chain in pairs)
    return float(round(max(0.0, forked - plain) / forks(FORKED), 3))


def _took_ms(runner: Runner, segment: Segment) -> float:
    started = time.perf_counter()
    runner.forward([segment])
    runner.finish()
    return (time.perf_counter() - started) * 1000
