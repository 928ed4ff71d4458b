"""From rows to the tables and the last line: scores by setting, language, layout, context, rule.

Knows rows, items and their tests; knows no model but a way to count tokens. Everything is compared
pair by pair over the items that have an answer in every setting.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import eval_score as score
from eval_answers import ALL, WITHOUT, Row, Rules, answer, shown_tokens
from eval_sides import Setting
from eval_tests import can_test, passes
from infill_items import Item
from row_file import RowFile


class Scored(NamedTuple):
    """One answer: what of it is scored; `passed` is None where there are no tests to run."""

    text: str
    exact: bool
    similarity: float
    passed: bool | None


class Scores(NamedTuple):
    """The answers of one setting, item by item."""

    items: Sequence[Item]
    found: Sequence[Scored]

    @property
    def exact(self) -> list[float]:
        return [float(one.exact) for one in self.found]

    @property
    def passed(self) -> list[float]:
        return [float(one.passed) for one in self.found if one.passed is not None]

    @property
    def right(self) -> list[float]:
        """Whether each is right: by its tests, or where it has none by being what was there."""
        return [float(one.exact if one.passed is None else one.passed) for one in self.found]

    def means(self) -> dict[str, Any]:
        return {
            "exact": score.mean(self.exact),
            "edit_sim": score.mean([one.similarity for one in self.found]),
            "pass": score.mean(self.passed),
        }

    def against(self, other: "Scores") -> dict[str, Any]:
        """How much more often an answer is exact, and right, than the other's."""
        groups = [item.group for item in self.items]
        found = {"exact": score.paired(self.exact, other.exact, groups)}
        if self.passed:
            found["right"] = score.paired(self.right, other.right, groups)
        return found


class Judge:
    """Scores answers; what a test said is kept in a file, so that it runs once for a text."""

    def __init__(self, items: Sequence[Item], rows: RowFile, tests: RowFile | None) -> None:
        self.items = items
        self._rows = rows
        self._tests = tests

    def row(self, model: str, setting: Setting, item: Item) -> Row:
        return self._rows.rows[model, setting.name, item.key]

    def scores(self, model: str, setting: Setting, rules: Rules = ALL) -> Scores:
        found = [
            self._scored(item, answer(self.row(model, setting, item), item, rules))
            for item in self.items
        ]
        return Scores(self.items, found)

    def _scored(self, item: Item, shown: str) -> Scored:
        text = score.cut(shown, item)
        exact = score.exact(text, item)
        return Scored(text, exact, score.similarity(text, item), self._passed(item, text))

    def _passed(self, item: Item, text: str) -> bool | None:
        if self._tests is None or not can_test(item):
            return None
        key = (item.key, hashlib.sha256(text.encode("utf-8", "replace")).hexdigest())
        if key not in self._tests.rows:
            passed = bool(text.strip()) and passes(item, text)
            self._tests.add({"item": key[0], "text": key[1], "passed": passed})
        return bool(self._tests.rows[key]["passed"])


class Report:
    """The figures of a model in the settings that were run; `main` is the product as it is."""

    def __init__(self, model: str, main: Setting, settings: Sequence[Setting], judge: Judge):
        self._model, self._main, self._settings, self._judge = model, main, settings, judge
        self._scores: dict[tuple[Setting, Rules], Scores] = {}

    def scores(self, setting: Setting, rules: Rules = ALL) -> Scores:
        if (setting, rules) not in self._scores:
            self._scores[setting, rules] = self._judge.scores(self._model, setting, rules)
        return self._scores[setting, rules]

    def result(self, count: Callable[[str], int]) -> dict[str, Any]:
        main, items = self.scores(self._main), self._judge.items
        columns: dict[str, Sequence[float]] = {"exact": main.exact}
        columns["edit_sim"] = [one.similarity for one in main.found]
        columns["right"] = main.right
        return {
            "items": len(items),
            **main.means(),
            "tested": len(main.passed),
            "shown": self.shown(count),
            "by_language": score.by_language(items, columns),
            "by_layout": self._by_layout(),
            "context": self._by_context(),
            "rules": self._by_rule(),
            "peers": self._peers(),
            "intervals": "95 %, bootstrap of paired differences over files or tasks",
        }

    def shown(self, count: Callable[[str], int]) -> float | None:
        """The share of decoded tokens that were shown, the healed word among both."""
        decoded = seen = 0
        for item in self._judge.items:
            row = self._judge.row(self._model, self._main, item)
            seen += shown_tokens(row, answer(row, item), count)
            decoded += row["decoded"]
        return round(seen / decoded, 4) if decoded else None

    def _by_layout(self) -> dict[str, Any]:
        main = self.scores(self._main)
        return {
            s.layout: self.scores(s).means() | {"against_default": self.scores(s).against(main)}
            for s in self._settings
            if s.side == "ours" and s.context == self._main.context and not s.free
        }

    def _by_context(self) -> dict[str, Any]:
        main = self.scores(self._main)
        return {
            s.context: self.scores(s).means() | {"against_none": self.scores(s).against(main)}
            for s in self._settings
            if s.side == "ours" and s.layout == self._main.layout and s.context != "none"
        }

    def _by_rule(self) -> dict[str, Any]:
        """All rules against all but one: what they add, and the right answers that they cost."""
        free = next((s for s in self._settings if s.free), None)
        if free is None:
            return {}
        every = self.scores(free)
        without = {name: self.scores(free, rules) for name, rules in WITHOUT.items()}
        return {
            name: found.means() | {"changed": _changed(every, found), "adds": every.against(found)}
            for name, found in without.items()
        }

    def _peers(self) -> dict[str, Any]:
        """Each peer by context, and what we are above it with the same one."""
        found: dict[str, Any] = {}
        for theirs in (s for s in self._settings if s.side != "ours"):
            ours = self.scores(self._main._replace(context=theirs.context))
            compared = self.scores(theirs).means() | {"ours": ours.means()}
            compared["we_are_above"] = ours.against(self.scores(theirs))
            found.setdefault(theirs.side, {})[theirs.context] = compared
        return found

    def losses(self) -> Iterator[str]:
        """The items that a peer has right and we have not: what each said."""
        for theirs in (s for s in self._settings if s.side != "ours"):
            ours = self.scores(self._main._replace(context=theirs.context))
            pairs = zip(self._judge.items, ours.found, self.scores(theirs).found, strict=True)
            for item, mine, other in pairs:
                if other.exact and not mine.exact:
                    line = item.prefix.rpartition("\n")[2]
                    said = f"{line!r} | ours {mine.text!r} | {theirs.name} {other.text!r}"
                    yield f"{item.key} {item.kind}: {said}"


def _changed(every: Scores, found: Scores) -> int:
    return sum(a.text != b.text for a, b in zip(every.found, found.found, strict=True))


def table(result: dict[str, Any]) -> Iterator[str]:
    """The same for a person."""
    yield f"{result['items']} items, {result['tested']} of them with tests that were run"
    yield "| | exact | edit similarity | pass | exact, difference |"
    yield "|---|---|---|---|---|"
    yield _line("as the product is", result, None)
    for name, found in result["by_layout"].items():
        yield _line(name, found, found["against_default"]["exact"])
    for name, found in result["context"].items():
        yield _line(f"chunks: {name}", found, found["against_none"]["exact"])
    for name, found in result["rules"].items():
        yield _line(f"without {name}; difference: with it", found, found["adds"]["exact"])
    for name, contexts in result["peers"].items():
        for context, found in contexts.items():
            yield _line(f"{name}, {context}; ours above it", found, found["we_are_above"]["exact"])


def _line(name: str, found: dict[str, Any], difference: dict[str, Any] | None) -> str:
    cells = [name, *(_cell(found[key]) for key in ("exact", "edit_sim", "pass"))]
    if difference is not None:
        low_high = " to ".join(f"{100 * end:+.1f}" for end in difference["interval"])
        cells.append(f"{100 * difference['difference']:+.1f} ({low_high})")
    return "| " + " | ".join(cells) + " |"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
