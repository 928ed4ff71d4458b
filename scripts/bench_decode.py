"""bench.py decode: plain decoding, and with drafts, against its peers, in turns.

Figures are medians with their quartiles, tokens a second behind the first token.
"""

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench_models import DEPTH, add_options, library, ours, spread
from bench_process import resident_mb

REPOSITORY = Path(__file__).resolve().parent.parent


def add_decode(commands: Any) -> None:
    parser = commands.add_parser("decode", help="tokens a second against transformers' generate")
    add_options(parser)
    parser.add_argument("--set", type=Path, help="infill items (jsonl); default: our own sources")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64, help="generated per prompt")
    parser.add_argument("--hf", default="plain", help="of plain,lookup,assisted; empty: none")
    parser.add_argument("--draft", default="", help="model for hf assisted")
    parser.set_defaults(run=decode, name="decode")


def decode(arguments: Any) -> dict[str, Any]:
    from completiond.prompt.tokenizer import Tokenizer

    core, files, ready_s = ours(arguments)
    peer = library(files)
    prompts = list(_prompts(arguments, Tokenizer.load(files.directory)))
    runs = {
        "ours_plain": _run_ours(core, []),
        "ours_lookup": _run_ours(core, core.decoding.drafters),
    }
    for kind in filter(None, arguments.hf.split(",")):
        runs[f"hf_{kind}"] = _run_library(peer, kind, arguments)
    rates: dict[str, list[float]] = {name: [] for name in runs}
    for prompt in prompts:
        for name, run in runs.items():
            rates[name].append(run(prompt, arguments.tokens))
    for name, values in rates.items():
        print(f"{name:>12}  {spread(values)} tokens/s")
    medians = {name: round(statistics.median(values), 1) for name, values in rates.items()}
    ratios = [a / b for a, b in zip(rates["ours_plain"], rates.get("hf_plain", []), strict=False)]
    return {
        "model": arguments.model,
        "decode_tok_s": {k[5:]: v for k, v in medians.items() if k.startswith("ours_")},
        "hf": {"decode_tok_s": {k[3:]: v for k, v in medians.items() if k.startswith("hf_")}},
        "plain_vs_hf_plain": round(statistics.median(ratios), 2) if ratios else None,
        "ready_s": round(ready_s, 2),
        "rss_mb": resident_mb(),
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

        more["assistant_model"] = library(store.resolve(arguments.draft))

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
