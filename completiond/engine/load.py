"""A configuration and a model on disk to an engine that is ready: weights, slots, drafters, costs.

The composition root of what computes. Knows no jobs and no text.
"""

import logging
import os
import time

import torch

from completiond.config import Config
from completiond.drafters.base import Drafter
from completiond.drafters.lookup import Lookup
from completiond.drafters.recycled import Recycled
from completiond.drafters.small_model import SmallModel
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
TRIAL_ROWS = (1, 32)
"""Widths of the passes that are timed at start, for the first guess of a pass's rows."""
SHORT_MS = 55.0
"""A pass that nobody notices who waits for a cancel."""
LARGE_PASS = 2.5
"""Passes of one token that a longest pass may take: below it, a large model's prefill crawls."""
CPU_WORKING, GPU_WORKING = 256 << 20, 1 << 30
"""Bytes for what passes compute on the way; a twentieth of what is free, where that is more."""
GRAPH_BYTES = 24 << 20
"""A recorded pass: its nodes and its logits; what it computes on the way, all of them share."""


def load_core(config: Config, files: ModelFiles, draft: ModelFiles | None = None) -> ModelCore:
    """Load the target and, where one is given and fits, the draft.

    Raises ModelError or DeviceError.
    """
    torch.set_num_threads(thread_count(config.engine.threads))
    device = choose_device(config.engine.device)
    small = draft if config.engine.speculation in ("auto", "small_model") else None
    fitted = fit(needs(config, files, small, device))
    for note in fitted.notes:
        log.warning("%s", note)
    runner = _runner(config, files, device)
    cache = runner.cache(fitted.kv)
    drafters = _drafters(config, files, small if fitted.draft else None, device, fitted.kv)
    return_free_memory()
    trial, threads = _timed(config, files.name, runner, cache)
    target_ms = config.engine.pass_ms or max(SHORT_MS, LARGE_PASS * trial[1])
    return ModelCore(
        Decoding(runner, drafters, config.engine.draft_tokens),
        cache,
        PassSize(target_ms, first_guess(trial, target_ms)),
        threads=threads,
        context=min(config.model.context, files.context),
        draft_rows=config.engine.draft_tokens + 1,
        facts={
            "model": files.name,
            "draft": draft.name if draft and fitted.draft else "",
            "device": str(device),
            "kernel": runner.decoder.kernel,
            "threads": thread_count(config.engine.threads),
            "drafters": [d.name for d in drafters],
            "pass_ms": {str(rows): round(ms, 1) for rows, ms in trial.items()},
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


def _drafters(
    config: Config, files: ModelFiles, draft: ModelFiles | None, device: torch.device, kv: int
) -> list[Drafter]:
    found: list[Drafter] = []
    if config.engine.speculation in ("auto", "lookup"):
        found += [Recycled(), Lookup()]
    if draft is not None:
        vocabulary.same_vocabulary(
            files.directory / "tokenizer.json", draft.directory / "tokenizer.json"
        )
        found.append(SmallModel(_runner(config, draft, device), kv // DRAFT_SHARE))
    return found


def _timed(
    config: Config, name: str, runner: Runner, cache: KVCache
) -> tuple[dict[int, float], Threads | None]:
    """Milliseconds of passes by rows, and who chooses the threads; on a GPU nobody does."""
    if runner.kv.device.type != "cpu":
        return time_passes(runner, cache), None
    most = thread_count(config.engine.threads)
    known = Measured("passes")
    thing = f"{name} {runner.decoder.kernel} {most} of {len(os.sched_getaffinity(0))}"
    best = {int(rows): ms for rows, ms in known.get(thing).items() if rows.isdigit()}
    if set(best) != set(TRIAL_ROWS) and most > 1:
        # More threads are never slower on a quiet machine, so this one is not quiet if they are.
        with one_thread():
            best = time_passes(runner, cache)
    trial = time_passes(runner, cache)
    # The best that was ever seen is what a quiet machine does.
    best = {rows: min(ms, best.get(rows, ms)) for rows, ms in trial.items()}
    known.put(thing, {str(rows): round(ms, 2) for rows, ms in best.items()})
    return trial, Threads(most, torch.set_num_threads, lambda rows: on_line(best, rows))


def thread_count(wanted: int) -> int:
    """One thread per core, or as many as asked for, but no more than there are cores."""
    cores = len(os.sched_getaffinity(0))
    return min(wanted, cores) if wanted else cores


def time_passes(runner: Runner, cache: KVCache) -> dict[int, float]:
    """Milliseconds of a pass by rows, after one that warms up."""
    slot = cache.acquire(TRIAL, max(TRIAL_ROWS))
    runner.forward([Segment(slot, [0] * max(TRIAL_ROWS))])
    best: dict[int, float] = {}
    for rows in (*TRIAL_ROWS, min(TRIAL_ROWS)):
        started = time.perf_counter()
        runner.forward([Segment(slot, [0] * rows, None, (rows - 1,))])
        runner.finish()
        took = (time.perf_counter() - started) * 1000
        best[rows] = min(took, best.get(rows, took))
    slot.release()
    cache.forget(TRIAL)
    return best


def on_line(trial: dict[int, float], rows: int) -> float:
    """Milliseconds for `rows`, on the line through the two widths that were timed."""
    (few, low), (many, high) = sorted(trial.items())
    return low + max(0.0, high - low) * (rows - few) / (many - few)


def first_guess(trial: dict[int, float], target_ms: float) -> int:
    """Rows that should fit `target_ms`, on the line through the two widths that were timed."""
    (few, low), (many, high) = sorted(trial.items())
    slope = max(1e-3, (high - low) / (many - few))
    return int(few + (target_ms - low) / slope)


def _runner(config: Config, files: ModelFiles, device: torch.device) -> Runner:
    return load_runner(
        files.directory,
        files.vocab_size,
        device,
        kernel=config.engine.kernel,
        graphs=config.engine.graphs,
    )
