#!/usr/bin/env python
"""Lists the edit-like insertions of the recorded traces: most of their tokens stand in open text.

An insertion run is what was typed in one place, corrections done: events that touch the text that
they themselves made. It counts if it has LEAST_CHARS characters and if LEAST_SHARE of its tokens
lie in MATCH equal tokens of the file as it was or of another open file. The list names events of
traces; the text stays where it is.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from completiond.config import cache_dir
from completiond.prompt.tokenizer import Tokenizer

REPOSITORY = Path(__file__).resolve().parent.parent
TRACES = REPOSITORY.parent / "shared" / "data" / "traces_dev"
LIST = REPOSITORY / "tests" / "sets" / "edit_like.json"
MODEL = "qwen2.5-coder-0.5b"
LEAST_CHARS, LEAST_SHARE, MATCH = 40, 0.6, 8


class Run(NamedTuple):
    """Events [first, end) of a trace, and the text around what they left behind."""

    first: int
    end: int
    before: str
    text: str
    after: str


class Item(NamedTuple):
    """One entry of the list with its text, for who measures on it."""

    id: str
    prefix: str
    middle: str
    suffix: str
    files: list[str]


def runs(trace: dict[str, Any]) -> Iterator[Run]:
    """The insertion runs of a trace, in order."""
    text: str = trace["before_text"]
    first, start, end = 0, -1, -1  # [start, end) is what the run has made so far
    for number, event in enumerate(trace["events"]):
        at, cut, put = event["offset"], event["delete"], event["insert"]
        if not (cut or put):
            continue
        if not start <= at <= at + len(cut) <= end:
            if start < end:
                yield Run(first, number, text[:start], text[start:end], text[end:])
            first, start, end = number, at, at
            end += len(cut)  # a deletion begins a run only where something takes its place
        text = text[:at] + put + text[at + len(cut) :]
        end += len(put) - len(cut)
    if start < end:
        yield Run(first, len(trace["events"]), text[:start], text[start:end], text[end:])


def inner_tokens(tokenizer: Tokenizer, run: Run) -> list[int]:
    """The tokens that lie wholly inside the run, of the text as it then stood."""
    start = len(run.before.encode())
    end, at, inner = start + len(run.text.encode()), 0, []
    for token in tokenizer.encode(run.before + run.text + run.after):
        behind = at + len(tokenizer.token_bytes(token))
        if start <= at and behind <= end:
            inner.append(token)
        at = behind
    return inner


def covered(ids: Sequence[int], known: set[tuple[int, ...]]) -> int:
    """How many of `ids` lie in a window of MATCH that is `known`."""
    hit = [False] * len(ids)
    for i in range(len(ids) - MATCH + 1):
        if tuple(ids[i : i + MATCH]) in known:
            hit[i : i + MATCH] = [True] * MATCH
    return sum(hit)


def windows(tokenizer: Tokenizer, texts: Sequence[str]) -> set[tuple[int, ...]]:
    every = [tokenizer.encode(text) for text in texts]
    return {tuple(ids[i : i + MATCH]) for ids in every for i in range(len(ids) - MATCH + 1)}


def open_files(trace: dict[str, Any]) -> list[str]:
    return [file["text"] for file in trace["other_open_files"]]


def listed(tokenizer: Tokenizer, trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
    known = windows(tokenizer, [trace["before_text"], *open_files(trace)])
    for run in runs(trace):
        if len(run.text) < LEAST_CHARS:
            continue
        ids = inner_tokens(tokenizer, run)
        inside = covered(ids, known)
        if ids and inside >= LEAST_SHARE * len(ids):
            yield {
                "trace": trace["id"],
                "events": [run.first, run.end],
                "offset": len(run.before),
                "characters": len(run.text),
                "tokens": len(ids),
                "covered": inside,
            }


def traces(directory: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(directory.glob("*.json")):
        if path.name != "index.json":
            yield json.loads(path.read_text(encoding="utf-8"))


def items(list_file: Path = LIST, directory: Path = TRACES) -> Iterator[Item]:
    """The listed insertions with their text, from the traces in `directory`."""
    by_trace: dict[str, list[dict[str, Any]]] = {}
    for entry in json.loads(list_file.read_text(encoding="utf-8"))["items"]:
        by_trace.setdefault(entry["trace"], []).append(entry)
    for trace in traces(directory):
        found = {run.first: run for run in runs(trace)}
        for entry in by_trace.get(trace["id"], ()):
            run = found[entry["events"][0]]
            name = f"{trace['id']}/e{run.first}"
            yield Item(name, run.before, run.text, run.after, open_files(trace))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--traces", type=Path, default=TRACES)
    parser.add_argument("--out", type=Path, default=LIST)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(cache_dir() / "models" / MODEL)
    found = [entry for trace in traces(arguments.traces) for entry in listed(tokenizer, trace)]
    rule = {"least_characters": LEAST_CHARS, "least_share": LEAST_SHARE, "match_tokens": MATCH}
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in found)
    head = f'"tokenizer": {json.dumps(MODEL)},\n "rule": {json.dumps(rule)}'
    arguments.out.write_text(f'{{{head},\n "items": [\n{lines}\n ]}}\n', encoding="utf-8")
    print(f"{len(found)} insertions of {sum(e['tokens'] for e in found)} tokens in {arguments.out}")


if __name__ == "__main__":
    main()
