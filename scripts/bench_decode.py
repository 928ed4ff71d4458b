"""bench.py pass and decode: what a pass costs by rows, and plain decoding against its peers.

Both sides run in one process, on the same prompts and threads, in turns (A B A B …), so that a
machine that slows down slows both. Figures are medians with their quartiles.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
WIDTHS = (1, 2, 4, 8, 16, 32)
DEPTH = 1024
"""Tokens of context behind which passes are timed."""


def add_pass(commands: Any) -> None:
    parser = commands.add_parser("pass", help="milliseconds of a pass by rows, prefill, one-row HF")
    _common(parser)
    parser.add_argument("--rounds", type=int, default=7)
    parser.set_defaults(run=passes, name="pass")


def add_decode(commands: Any) -> None:
    parser = commands.add_parser("decode", help="tokens a second against transformers' generate")
    _common(parser)
    parser.add_argument("--set", type=Path, help="infill items (jsonl); default: our own sources")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64, help="generated per prompt")
    parser.add_argument("--hf", default="plain", help="of plain,lookup,assisted; empty: none")
    parser.add_argument("--draft", default="", help="model for hf assisted")
    parser.set_defaults(run=decode, name="decode")


def _common(parser: Any) -> None:
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=0)


# -- pass -----------------------------------------------------------------------------------------


def passes(arguments: Any) -> dict[str, Any]:
    from completiond.model.attention import Segment
    from completiond.model.kv_cache import Slot

    core, files, ready_s = _ours(arguments)
    runner, library = core.decoding.runner, _library(files)
    ids = [(i * 7919) % 50_000 for i in range(DEPTH)]
    slot = Slot(runner.kv)
    prefill = DEPTH / _timed(lambda: _in_chunks(runner, slot, ids, 128))
    cache = _library_prefill(library, ids)
    times: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for width in WIDTHS:
            segment = Segment(slot, ids[:width], None, tuple(range(width)))
            took = _timed(lambda s=segment: runner.forward([s]))
            times.setdefault(str(width), []).append(took * 1000)
        times.setdefault("hf", []).append(_timed(lambda: _library_row(library, cache)) * 1000)
    rows = {name: round(statistics.median(values), 2) for name, values in times.items()}
    hf = rows.pop("hf")
    for name, values in times.items():
        print(f"{name:>4} rows  {_spread(values)} ms")
    return {
        "model": arguments.model,
        "kernel": core.info()["kernel"],
        "rows": rows,
        "prefill_tok_s": round(prefill, 1),
        "hf": {"one_row_ms": hf},
        "ready_s": round(ready_s, 2),
        "rss_mb": _rss_mb(),
    }


def _in_chunks(runner: Any, slot: Any, ids: list[int], chunk: int) -> None:
    for start in range(0, len(ids), chunk):
        runner.prefill(slot, ids[start : start + chunk])


def _library_prefill(library: Any, ids: list[int]) -> Any:
    import torch

    with torch.inference_mode():
        return library(torch.tensor([ids]), use_cache=True, logits_to_keep=1).cache


def _library_row(library: Any, cache: Any) -> None:
    import torch

    with torch.inference_mode():
        library(torch.tensor([[11]]), cache=cache, use_cache=True)
    cache.crop(-1)


# -- decode ---------------------------------------------------------------------------------------


def decode(arguments: Any) -> dict[str, Any]:
    from completiond.prompt.tokenizer import Tokenizer

    core, files, ready_s = _ours(arguments)
    library = _library(files)
    prompts = list(_prompts(arguments, Tokenizer.load(files.directory)))
    runs = {
        "ours_plain": _run_ours(core, []),
        "ours_lookup": _run_ours(core, core.decoding.drafters),
    }
    for kind in filter(None, arguments.hf.split(",")):
        runs[f"hf_{kind}"] = _run_library(library, kind, arguments)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for prompt in prompts:
        for name, run in runs.items():
            rates[name].append(run(prompt, arguments.tokens))
    for name, values in rates.items():
        print(f"{name:>12}  {_spread(values)} tokens/s")
    medians = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    ratios = [a / b for a, b in zip(rates["ours_plain"], rates.get("hf_plain", []), strict=False)]
    return {
        "model": arguments.model,
        "decode_tok_s": {k[5:]: v for k, v in medians.items() if k.startswith("ours_")},
        "hf": {"decode_tok_s": {k[3:]: v for k, v in medians.items() if k.startswith("hf_")}},
        "plain_vs_hf_plain": round(statistics.median(ratios), 2) if ratios else None,
        "ready_s": round(ready_s, 2),
        "rss_mb": _rss_mb(),
    }


Run = Callable[[list[int], int], float]
"""(prompt, tokens) → tokens a second behind the first one, so that the prompt does not count."""


def _run_ours(core: Any, drafters: Any) -> Run:
    from completiond.core import CancelToken, Prompt
    from completiond.engine.job import Job, Progress, Rules

    class Never:
        def step(self, ids: Any) -> None:
            return None

    def run(prompt: list[int], tokens: int) -> float:
        core.decoding.drafters = drafters
        core.cache.forget("bench")
        core.admit(
            Job(1, "bench", "", Prompt(tuple(prompt)), tokens), Rules(Never(), None), CancelToken()
        )
        seen: list[tuple[float, int]] = []
        while core.busy:
            events = core.step()
            now = time.perf_counter()
            seen += [(now, len(e.ids)) for e in events if isinstance(e, Progress)]
        return sum(count for _, count in seen[1:]) / (seen[-1][0] - seen[0][0])

    return run


def _run_library(library: Any, kind: str, arguments: Any) -> Run:
    import torch

    more: dict[str, Any] = {}
    if kind == "lookup":
        more["prompt_lookup_num_tokens"] = 7
    if kind == "assisted":
        from completiond.model import store

        more["assistant_model"] = _library(store.resolve(arguments.draft))

    def run(prompt: list[int], tokens: int) -> float:
        ids = torch.tensor([prompt])
        seen: list[tuple[float, int]] = []

        def watch(ids: Any, scores: Any, **_: Any) -> Any:
            seen.append((time.perf_counter(), ids.shape[1]))
            return torch.zeros(len(ids), dtype=torch.bool)

        with torch.inference_mode():
            library.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                pad_token_id=0,
                stopping_criteria=[watch],
                **more,
            )
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first)

    return run


def _prompts(arguments: Any, tokenizer: Any) -> Iterator[list[int]]:
    """Ids of real code: each item's text before the hole, or our own sources cut in the middle."""
    if arguments.set:
        lines = arguments.set.read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["prefix"] for line in lines if line.strip()]
    else:
        paths = sorted((REPOSITORY / "completiond").rglob("*.py"))
        texts = [path.read_text(encoding="utf-8") for path in paths]
        texts = [text[: len(text) // 2] for text in texts if len(text) > 4000]
    for text in texts[: arguments.prompts]:
        yield tokenizer.encode(text)[-DEPTH:]


# -- both -----------------------------------------------------------------------------------------


def _ours(arguments: Any) -> tuple[Any, Any, float]:
    from completiond.config import load
    from completiond.engine.load import load_core
    from completiond.model import store

    started = time.perf_counter()
    files = store.resolve(arguments.model)
    flags = {"engine.kernel": arguments.kernel, "engine.threads": arguments.threads}
    core = load_core(load(flags), files)
    return core, files, time.perf_counter() - started


def _library(files: Any) -> Any:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    load = AutoModelForCausalLM.from_pretrained
    return load(files.directory, dtype=torch.bfloat16, local_files_only=True).eval()


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:8.2f}  ({low:.2f} to {high:.2f})"


def _rss_mb() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) >> 10
