"""bench.py decode: plain decoding, and with drafts of each source, against its peers, in turns.

Times are tokens a second behind the first pass, medians with their quartiles; tokens per pass are
counts: what was emitted over the passes that emitted something, the prompt's last one counted.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import bench_simulate
from bench_models import add_options, library, ours, spread
from bench_process import resident_mb

REPOSITORY = Path(__file__).resolve().parent.parent
OURS = "plain,lookup,suffix,auto"
POLICIES = "auto@fixed2,auto@fixed4,auto@fixed7,auto@fixed15,auto@fixed31,auto@simple"


class Made(NamedTuple):
    """One answer: its ids, tokens a second behind the first, passes, accepted and drafted."""

    ids: list[int]
    rate: float
    passes: int
    accepted: int = 0
    drafted: int = 0


Run = Callable[[Any], Made]
Found = Mapping[str, Sequence[Made]]


def add_decode(commands: Any) -> None:
    parser = commands.add_parser("decode", help="tokens a second, drafts and peers side by side")
    add_options(parser)
    parser.add_argument(
        "--set", default="own", help="own, commit, edit, heif, safim or a file of infill items"
    )
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64, help="generated per prompt")
    parser.add_argument(
        "--ours",
        default=OURS,
        help="plain, or settings of --speculation, joined by + and each with @POLICY or without: "
        "auto@fixed7, suffix+lookup@simple",
    )
    parser.add_argument("--policies", action="store_true", help=f"also {POLICIES}")
    parser.add_argument("--draft-tokens", type=int, default=31)
    parser.add_argument("--hf", default="plain", help="of plain,lookup,assisted; empty: none")
    parser.add_argument("--draft", default="", help="small model for ours and for hf assisted")
    parser.add_argument("--llama-bin", type=Path, help="folder with llama-server")
    parser.add_argument("--gguf", type=Path, help="the same model for it (`bench.py gguf`)")
    parser.add_argument("--draft-gguf", type=Path, help="the small model for it")
    parser.add_argument("--llama", default="", help="of its settings (default: all)")
    parser.add_argument("--record", type=Path, help="keep the first side's answers in this file")
    parser.set_defaults(run=decode, name="decode")


def decode(arguments: Any) -> dict[str, Any]:
    import bench_decode_sides as sides
    from bench_decode_llama import llama_runs

    core, files, ready_s = ours(arguments)
    items = _items(arguments)
    names = f"{arguments.ours},{POLICIES}" if arguments.policies else arguments.ours
    runs: dict[str, Run] = {f"ours_{n}": sides.Ours(core, n, arguments) for n in names.split(",")}
    if arguments.hf:
        peer = library(files)
        for kind in arguments.hf.split(","):
            runs[f"hf_{kind}"] = sides.library_run(peer, kind, arguments)
    with ExitStack() as open_servers:
        if arguments.llama_bin:
            runs |= llama_runs(arguments, open_servers)
        found = in_turns(runs, items)
    if arguments.record:
        _record(arguments.record, items, next(iter(found.values())))
    for name, made in found.items():
        print(f"{name:>24}  {spread([r.rate for r in made])} tokens/s  {per_pass(made)} a pass")
    return figures(found) | {
        "model": arguments.model,
        "set": arguments.set,
        "items": len(items),
        "ready_s": round(ready_s, 2),
        "rss_mb": resident_mb(),
    }


def in_turns(runs: Mapping[str, Run], items: Sequence[Any]) -> dict[str, list[Made]]:
    """Every item by every side, forwards and backwards, so that a slow minute hits all alike."""
    found: dict[str, list[Made]] = {name: [] for name in runs}
    for number, item in enumerate(items):
        order = list(runs.items())
        for name, run in order if number % 2 == 0 else reversed(order):
            found[name].append(run(item))
    return found


def _record(file: Path, items: Sequence[Any], made: Sequence[Made]) -> None:
    """For `simulate --answers`: the items must be the whole set, or the numbers are others."""
    pairs = enumerate(zip(items, made, strict=True))
    lines = [
        json.dumps({"n": number, "prompt": len(item.context.ids), "ids": one.ids})
        for number, (item, one) in pairs
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def per_pass(made: Sequence[Made]) -> float:
    return round(sum(len(r.ids) for r in made) / max(1, sum(r.passes for r in made)), 3)


def figures(found: Found) -> dict[str, Any]:
    """What is reported of the answers of each side, by its name."""
    plain, mine = found.get("ours_plain", []), _of(found, "ours_")
    parts = [
        {"run": name, "item": number, "at": _first_difference(one.ids, other.ids)}
        for name, made in mine.items()
        for number, (one, other) in enumerate(zip(made, plain, strict=bool(plain)))
        if one.ids != other.ids
    ]
    return {
        "decode_tok_s": _medians(mine),
        "hf": {"decode_tok_s": _medians(_of(found, "hf_"))},
        "llamacpp": {"decode_tok_s": _medians(_of(found, "llama_"))},
        "tokens_per_pass": {name.removeprefix("ours_"): per_pass(m) for name, m in found.items()},
        "speedup_vs_plain": {name: speed(made, plain) for name, made in mine.items()},
        "speedup_by_item": {name: _ratio(made, plain) for name, made in mine.items()},
        "plain_vs_hf_plain": _ratio(plain, found.get("hf_plain", [])),
        **_against(found),
        "accepted": {
            name: [sum(r.accepted for r in made), sum(r.drafted for r in made)]
            for name, made in mine.items()
        },
        "mismatches": len(parts),
        "divergences": parts,
    }


def _against(found: Found) -> dict[str, Any]:
    """`auto` against the best of each peer and of the fixed lengths, all items together."""
    auto = found.get("ours_auto", [])
    groups = {
        "auto_vs_best_fixed": _of(found, "ours_auto@fixed") | _of(found, "ours_plain"),
        "auto_vs_simple": _of(found, "ours_auto@simple"),
        "auto_vs_best_hf": _of(found, "hf_"),
        "auto_vs_best_llamacpp": _of(found, "llama_"),
    }
    ratios = {
        what: [speed(auto, made) for made in peers.values()] for what, peers in groups.items()
    }
    known = {what: [r for r in some if r is not None] for what, some in ratios.items()}
    return {what: min(some) if some else None for what, some in known.items()}


def _of(found: Found, side: str) -> dict[str, Sequence[Made]]:
    return {n.removeprefix(side): made for n, made in found.items() if n.startswith(side)}


def _medians(found: Found) -> dict[str, float]:
    return {n: round(statistics.median(r.rate for r in made), 1) for n, made in found.items()}


def speed(one: Sequence[Made], other: Sequence[Made]) -> float | None:
    """How many times as fast, all items together and each with as many tokens."""
    if not one or not other or not all(r.rate for r in (*one, *other)):
        return None
    return round(sum(1 / r.rate for r in other) / sum(1 / r.rate for r in one), 3)


def _ratio(one: Sequence[Made], other: Sequence[Made]) -> float | None:
    """The median over items of one's rate over the other's."""
    ratios = [a.rate / b.rate for a, b in zip(one, other, strict=False) if b.rate]
    return round(statistics.median(ratios), 2) if ratios else None


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _items(arguments: Any) -> list[Any]:
    """Prompts as the product makes them, at equal distances in the set; or our own sources."""
    if arguments.set == "own":
        paths = sorted((REPOSITORY / "completiond").rglob("*.py"))
        texts = [path.read_text(encoding="utf-8") for path in paths]
        found = [
            (text[: len(text) // 2], "", text[len(text) // 2 :], [])
            for text in texts
            if len(text) > 4000
        ][: arguments.prompts]
        return list(bench_simulate.items(arguments, found))
    found = list(bench_simulate.texts(arguments.set))
    count = min(arguments.prompts, len(found))
    chosen = [found[i * len(found) // count] for i in range(count)]
    return list(bench_simulate.items(arguments, chosen))
