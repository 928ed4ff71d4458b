"""The models that bench.py measures: ours, the library's, llama.cpp's; and how a time is told.

Every side runs in turns on the same threads, so that a machine that slows down slows all.
"""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEPTH = 1024
"""Tokens of context behind which passes are timed."""


def add_options(parser: Any) -> None:
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=0)


def ours(arguments: Any) -> tuple[Any, Any, float]:
    from completiond.config import load
    from completiond.engine.load import load_core
    from completiond.footprint import keep_freed_blocks
    from completiond.model import store

    started = time.perf_counter()
    files = store.resolve(arguments.model)
    flags = {"engine.kernel": arguments.kernel, "engine.threads": arguments.threads}
    core = load_core(load(flags), files)
    keep_freed_blocks()  # as the engine's process does
    return core, files, time.perf_counter() - started


def library(files: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    load = AutoModelForCausalLM.from_pretrained
    return load(files.directory, dtype=torch.bfloat16, local_files_only=True).eval()


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:8.2f}  ({low:.2f} to {high:.2f})"


class LlamaBench:
    """llama.cpp's own benchmark on a GGUF file, where its binaries are given."""

    def __init__(self, binaries: Path, gguf: Path) -> None:
        cores = str(len(os.sched_getaffinity(0)))
        self._command = [str(binaries / "llama-bench"), "-m", str(gguf), "-t", cores, "-o", "json"]
        self._rates: dict[str, list[float]] = {}

    def round(self) -> None:
        """A token and a batch of eight behind DEPTH tokens, and a prefill from nothing."""
        behind = ["-d", str(DEPTH), "-r", "3"]
        self._add("one_row", [*behind, "-p", "0", "-n", "16"])
        self._add("eight_row", [*behind, "-p", "8", "-n", "0"])
        self._add("prefill", ["-p", str(DEPTH), "-n", "0", "-r", "2"])

    def _add(self, name: str, more: list[str]) -> None:
        done = subprocess.run([*self._command, *more], check=True, capture_output=True, text=True)
        (found,) = json.loads(done.stdout)
        self._rates.setdefault(name, []).append(found["avg_ts"])

    def result(self) -> dict[str, float]:
        rate = {name: statistics.median(values) for name, values in self._rates.items()}
        return {
            "one_row_ms": round(1000 / rate["one_row"], 2),
            "eight_row_ms": round(8000 / rate["eight_row"], 2),
            "prefill_tok_s": round(rate["prefill"], 1),
        }
