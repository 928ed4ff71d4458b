"""bench.py quality --items: exact matches of greedy fills, kernel against kernel, item by item.

Prompts, stop rule and trimming are the product's; drafts are on, which on int8 changes no token.
Results go to a file of JSON lines as they come, and a run that is repeated goes on behind them.
An item whose answer grows clearly longer than its reference is no match, and ends there.
"""

import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LINE_KINDS = ("single-line", "line-rest")
"""Their answers are one line: such a run stops at its end."""
SLACK = 24
"""Tokens that an answer may have more than its reference, for a stop that comes behind it."""
LONGEST = 256
PREFIX_TOKENS, SUFFIX_TOKENS = 768, 256
PASS_MS = 500.0
"""Nobody waits for a cancel here: prompts are computed in few passes."""


class Item(NamedTuple):
    """A hole in a file: what is before and behind it, and what was there."""

    set: str
    id: str
    kind: str
    language: str
    prefix: str
    suffix: str
    middle: str

    @property
    def key(self) -> str:
        return f"{self.set}/{self.id}"


def read_items(directory: Path) -> list[Item]:
    """The items of every set in `directory`, by set and as they come."""
    found = []
    for path in sorted(directory.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            names = ("id", "kind", "language", "prefix", "suffix", "middle")
            found.append(Item(path.stem, *(fields[name] for name in names)))
    if not found:
        raise SystemExit(f"{directory} holds no infill items (*.jsonl); name their place: --data")
    return found


def spread_out(things: Sequence[Any], count: int) -> list[Any]:
    """`count` of them at equal distances, the same each time."""
    if not 0 < count < len(things):
        return list(things)
    return [things[i * len(things) // count] for i in range(count)]


# -- answers --------------------------------------------------------------------------------------


class Filler:
    """Prompt, run and trim of one kernel, as the daemon does them."""

    def __init__(self, model: str, kernel: str, threads: int) -> None:
        from completiond.config import load
        from completiond.engine.load import load_core
        from completiond.engine_process import rules_for
        from completiond.model import store
        from completiond.prompt import templates
        from completiond.prompt.builder import PromptBuilder
        from completiond.prompt.tokenizer import Tokenizer

        files = store.resolve(model)
        flags = {
            "engine.kernel": kernel,
            "engine.threads": threads,
            "engine.device": "cpu",
            "engine.pass_ms": PASS_MS,
            "completion.prefix_tokens": PREFIX_TOKENS,
            "completion.suffix_tokens": SUFFIX_TOKENS,
        }
        settings = load(flags)
        self.tokenizer = Tokenizer.load(files.directory, name=files.name)
        self._builder = PromptBuilder(
            self.tokenizer,
            templates.choose(self.tokenizer),
            context=min(settings.model.context, files.context),
            completion=settings.completion,
            eos_ids=files.eos_ids,
        )
        self._rules = rules_for(self.tokenizer)
        self._core = load_core(settings, files)

    def exact(self, item: Item) -> tuple[bool, str]:
        """Whether the answer is the reference but for white space around it; the answer."""
        from completiond.prompt.stopping import trim

        room = len(self.tokenizer.encode(item.middle)) + SLACK
        built = self.built(item, min(room, LONGEST))
        stop = built.stop | ({"single": True} if item.kind in LINE_KINDS else {})
        ids, reason = self._run(built, stop)
        text = trim(self.tokenizer.decode(ids), stop, reason)
        return reason != "length" and text.strip() == item.middle.strip(), text

    def built(self, item: Item, max_tokens: int) -> Any:
        from completiond.core import Snapshot

        snapshot = Snapshot.around(
            item.prefix + item.suffix,
            len(item.prefix),
            document=item.key,
            version=1,
            language=item.language,
            path="",
        )
        return self._builder.build(snapshot, max_tokens=max_tokens)

    def _run(self, built: Any, stop: dict[str, Any]) -> tuple[list[int], str]:
        from completiond.core import CancelToken
        from completiond.engine.job import Done, Failed, Job

        self._core.cache.forget("bench")
        job = Job(1, "bench", "", built.prompt, built.max_tokens, stop=stop)
        self._core.admit(job, self._rules(job), CancelToken())
        while True:
            for event in self._core.step():
                if isinstance(event, Failed):
                    raise SystemExit(event.message)
                if isinstance(event, Done):
                    return event.outcome.ids, event.outcome.reason


# -- results --------------------------------------------------------------------------------------


class Results:
    """Answers by kernel and item in a file that grows; a line that was cut off is dropped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.exact: dict[tuple[str, str], bool] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off:
            path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        for line in whole.splitlines():
            row = json.loads(line)
            self.exact[row["kernel"], row["item"]] = row["exact"]

    def add(self, kernel: str, item: Item, exact: bool, text: str) -> None:
        self.exact[kernel, item.key] = exact
        row = {"kernel": kernel, "item": item.key, "exact": exact, "text": text}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def paired(first: Sequence[bool], second: Sequence[bool]) -> dict[str, Any]:
    """How much more often the first is right, with the 95 % interval of the paired difference."""
    differences = [int(a) - int(b) for a, b in zip(first, second, strict=True)]
    n = len(differences)
    spread = statistics.stdev(differences) if n > 1 else 0.0
    mean, half = statistics.fmean(differences), 1.96 * spread / math.sqrt(n)
    return {
        "items": n,
        "difference": round(mean, 4),
        "interval": [round(mean - half, 4), round(mean + half, 4)],
        "only_first": differences.count(1),
        "only_second": differences.count(-1),
    }


def by_set(items: Sequence[Item], results: Results, kernels: Sequence[str]) -> Iterator[str]:
    """A row for each set: its items and each kernel's exact matches."""
    yield " | ".join(["set", "items", *kernels])
    for name in sorted({item.set for item in items}):
        keys = [item.key for item in items if item.set == name]
        counts = [sum(results.exact[kernel, key] for key in keys) for kernel in kernels]
        yield " | ".join([name, str(len(keys)), *map(str, counts)])


def compare(arguments: Any) -> dict[str, Any]:
    """Fill each item with both kernels, in a mixed order: what is done is a fair sample."""
    kernels = [arguments.reference, arguments.kernel]
    items = read_items(arguments.data / "infill")
    random.Random(1).shuffle(items)
    items = items[: arguments.limit or None]
    results = Results(arguments.out)
    fillers: dict[str, Filler] = {}
    for item in items:
        for kernel in kernels:
            if (kernel, item.key) in results.exact:
                continue
            if kernel not in fillers:
                fillers[kernel] = Filler(arguments.model, kernel, arguments.threads)
            results.add(kernel, item, *fillers[kernel].exact(item))
    return report(items, results, kernels)


def report(items: Sequence[Item], results: Results, kernels: Sequence[str]) -> dict[str, Any]:
    """Prints a table by set; the last of `kernels` is compared with the first."""
    for row in by_set(items, results, kernels):
        print(row)
    right = {k: [results.exact[k, item.key] for item in items] for k in kernels}
    return {
        "exact": {kernel: sum(found) for kernel, found in right.items()},
        "paired": paired(right[kernels[-1]], right[kernels[0]]),
    }
