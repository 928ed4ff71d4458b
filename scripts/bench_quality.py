"""bench.py quality: what a kernel's rounding costs, measured against another kernel of ours.

Top-1 agreement and KL on real snippets; with --items exact matches of greedy fills (bench_items);
with --divergence how often the width of a pass changes a greedy answer (bench_divergence).
A snippet's positions hang together, so intervals are taken over snippets.
"""

import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bench_divergence
import bench_items
import infill_items

REPOSITORY = Path(__file__).resolve().parent.parent
LEAST, MOST = 300, 512
"""Tokens of a snippet."""
STRIDE = 4
"""Every so many positions are compared."""
CHUNK = 32
"""Positions whose probabilities are held at a time: two vocabularies of floats each."""


def add_quality(commands: Any) -> None:
    parser = commands.add_parser("quality", help="a kernel's answers against another kernel's")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--kernel", default="int8")
    parser.add_argument("--reference", default="bf16", help="the kernel that is right")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared/data")
    parser.add_argument("--snippets", type=int, default=200)
    parser.add_argument("--items", action="store_true", help="exact matches over infill items")
    parser.add_argument("--limit", type=int, default=0, help="so many items, 0: all")
    parser.add_argument("--out", type=Path, help="file of the items' results; goes on behind them")
    parser.add_argument("--divergence", action="store_true", help="passes of other widths")
    parser.set_defaults(run=quality, name="quality")


def quality(arguments: Any) -> dict[str, Any]:
    if arguments.items and arguments.out is None:
        raise SystemExit("--items takes an hour: say with --out FILE where results are kept.")
    names = {name: getattr(arguments, name) for name in ("model", "kernel", "reference")}
    if arguments.items:
        return names | bench_items.compare(arguments)
    if arguments.divergence:
        return names | bench_divergence.diverge(arguments)
    return names | agree(arguments)


def agree(arguments: Any) -> dict[str, Any]:
    from completiond.model import store
    from completiond.prompt.tokenizer import Tokenizer

    files = store.resolve(arguments.model)
    snippets = list(read_snippets(arguments, Tokenizer.load(files.directory, name=files.name)))
    random.Random(1).shuffle(snippets)  # so that what is done is a fair sample
    runners = [load(files, kernel, arguments) for kernel in (arguments.reference, arguments.kernel)]
    scores: list[Score] = []
    for ids in snippets:
        scores.append(score(*(rows(runner, ids) for runner in runners)))
        if len(scores) % 10 == 0:
            print(json.dumps(summary(scores)), flush=True)
    return summary(scores)


def summary(scores: Sequence["Score"]) -> dict[str, Any]:
    return {
        "snippets": len(scores),
        "positions": sum(s.positions for s in scores),
        "top1": with_interval([s.top for s in scores]),
        "kl": with_interval([s.kl for s in scores]),
    }


def load(files: Any, kernel: str, arguments: Any) -> Any:
    """A Runner, packed by one thread and run by as many as asked for."""
    import torch

    from completiond.engine.load import thread_count
    from completiond.model.loader import load_decoder
    from completiond.model.runner import Runner

    torch.set_num_threads(1)
    runner = Runner(load_decoder(files.directory, torch.device("cpu"), kernel), files.vocab_size)
    torch.set_num_threads(thread_count(arguments.threads))
    return runner


# -- snippets -------------------------------------------------------------------------------------


def read_snippets(arguments: Any, tokenizer: Any) -> Iterator[list[int]]:
    """Half from files as they stood before a commit, half infill prompts with their answers."""
    items = infill_items.read_items(arguments.data / "infill")
    prompts = [prompt_of(item, tokenizer) for item in items]
    windows = list(file_windows(arguments.data, tokenizer))
    whole = [ids[-MOST:] for ids in prompts if len(ids) >= LEAST]
    half = arguments.snippets // 2
    yield from infill_items.spread_out(windows, half)
    yield from infill_items.spread_out(whole, arguments.snippets - half)


def file_windows(data: Path, tokenizer: Any) -> Iterator[list[int]]:
    """The files of recorded and made traces as they began, cut into windows."""
    for path in sorted(data.glob("traces*_dev/*.json")):
        trace = json.loads(path.read_text(encoding="utf-8"))
        if "before_text" not in trace:  # the index, and a session of several files
            continue
        ids = tokenizer.encode(trace["before_text"])
        yield from (ids[at : at + MOST] for at in range(0, len(ids) - LEAST, MOST))


def prompt_of(item: infill_items.Item, tokenizer: Any) -> list[int]:
    """The item as a model of the tokenizer's family sees it, with the text that fills the hole."""
    from completiond.prompt import templates

    template = templates.choose(tokenizer)
    if template is None:
        return list(tokenizer.encode(item.prefix + item.middle + item.suffix))
    prefix, suffix, middle = (tokenizer.token_id(name) for name in template.sentinels)
    before = tokenizer.encode(item.prefix)[-MOST // 2 :]
    after = tokenizer.encode(item.suffix)[: MOST // 4]
    parts = [[prefix, *before], [suffix, *after], [middle]]
    return [token for part in parts for token in part] + list(tokenizer.encode(item.middle))


# -- scores ---------------------------------------------------------------------------------------


class Score(NamedTuple):
    """One snippet: the share of positions with the same best token, the mean KL in nats."""

    top: float
    kl: float
    positions: int


def rows(runner: Any, ids: Sequence[int]) -> Any:
    """Logits [R, V] at every STRIDE-th position, from one pass over an empty slot."""
    from completiond.model.attention import Segment
    from completiond.model.kv_cache import Slot

    wanted = tuple(range(STRIDE - 1, len(ids), STRIDE))
    return runner.forward([Segment(Slot(runner.kv), ids, None, wanted)]).logits[0]


def score(reference: Any, other: Any) -> Score:
    """reference and other are logits [R, V]."""
    same = (reference.argmax(-1) == other.argmax(-1)).double().mean()
    total = 0.0
    for p, q in zip(reference.split(CHUNK), other.split(CHUNK), strict=True):
        p, q = p.float().log_softmax(-1), q.float().log_softmax(-1)
        total += float((p.exp() * (p - q)).double().sum())
    return Score(float(same), total / len(reference), len(reference))


def with_interval(values: Sequence[float]) -> dict[str, Any]:
    """The mean and its 95 % interval, by the spread between the values."""
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    half = 1.96 * spread / math.sqrt(len(values))
    return {"mean": round(mean, 5), "interval": [round(mean - half, 5), round(mean + half, 5)]}
