"""bench.py decode: plain decoding, and with drafts of each source, against its peers, in turns.

Times are tokens a second behind the first token, medians with their quartiles; tokens per pass are
counts: what was emitted over the passes that emitted something.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import bench_simulate
from bench_models import add_options, library, ours, spread
from bench_process import resident_mb

REPOSITORY = Path(__file__).resolve().parent.parent
OURS = "plain,recycled,lookup,suffix,auto"


class Ran(NamedTuple):
    """One answer: its ids, tokens a second behind the first, passes, accepted and drafted."""

    ids: list[int]
    rate: float
    passes: int
    accepted: int = 0
    drafted: int = 0


Run = Callable[[Any], Ran]


def add_decode(commands: Any) -> None:
    parser = commands.add_parser("decode", help="tokens a second against transformers' generate")
    add_options(parser)
    parser.add_argument("--set", default="own", help="commit, edit, a file of infill items, or own")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=64, help="generated per prompt")
    parser.add_argument("--ours", default=OURS, help="settings of --speculation, by /; or names")
    parser.add_argument("--policy", default="auto", help="auto, simple or fixed")
    parser.add_argument("--draft-tokens", type=int, default=31)
    parser.add_argument("--hf", default="plain", help="of plain,lookup,assisted; empty: none")
    parser.add_argument("--draft", default="", help="small model for ours and for hf assisted")
    parser.set_defaults(run=decode, name="decode")


def decode(arguments: Any) -> dict[str, Any]:
    core, files, ready_s = ours(arguments)
    items = _items(arguments)
    runs: dict[str, Run] = {}
    for name in arguments.ours.split("/" if "/" in arguments.ours else ","):
        runs[f"ours_{name}"] = Ours(core, name, arguments)
    if arguments.hf:
        peer = library(files)
        for kind in arguments.hf.split(","):
            runs[f"hf_{kind}"] = _run_library(peer, kind, arguments)
    found: dict[str, list[Ran]] = {name: [] for name in runs}
    for item in items:
        for name, run in runs.items():
            found[name].append(run(item))
    for name, made in found.items():
        print(f"{name:>20}  {spread([r.rate for r in made])} tokens/s  {per_pass(made)} a pass")
    return figures(found) | {
        "model": arguments.model,
        "ready_s": round(ready_s, 2),
        "rss_mb": resident_mb(),
    }


def per_pass(made: list[Ran]) -> float:
    return round(sum(len(r.ids) for r in made) / sum(r.passes for r in made), 3)


def figures(found: dict[str, list[Ran]]) -> dict[str, Any]:
    """What is reported of the answers of each run, by its name."""
    medians = {n: round(statistics.median(r.rate for r in made), 1) for n, made in found.items()}
    plain = found.get("ours_plain", [])
    mine = {name[5:]: made for name, made in found.items() if name.startswith("ours_")}
    parts = [
        {"run": name, "item": number, "at": _first_difference(one.ids, other.ids)}
        for name, made in mine.items()
        for number, (one, other) in enumerate(zip(made, plain, strict=bool(plain)))
        if one.ids != other.ids
    ]
    return {
        "decode_tok_s": {k[5:]: v for k, v in medians.items() if k.startswith("ours_")},
        "hf": {"decode_tok_s": {k[3:]: v for k, v in medians.items() if k.startswith("hf_")}},
        "plain_vs_hf_plain": _ratio(plain, found.get("hf_plain", [])),
        "tokens_per_pass": {name.removeprefix("ours_"): per_pass(m) for name, m in found.items()},
        "speedup_vs_plain": {name: _ratio(made, plain) for name, made in mine.items()},
        "accepted": {
            name: [sum(r.accepted for r in made), sum(r.drafted for r in made)]
            for name, made in mine.items()
        },
        "mismatches": len(parts),
        "divergences": parts,
    }


def _ratio(ours: list[Ran], theirs: list[Ran]) -> float | None:
    """The median over items of one's rate over the other's."""
    ratios = [a.rate / b.rate for a, b in zip(ours, theirs, strict=False)]
    return round(statistics.median(ratios), 2) if ratios else None


def _first_difference(one: list[int], other: list[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


class Never:
    def step(self, ids: Any) -> None:
        return None


class Ours:
    """Our engine with the drafters of one setting, which know nothing of the items before.

    A prompt is computed once for all settings: its time does not count.
    """

    def __init__(self, core: Any, name: str, arguments: Any) -> None:
        from completiond.engine import speculation

        self._core, self._tokens = core, arguments.tokens
        self._names = () if name == "plain" else speculation.wanted(name)
        width = arguments.draft_tokens
        self._policy = speculation.policy_of(arguments.policy, core._costs, width)
        self._width, self._small = width, None
        if "small_model" in self._names and arguments.draft:
            self._small = _small(arguments)

    def __call__(self, item: Any) -> Ran:
        from completiond.core import CancelToken, Prompt
        from completiond.drafters.suffix import Suffix
        from completiond.engine import speculation
        from completiond.engine.decode import Decoding
        from completiond.engine.job import Done, Job, Progress, Rules

        core, context = self._core, item.context
        suffix = Suffix(item.speller)
        for number, ids in enumerate(item.files):
            suffix.feed("bench", str(number), ids)
        runner = core.decoding.runner
        drafters = speculation.drafters(
            self._names, runner, core.cache, suffix=suffix, small=self._small
        )
        core.decoding = Decoding(runner, drafters, self._width, self._policy)
        prompt = Prompt(tuple(context.ids), tuple(context.segments), context.healed)
        job = Job(1, "bench", "bench", prompt, self._tokens, stop={"stop_ids": context.stop_ids})
        core.admit(job, Rules(Never(), context.mask), CancelToken())
        seen: list[tuple[float, int]] = []
        while core.busy:
            events = core.step()
            now = time.perf_counter()
            seen += [(now, len(e.ids)) for e in events if isinstance(e, Progress)]
            done = [e.outcome for e in events if isinstance(e, Done)]
        rate = sum(count for _, count in seen[1:]) / max(1e-9, seen[-1][0] - seen[0][0])
        kept, tried = sum(done[0].accepted.values()), sum(done[0].drafted.values())
        return Ran(list(done[0].ids), rate, len(seen), kept, tried)


def _small(arguments: Any) -> Any:
    from completiond.drafters.small_model import SmallModel
    from completiond.model import store
    from completiond.model.loader import choose_device, load_runner

    files = store.resolve(arguments.draft)
    runner = load_runner(
        files.directory, files.vocab_size, choose_device("auto"), kernel=arguments.kernel, graphs=0
    )
    return SmallModel(runner, 128 << 20)


def _run_library(library: Any, kind: str, arguments: Any) -> Run:
    import torch

    more: dict[str, Any] = {}
    if kind == "lookup":
        more["prompt_lookup_num_tokens"] = 7
    if kind == "assisted":
        from completiond.model import store

        more["assistant_model"] = library(store.resolve(arguments.draft))

    def run(item: Any) -> Ran:
        ids, tokens = torch.tensor([list(item.context.ids)]), arguments.tokens
        seen: list[tuple[float, int]] = []

        def watch(ids: Any, scores: Any, **_: Any) -> Any:
            seen.append((time.perf_counter(), ids.shape[1]))
            return torch.zeros(len(ids), dtype=torch.bool)

        with torch.inference_mode():
            made = library.generate(
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
        return Ran(made[0, ids.shape[1] :].tolist(), (after - before) / (last - first), len(seen))

    return run


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
