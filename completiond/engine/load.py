"""A configuration and a model on disk to an engine that is ready: weights, slots, drafters, costs.

The composition root of what computes. Knows no jobs and no text.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence

import torch

from completiond.config import Config
from completiond.drafters.costs import Costs
from completiond.drafters.small_model import SmallModel
from completiond.drafters.suffix import Suffix
from completiond.drafters.tree import forks
from completiond.engine import speculation
from completiond.engine.decode import Decoding
from completiond.engine.fit import DRAFT_SHARE, Needs, fit
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.engine.threads import Threads
from completiond.footprint import free_bytes, return_free_memory
from completiond.model import vocabulary
from completiond.model.attention import Segment
from completiond.model.checkpoint import ModelFiles
from completiond.model.kv_cache import KVCache
from completiond.model.loader import choose_device, choose_kernel, explained, load_runner
from completiond.model.measured import Measured
from completiond.model.quantize import Kernel, one_thread
from completiond.model.runner import Runner
from completiond.model.size import Size, size_of

log = logging.getLogger(__name__)

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
SHORT_MS = 55.0
"""A pass that nobody notices who waits for a cancel."""
LARGE_PASS = 2.5
"""Passes of one token that a longest pass may take: below it, a large model's prefill crawls."""
CPU_WORKING, GPU_WORKING = 256 << 20, 1 << 30
"""Bytes for what passes compute on the way; a twentieth of what is free, where that is more."""
GRAPH_BYTES = 24 << 20
"""A recorded pass: its nodes and its logits; what it computes on the way, all of them share."""


def load_core(
    config: Config,
    files: ModelFiles,
    draft: ModelFiles | None = None,
    suffix: Callable[[], Suffix] | None = None,
) -> ModelCore:
    """Load the target and, where one is given and fits, the draft. `suffix` gives the drafter that
    is fed with the client's texts, once the weights are there.

    Raises ModelError or DeviceError.
    """
    torch.set_num_threads(thread_count(config.engine.threads))
    device = choose_device(config.engine.device)
    names = speculation.wanted(config.engine.speculation)
    small = draft if "small_model" in names else None
    fitted = fit(needs(config, files, small, device))
    for note in fitted.notes:
        log.warning("%s", note)
    runner = _runner(config, files, device)
    cache = runner.cache(fitted.kv)
    draws = _small(config, files, small, device, fitted.kv) if small and fitted.draft else None
    corpus = suffix() if suffix and "suffix" in names else None
    drafters = speculation.drafters(names, runner, cache, suffix=corpus, small=draws)
    return_free_memory()
    costs, threads = _timed(config, files.name, runner, cache)
    target_ms = config.engine.pass_ms or max(SHORT_MS, LARGE_PASS * costs.ms(1))
    tokens = config.engine.draft_tokens
    policy = speculation.policy_of(config.engine.policy, costs, tokens)
    return ModelCore(
        Decoding(runner, drafters, tokens, policy),
        cache,
        PassSize(target_ms, costs.rows_within(target_ms)),
        costs=costs,
        threads=threads,
        context=min(config.model.context, files.context),
        draft_rows=tokens + 1,
        facts={
            "model": files.name,
            "draft": draft.name if draft and fitted.draft else "",
            "device": str(device),
            "kernel": runner.decoder.kernel,
            "threads": thread_count(config.engine.threads),
            "drafters": [d.name for d in drafters],
            "policy": policy.name,
            "pass_ms": {str(rows): round(costs.ms(rows), 1) for rows in TRIAL_ROWS},
            "fork_ms": round(costs.fork_ms, 2),
            "notes": list(fitted.notes),
        },
    )


def needs(
    config: Config, files: ModelFiles, draft: ModelFiles | None, device: torch.device
) -> Needs:
    """What is asked of the device's memory, from the files' headers and the configuration."""
    on_cpu = device.type == "cpu"
    kernel = choose_kernel(files.directory, device, config.engine.kernel)
    free = free_bytes() if on_cpu else torch.cuda.mem_get_info(device)[0]
    return Needs(
        device=str(device),
        free=free or 1 << 62,  # unknown: as if all were there
        working=max(CPU_WORKING if on_cpu else GPU_WORKING, free // 20),
        target=_size(files, device, kernel),
        context=min(config.model.context, files.context),
        kv=config.engine.kv_mb << 20,
        graphs=0 if on_cpu else config.engine.graphs * GRAPH_BYTES,
        draft=_size(draft, device, kernel) if draft else None,
    )


def _size(files: ModelFiles, device: torch.device, kernel: Kernel) -> Size:
    with explained(files.directory, device):
        return size_of(files.directory, on_cpu=device.type == "cpu", kernel=kernel)


def _small(
    config: Config, files: ModelFiles, draft: ModelFiles, device: torch.device, kv: int
) -> SmallModel:
    vocabulary.same_vocabulary(
        files.directory / "tokenizer.json", draft.directory / "tokenizer.json"
    )
    return SmallModel(_runner(config, draft, device), kv // DRAFT_SHARE)


def _timed(
    config: Config, name: str, runner: Runner, cache: KVCache
) -> tuple[Costs, Threads | None]:
    """What passes cost, and who chooses the threads; on a GPU nobody does."""
    if runner.kv.device.type != "cpu":
        return Costs(time_passes(runner, cache)), None
    most = thread_count(config.engine.threads)
    known = Measured("pass_costs")
    thing = f"{name} {runner.decoder.kernel} {most} of {len(os.sched_getaffinity(0))}"
    held = known.get(thing)
    fork_ms = held.pop("fork", 0.0)
    best = {int(rows): ms for rows, ms in held.items() if rows.isdigit()}
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
    best = {rows: min(ms, CROOKED * line.ms(rows)) for rows, ms in best.items()}
    fork_ms = min(fork_ms, DEAREST_FORK * best[1])
    known.put(thing, {str(r): round(ms, 2) for r, ms in best.items()} | {"fork": fork_ms})
    costs = Costs(best, fork_ms)
    for rows in KNOWN_ROWS:
        costs.observe(rows, trial[rows])
    return costs, Threads(most, torch.set_num_threads, Costs(best).ms)


def _line(best: dict[int, float]) -> Costs:
    return Costs({rows: best[rows] for rows in KNOWN_ROWS})


def _dearest(best: dict[int, float]) -> int:
    """The width that is most likely to have been timed on a busy machine: it gets another try."""
    line = _line(best)
    return max(set(best) - set(KNOWN_ROWS), key=lambda rows: best[rows] / line.ms(rows))


def thread_count(wanted: int) -> int:
    """One thread per core, or as many as asked for, but no more than there are cores."""
    cores = len(os.sched_getaffinity(0))
    return min(wanted, cores) if wanted else cores


def time_passes(
    runner: Runner, cache: KVCache, widths: Sequence[int] = 2 * TRIAL_ROWS
) -> dict[int, float]:
    """Milliseconds of a pass by rows, after one that warms up. On a GPU a shape's first pass is
    recorded, so that a width must come twice."""
    slot = cache.acquire(TRIAL, max(widths))
    runner.forward([Segment(slot, [0] * max(widths))])
    best: dict[int, float] = {}
    for rows in widths:
        took = _took_ms(runner, Segment(slot, [0] * rows, None, (rows - 1,)))
        best[rows] = min(took, best.get(rows, took))
    slot.release()
    cache.forget(TRIAL)
    return best


def time_forks(runner: Runner, cache: KVCache) -> float:
    """Milliseconds that a branch beyond the first adds to a pass: the least of some pairs."""
    rows = len(FORKED)
    slot = cache.acquire(TRIAL, rows)
    chain, tree = (Segment(slot, [0] * rows, parents, (0,)) for parents in (None, FORKED))
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


def _runner(config: Config, files: ModelFiles, device: torch.device) -> Runner:
    return load_runner(
        files.directory,
        files.vocab_size,
        device,
        kernel=config.engine.kernel,
        graphs=config.engine.graphs,
    )
