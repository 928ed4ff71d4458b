"""A configuration and a model on disk to an engine that is ready: weights, slots, drafters, costs.

The composition root of what computes. Knows no jobs and no text.
"""

import logging
import os
from collections.abc import Callable

import torch

from completiond.config import Config
from completiond.drafters.small_model import SmallModel
from completiond.drafters.suffix import Suffix
from completiond.engine import speculation
from completiond.engine.decode import Decoding
from completiond.engine.fit import DRAFT_SHARE, Needs, fit
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.engine.timing import TRIAL_ROWS, timed
from completiond.footprint import free_bytes, return_free_memory
from completiond.model import vocabulary
from completiond.model.checkpoint import ModelFiles
from completiond.model.loader import choose_device, choose_kernel, explained, load_runner
from completiond.model.quantize import Kernel
from completiond.model.runner import Runner
from completiond.model.size import Size, size_of

log = logging.getLogger(__name__)

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
    count = thread_count(config.engine.threads)
    torch.set_num_threads(count)
    device = choose_device(config.engine.device)
    names = speculation.wanted(config.engine.speculation)
    small = draft if "small_model" in names else None
    # Chosen once: beside other programs a choice takes long, and is not remembered.
    kernel = choose_kernel(files.directory, device, config.engine.kernel)
    fitted = fit(needs(config, files, small, device, kernel))
    for note in fitted.notes:
        log.warning("%s", note)
    runner = _runner(config, files, device, kernel)
    cache = runner.cache(fitted.kv)
    draws = _small(config, files, small, device, fitted.kv) if small and fitted.draft else None
    corpus = suffix() if suffix and "suffix" in names else None
    drafters = speculation.drafters(names, runner, cache, suffix=corpus, small=draws)
    return_free_memory()
    costs, threads = timed(runner, cache, files.name, count)
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
        keep_drafts=config.record.text,
        facts={
            "model": files.name,
            "draft": draft.name if draft and fitted.draft else "",
            "device": str(device),
            "kernel": runner.decoder.kernel,
            "threads": count,
            "drafters": [d.name for d in drafters],
            "policy": policy.name,
            "pass_ms": {str(rows): round(costs.ms(rows), 1) for rows in TRIAL_ROWS},
            "fork_ms": round(costs.fork_ms, 2),
            "notes": list(fitted.notes),
        },
    )


def needs(
    config: Config,
    files: ModelFiles,
    draft: ModelFiles | None,
    device: torch.device,
    kernel: Kernel,
) -> Needs:
    """What is asked of the device's memory, from the files' headers and the configuration."""
    on_cpu = device.type == "cpu"
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
    return SmallModel(_runner(config, draft, device, config.engine.kernel), kv // DRAFT_SHARE)


def thread_count(wanted: int) -> int:
    """One thread per core, or as many as asked for, but no more than there are cores."""
    cores = len(os.sched_getaffinity(0))
    return min(wanted, cores) if wanted else cores


def _runner(config: Config, files: ModelFiles, device: torch.device, kernel: str) -> Runner:
    return load_runner(
        files.directory,
        files.vocab_size,
        device,
        kernel=kernel,
        graphs=config.engine.graphs,
    )
