"""What each rule costs and gives: infill items filled without any rule, then judged.

`--write FILE` lets the model write on until it ends by itself or the limit; it can be interrupted
and goes on. `--judge FILE` needs no model: all rules against all but one, on what was written, so a
difference is the rule's. `--perfect` judges a model that writes what was there, and then on what
stands behind it: what is lost there, a rule costs. Ends with one JSON line.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench_items import LONGEST, SLACK, make_filler
from infill_items import LINE_KINDS, Item, read_items

from completiond.core import Snapshot
from completiond.postprocess.clean import RULES, clean
from completiond.prompt.reading import STOPS, Reader
from completiond.prompt.stopping import Cursor, rule, trim

REPOSITORY = Path(__file__).resolve().parent.parent
BEHIND = 400
"""Characters of the text behind the hole that a perfect model goes on with."""
NAMES = [*(f"stop {name}" for name in STOPS), *RULES]
CELLS = ("changed", "kept", "lost", "mended", "wrong", "nothing")
HEAD = "rule | changed | right: kept, lost | wrong: mended, still wrong, shows nothing now"


class Written(NamedTuple):
    """What stands in an item's hole before any rule; `ends` is where each token ends in it."""

    item: Item
    text: str
    reason: str
    healed: str = ""
    ends: Sequence[int] = ()
    invoked: bool = False

    def rule(self, off: Sequence[str] = (), healed: str = "") -> dict[str, Any]:
        cursor = Cursor(self.item.prefix, self.item.suffix, self.item.language)
        return rule(cursor, healed=healed, stop_ids=[], invoked=self.invoked, off=off)

    def shown(self, off: str = "") -> str:
        """What a person would be shown, with all rules but one."""
        stops = [off.removeprefix("stop ")] if off.startswith("stop ") else []
        text = trim(self.text, self.rule(stops, self.healed), self.reason)
        item = self.item
        here = Snapshot(item.key, 1, item.language, "", item.prefix, item.suffix)
        return clean(text, here, off=[off])[0]

    def is_right(self, text: str) -> bool:
        """Whether it is the reference, cut to a line where the item is one."""
        said, wanted = text.strip(), self.item.middle.strip()
        line = self.item.kind in LINE_KINDS
        return (said.partition("\n")[0].rstrip() if line else said) == wanted


# -- what is written ------------------------------------------------------------------------------


def write(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill items of every set in a mixed order, so that what is done is a fair sample."""
    items = chosen(arguments)
    random.Random(1).shuffle(items)
    done = {row["item"] for row in rows(arguments.write)}
    filler = make_filler(arguments, "int8")
    free = {"off": list(STOPS), "single": False, "statement": False}
    for item in [item for item in items[: arguments.limit or None] if item.key not in done]:
        room = len(filler.tokenizer.encode(item.middle)) + SLACK
        built = filler.built(item, min(room, LONGEST))
        filler.forget()
        ids, _, reason = filler.run(built, built.stop | free)
        ends = [len(filler.tokenizer.decode(ids[: n + 1])) for n in range(len(ids))]
        text = filler.tokenizer.decode(ids[:-1] if reason == "eos" else ids)
        row = {"item": item.key, "healed": built.healed, "reason": reason, "ends": ends}
        with arguments.write.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | {"text": text}) + "\n")
    return {"items": len(list(rows(arguments.write)))}


def chosen(arguments: argparse.Namespace) -> list[Item]:
    items = read_items(arguments.data / "infill")
    return [item for item in items if item.set.startswith(arguments.set)]


def rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        yield json.loads(line)


def written(arguments: argparse.Namespace) -> list[Written]:
    items = {item.key: item for item in chosen(arguments)}
    asked = {"invoked": arguments.invoked}
    if arguments.perfect:
        tokenizer = load_tokenizer(arguments.model)
        texts = {key: item.middle + item.suffix[:BEHIND] for key, item in items.items()}
        return [
            Written(items[key], text, "length", ends=ends(text, tokenizer), **asked)
            for key, text in texts.items()
        ]
    found = (dict(row) for row in rows(arguments.judge) if row["item"] in items)
    return [Written(items[row.pop("item")], **row, **asked) for row in found]


def load_tokenizer(model: str) -> Any:
    from completiond.model import store
    from completiond.prompt.tokenizer import Tokenizer

    files = store.resolve(model)
    return Tokenizer.load(files.directory, name=files.name)


def ends(text: str, tokenizer: Any) -> list[int]:
    """Where each token of `text` ends in it."""
    spelled, found = b"", []
    for token in tokenizer.encode(text):
        spelled += tokenizer.token_bytes(token)
        found.append(len(spelled.decode("utf-8", "replace")))
    return found


# -- what is shown of it --------------------------------------------------------------------------


def judge(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each rule: on how many items it changes what is shown, and what that was."""
    said = written(arguments)
    whole = [one.shown() for one in said]
    print(HEAD)
    table = {name: _compared(said, whole, name) for name in NAMES}
    for name, counts in table.items():
        print(" | ".join([name, *(str(counts[cell]) for cell in CELLS)]))
    right = sum(one.is_right(text) for one, text in zip(said, whole, strict=True))
    return {"items": len(said), "right": right, "rules": table} | _decoded(said)


def _compared(said: Sequence[Written], whole: Sequence[str], name: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one, ours in zip(said, whole, strict=True):
        other = one.shown(name)
        if ours == other:
            continue
        was, now = one.is_right(other), one.is_right(ours)
        counts["changed"] += 1
        counts["kept"] += was and now
        counts["lost"] += was and not now
        counts["mended"] += now and not was
        counts["wrong"] += not (was or now)
        counts["nothing"] += not (was or ours.strip())
    return counts


def _decoded(said: Sequence[Written]) -> dict[str, Any]:
    """Tokens that are decoded with all rules, and those of them that are shown, also by set.

    The healed part is not counted. `last`: the tokens that ended a run without being shown.
    """
    total = Counter[str]()
    for name in sorted({one.item.set for one in said}):
        found = Counter[str]()
        for one in said:
            if one.item.set == name:
                found.update(_tokens(one))
        print(f"{name}: {found['shown']} of {found['decoded']} tokens are shown")
        total += found
    decoded = max(1, total["decoded"])
    shares = {
        "shown": total["shown"] / decoded,
        "shown_or_last": (total["shown"] + total["last"]) / decoded,
    }
    return {"tokens": dict(total)} | {name: round(share, 4) for name, share in shares.items()}


def _tokens(one: Written) -> dict[str, int]:
    reader, healed = Reader(one.rule()), len(one.healed)
    at, drawn = healed, 0
    for end in one.ends:
        if end <= healed:
            continue
        drawn += 1
        stop = reader.feed(one.text[at:end])
        at = end
        if stop:
            break
    text = one._replace(text=one.text[:at]).shown()
    kept = healed + one.text[healed:at].find(text) + len(text) if text else 0
    spans = zip([0, *one.ends], one.ends, strict=False)
    seen = sum(end > healed and start < kept for start, end in spans)
    return {"decoded": drawn, "shown": seen, "last": int(drawn > seen)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, default=REPOSITORY.parent / "shared/data")
    parser.add_argument("--set", default="", help="sets whose name begins so")
    parser.add_argument("--limit", type=int, default=0, help="so many items, 0: all")
    parser.add_argument("--invoked", action="store_true", help="judge as if a person had asked")
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--write", type=Path, help="fill items and keep what was written here")
    todo.add_argument("--judge", type=Path, help="judge what was written there")
    todo.add_argument("--perfect", action="store_true", help="judge a model that is always right")
    arguments = parser.parse_args()
    print(json.dumps((write if arguments.write else judge)(arguments)))


if __name__ == "__main__":
    main()
