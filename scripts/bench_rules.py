"""What each rule costs and gives: infill items filled by the model with no rule, then judged.

`bench_rules.py --write FILE` lets the model write on until it ends by itself or the limit; it can
be interrupted and goes on. `bench_rules.py --judge FILE` needs no model: it applies every rule but
one to what was written, and compares that with all rules. The same text is judged each time, so a
difference is the rule's. Ends with one JSON line.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_items import LINE_KINDS, LONGEST, SLACK, Filler, Item, read_items

REPOSITORY = Path(__file__).resolve().parent.parent


def write(arguments: argparse.Namespace) -> None:
    """Fill items of every set in a mixed order, so that what is done is a fair sample."""
    from completiond.prompt.reading import STOPS

    items = read_items(arguments.data / "infill")
    random.Random(1).shuffle(items)
    done = {row["item"] for row in rows(arguments.write)}
    filler = Filler(arguments.model, "int8", arguments.threads)
    free = {"off": list(STOPS), "single": False, "statement": False, "closer": ""}
    for item in [item for item in items[: arguments.limit or None] if item.key not in done]:
        room = len(filler.tokenizer.encode(item.middle)) + SLACK
        built = filler.built(item, min(room, LONGEST))
        ids, reason = filler._run(built, built.stop | free)
        ends = [len(filler.tokenizer.decode(ids[: n + 1])) for n in range(len(ids))]
        row = {"item": item.key, "healed": built.healed, "reason": reason, "ends": ends}
        stopped = reason == "eos"
        row["text"] = filler.tokenizer.decode(ids[:-1] if stopped else ids)
        with arguments.write.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        yield json.loads(line)


def judge(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each rule: on how many items it changes what is shown, and what that was."""
    from completiond.postprocess.clean import RULES
    from completiond.prompt.reading import STOPS

    items = {item.key: item for item in read_items(arguments.data / "infill")}
    written = [(items[row["item"]], row) for row in rows(arguments.judge) if row["item"] in items]
    names = [*(f"stop {name}" for name in STOPS), *RULES]
    whole = [shown(item, row, "") for item, row in written]
    print("rule | changed | right: kept, lost | wrong: mended, still wrong, shows nothing now")
    table = {}
    for name in names:
        without = [shown(item, row, name) for item, row in written]
        table[name] = compare([item for item, _ in written], whole, without)
        counts = table[name]
        cells = ("changed", "kept", "lost", "mended", "wrong", "nothing")
        print(" | ".join([name, *(str(counts[cell]) for cell in cells)]))
    right = sum(is_right(item, text) for (item, _), text in zip(written, whole, strict=True))
    return {"items": len(written), "right": right, "rules": table} | decoded(written)


def compare(items: Sequence[Item], whole: Sequence[str], without: Sequence[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for item, ours, other in zip(items, whole, without, strict=True):
        if ours == other:
            continue
        counts["changed"] += 1
        was, now = is_right(item, other), is_right(item, ours)
        counts["kept"] += was and now
        counts["lost"] += was and not now
        counts["mended"] += now and not was
        counts["wrong"] += not (was or now)
        counts["nothing"] += not (was or ours.strip())
    return counts


def shown(item: Item, row: dict[str, Any], off: str) -> str:
    """What a person would be shown, with all rules but one."""
    from completiond.core import Snapshot
    from completiond.postprocess.clean import clean
    from completiond.prompt.stopping import Cursor, rule, trim

    stops = [off.removeprefix("stop ")] if off.startswith("stop ") else []
    cursor = Cursor(item.prefix, item.suffix, item.language)
    data = rule(cursor, healed=row["healed"], stop_ids=[], off=stops)
    text = trim(row["text"], data, row["reason"])
    here = Snapshot(item.key, 1, item.language, "", item.prefix, item.suffix)
    return clean(text, here, off=[off])[0]


def is_right(item: Item, text: str) -> bool:
    """Whether it is the reference, both cut to a line where the item is one."""
    said, wanted = text.strip(), item.middle.strip()
    return (said.partition("\n")[0].rstrip() if item.kind in LINE_KINDS else said) == wanted


def decoded(written: Sequence[tuple[Item, dict[str, Any]]]) -> dict[str, Any]:
    """Tokens that would be decoded with all rules, and those of them that would be shown.

    The healed part is not counted. What ends an answer (a line end, the end token) is drawn by the
    pass that draws what is in front of it, and is counted by itself.
    """
    total = Counter[str]()
    for item, row in written:
        total.update(tokens_of(item, row))
    share = total["shown"] / max(1, total["decoded"])
    return {"tokens": dict(total), "share": round(share, 4)}


def tokens_of(item: Item, row: dict[str, Any]) -> dict[str, int]:
    from completiond.prompt.reading import Reader
    from completiond.prompt.stopping import Cursor, rule

    data = rule(Cursor(item.prefix, item.suffix, item.language), healed="", stop_ids=[])
    healed, ends = len(row["healed"]), row["ends"]
    reader, at, drawn = Reader(data), healed, 0
    said = row["text"]
    for end in ends:
        if end <= healed:
            continue
        drawn += 1
        stop = reader.feed(said[at:end])
        at = end
        if stop:
            break
    text = shown(item, row | {"text": said[:at]}, "")
    kept = said[healed:at].find(text) + len(text) if text else 0
    seen = sum(healed < end and start - healed < kept for start, end in _spans(ends))
    ended = int(drawn > seen)
    return {"decoded": drawn, "shown": seen, "ends": ended, "nothing": drawn * (not text)}


def _spans(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    yield from zip([0, *ends], ends, strict=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared/data")
    parser.add_argument("--limit", type=int, default=0, help="so many items, 0: all")
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--write", type=Path, help="fill items and keep what was written here")
    todo.add_argument("--judge", type=Path, help="judge what was written there")
    arguments = parser.parse_args()
    if arguments.write:
        write(arguments)
    else:
        print(json.dumps(judge(arguments)))


if __name__ == "__main__":
    main()
