#!/usr/bin/env python
"""What completions are worth: exact match, edit similarity and pass@1 over infill items.

    scripts/eval.py --sets commit_points_dev --sample 60 --out FILE
    scripts/eval.py … --layouts --rules --context none,given --llama-bin DIR --gguf FILE

Results are kept in FILE as they come, and a run that is repeated goes on behind them. Ctrl-C prints
what is there. The last line is one JSON object.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from eval_context import SOURCES
from eval_gather import Places
from eval_names import names_found
from eval_report import Judge, Report, table
from eval_sides import LAYOUTS, Llama, Ours, Setting, Side
from eval_tests import alone
from infill_items import Item, read_items, sample
from replay_llama_server import FLAGS, server
from row_file import RowFile

from completiond.config import load
from completiond.model import registry, store
from completiond.prompt.builder import layout_of

REPOSITORY = Path(__file__).resolve().parent.parent
BATCH = 1024
"""llama.vim's: a quarter of it is for the suffix and the rest for what is before the hole."""
Todo = list[tuple[Item, Setting]]


def main() -> None:
    arguments = parse()
    items = sample(read_items(arguments.data / "infill", arguments.sets), arguments.sample)
    if arguments.names:
        names(arguments, items)
        return
    settings = plan(arguments)
    rows = RowFile(arguments.out, ("model", "setting", "item"))
    try:
        if not arguments.report:
            fill(arguments, items, settings, rows)
    except KeyboardInterrupt:
        say("Stopped; what follows is of the items that every setting has answered.")
    result = report(arguments, items, settings, rows)
    print(json.dumps(result))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared/data")
    parser.add_argument("--sets", type=_names, default=["commit_points_dev"], help="A,B; '' all")
    parser.add_argument("--sample", type=int, default=0, help="so many items, by language; 0: all")
    parser.add_argument("--out", type=Path, help="file of the results; goes on behind them")
    parser.add_argument("--context", type=_names, default=["none"], help=", ".join(SOURCES))
    parser.add_argument("--repositories", type=Path, help="folder of a cross-file set's own ones")
    parser.add_argument("--names", action="store_true", help="names of answers in chunks, no model")
    parser.add_argument(
        "--layouts",
        type=_names,
        nargs="?",
        const=list(LAYOUTS),
        default=[],
        metavar="A,B",
        help=f"each layout, healed and not; or some of {', '.join(LAYOUTS)}",
    )
    parser.add_argument("--rules", action="store_true", help="with and without each rule")
    parser.add_argument("--invoked", action="store_true", help="ask as by hand: whole blocks")
    parser.add_argument("--no-tests", action="store_true", help="run no tests of items")
    parser.add_argument("--report", action="store_true", help="only tell what FILE holds")
    parser.add_argument("--losses", action="store_true", help="what a peer has right and we not")
    parser.add_argument("--llama-bin", type=Path, help="folder of llama-server: the peer")
    parser.add_argument("--gguf", type=Path, help="the same model's file for it")
    parser.add_argument("--llama-batch", type=int, default=BATCH, help="its window, tokens")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.context if name not in SOURCES]
    if unknown:
        parser.error(f"there is no source of chunks {unknown[0]!r}; known are {', '.join(SOURCES)}")
    unknown = [name for name in arguments.layouts if name not in LAYOUTS]
    if unknown:
        parser.error(f"there is no layout {unknown[0]!r}; known are {', '.join(LAYOUTS)}")
    if (arguments.llama_bin is None) is not (arguments.gguf is None):
        parser.error("--llama-bin and --gguf belong together")
    return arguments


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- what is run ----------------------------------------------------------------------------------


def product(model: str) -> Setting:
    """Our side as it is by default."""
    known = registry.find(model)
    weights = known.converted if known else store.resolve(model).bytes
    layout = layout_of(load(environ={}).completion.layout, weights)
    return Setting("ours", layout if layout == "cursor" else f"{layout}+healing")


def peer(arguments: argparse.Namespace) -> str:
    wide = arguments.llama_batch != BATCH
    return f"llama-b{arguments.llama_batch}" if wide else "llama"


def plan(arguments: argparse.Namespace) -> list[Setting]:
    """Every setting of the run, the product's own first."""
    ours = product(arguments.model)._replace(invoked=arguments.invoked)
    contexts = ["none", *(name for name in arguments.context if name != "none")]
    settings = [ours._replace(context=name) for name in contexts]
    settings += [ours._replace(layout=name) for name in arguments.layouts if name != ours.layout]
    if arguments.rules:
        settings.append(ours._replace(free=True))
    if arguments.gguf is not None:
        settings += [Setting(peer(arguments), "", name) for name in contexts]
    return settings


def fill(
    arguments: argparse.Namespace,
    items: Sequence[Item],
    settings: Sequence[Setting],
    rows: RowFile,
) -> None:
    """Answer what has no row yet, item by item: what is done is a fair sample."""
    todo = [
        (item, setting)
        for item in items
        for setting in settings
        if (arguments.model, setting.name, item.key) not in rows.rows
    ]
    places = Places(arguments.data, arguments.repositories)
    with ExitStack() as stack:
        sides = open_sides(arguments, {setting.side for _, setting in todo}, stack)
        for item, setting in progress(todo):
            chunks = SOURCES[setting.context](item, places)
            found = sides[setting.side].fill(item, setting, chunks)
            named = {"model": arguments.model, "setting": setting.name, "item": item.key}
            rows.add(named | found)


def open_sides(
    arguments: argparse.Namespace, wanted: set[str], stack: ExitStack
) -> dict[str, Side]:
    """A model is loaded only where there is something left to ask it."""
    sides: dict[str, Side] = {}
    for name in wanted:
        if name == "ours":
            flags = {"engine.kernel": arguments.kernel, "engine.threads": arguments.threads}
            sides[name] = Ours(arguments.model, flags, product(arguments.model).layout)
        else:
            batch = str(arguments.llama_batch)
            flags_of = [batch if one == str(BATCH) else one for one in FLAGS]
            threads = arguments.threads or 2
            running = server(arguments.llama_bin, arguments.gguf, threads, flags_of)
            sides[name] = Llama(stack.enter_context(running))
    return sides


def progress(todo: Todo) -> Iterator[tuple[Item, Setting]]:
    """Each of them, and on the way how long the rest will take."""
    started = said = time.monotonic()
    for done, one in enumerate(todo):
        now = time.monotonic()
        if done and now - said > 10:
            said, left = now, (now - started) / done * (len(todo) - done)
            say(f"{done} of {len(todo)} answers, {left / 60:.1f} minutes left")
        yield one


def names(arguments: argparse.Namespace, items: Sequence[Item]) -> None:
    """What the contexts hold of the answers' names; a table, and at the end one line of JSON."""
    places = Places(arguments.data, arguments.repositories)
    found = []
    print("| set | context | names of answers | in the chunks | tokens of chunks |")
    print("|---|---|---|---|---|")
    for one in names_found(items, arguments.context, places):
        print("|", " | ".join(map(str, one)), "|")
        found.append(one._asdict())
    print(json.dumps({"names": found}))


# -- what is said ---------------------------------------------------------------------------------


def report(
    arguments: argparse.Namespace,
    items: Sequence[Item],
    settings: Sequence[Setting],
    rows: RowFile,
) -> dict[str, Any]:
    done = [
        item
        for item in items
        if all((arguments.model, setting.name, item.key) in rows.rows for setting in settings)
    ]
    found = Report(arguments.model, settings[0], settings, Judge(done, rows, tests(arguments)))
    result = found.result(token_counter(arguments.model))
    for line in table(result):
        print(line)
    if arguments.losses:
        for line in found.losses():
            print(line)
    return {"eval": arguments.model, "sets": arguments.sets} | result


def tests(arguments: argparse.Namespace) -> RowFile | None:
    """Where the tests' verdicts are kept; None where none may be run."""
    if arguments.no_tests:
        return None
    if not alone():
        say("This machine lets no process be without a network: the items' tests are not run.")
        return None
    out = arguments.out
    return RowFile(out and out.with_suffix(".tests.jsonl"), ("item", "text"))


def token_counter(model: str) -> Any:
    from completiond.model import store
    from completiond.prompt.tokenizer import Tokenizer

    files = store.resolve(model)
    tokenizer = Tokenizer.load(files.directory, name=files.name)
    return lambda text: len(tokenizer.encode(text))


if __name__ == "__main__":
    main()
