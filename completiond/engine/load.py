"""A configuration and a model on disk to an engine that is ready: weights, slots, drafters, costs.

The composition root of what computes. Knows no jobs and no text.
"""

import os
import time

import torch

from completiond.config import Config
from completiond.drafters.base import Drafter
from completiond.drafters.lookup import Lookup
from completiond.drafters.recycled import Recycled
from completiond.drafters.small_model import SmallModel
from completiond.engine.decode import Decoding
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.engine.threads import Threads
from completiond.footprint import keep_freed_blocks, return_free_memory
from completiond.model import vocabulary
from completiond.model.attention import Segment
from completiond.model.checkpoint import ModelFiles
from completiond.model.kv_cache import KVCache, Slot
from completiond.model.loader import choose_device, load_decoder
from completiond.model.runner import Runner

TRIAL_ROWS = (1, 32)
"""Widths of the passes that are timed at start, for the first guess of a pass's rows."""
SHORT_MS = 55.0
"""A pass that nobody notices who waits for a cancel."""
LARGE_PASS = 2.5
"""Passes of one token that a longest pass may take: below it, a large model's prefill crawls."""
DRAFT_SHARE = 4
"""The draft model's slots get this part of the KV budget."""


def load_core(config: Config, files: ModelFiles, draft: ModelFiles | None = None) -> ModelCore:
    """Load the target and, where one is given, the draft. Raises ModelError or DeviceError."""
    torch.set_num_threads(1)  # weights are packed one by one: threads would only wait for it
    device = choose_device(config.engine.device)
    runner = _runner(config, files, device)
    budget = config.engine.kv_mb << 20
    drafters: list[Drafter] = []
    if config.engine.speculation in ("auto", "lookup"):
        drafters += [Recycled(), Lookup()]
    if draft is not None and config.engine.speculation in ("auto", "small_model"):
        vocabulary.same_vocabulary(
            files.directory / "tokenizer.json", draft.directory / "tokenizer.json"
        )
        drafters.append(SmallModel(_runner(config, draft, device), budget // DRAFT_SHARE))
    return_free_memory()
    keep_freed_blocks()
    alone = time_passes(runner)  # by the one thread that packed the weights
    most = thread_count(config.engine.threads)
    torch.set_num_threads(most)
    trial = time_passes(runner) if most > 1 else alone
    # More threads are never slower on a quiet machine, so this one is not quiet if they are.
    quiet = {rows: min(ms, alone[rows]) for rows, ms in trial.items()}
    threads = Threads(most, torch.set_num_threads, lambda rows: on_line(quiet, rows))
    target_ms = config.engine.pass_ms or max(SHORT_MS, LARGE_PASS * trial[1])
    return ModelCore(
        Decoding(runner, drafters, config.engine.draft_tokens),
        KVCache(runner.kv, budget),
        PassSize(target_ms, first_guess(trial, target_ms)),
        threads=threads,
        context=min(config.model.context, files.context),
        draft_rows=config.engine.draft_tokens + 1,
        facts={
            "model": files.name,
            "draft": draft.name if draft else "",
            "device": str(device),
            "kernel": runner.decoder.kernel,
            "threads": most,
            "drafters": [d.name for d in drafters],
            "pass_ms": {str(rows): round(ms, 1) for rows, ms in trial.items()},
        },
    )


def thread_count(wanted: int) -> int:
    """One thread per core, or as many as asked for, but no more than there are cores."""
    cores = len(os.sched_getaffinity(0))
    return min(wanted, cores) if wanted else cores


def time_passes(runner: Runner) -> dict[int, float]:
    """Milliseconds of a pass by rows, the better of two after one that warms up."""
    slot = Slot(runner.kv)
    runner.forward([Segment(slot, [0] * max(TRIAL_ROWS))])
    best: dict[int, float] = {}
    for rows in TRIAL_ROWS * 2:
        started = time.perf_counter()
        runner.forward([Segment(slot, [0] * rows, None, (rows - 1,))])
        took = (time.perf_counter() - started) * 1000
        best[rows] = min(took, best.get(rows, took))
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
    decoder = load_decoder(files.directory, device, config.engine.kernel)
    return Runner(decoder, files.vocab_size)
