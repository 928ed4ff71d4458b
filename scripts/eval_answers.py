"""From a row to the answer that a person would see, with all rules or without some of them.

Pure functions of a row and its item; a row of a free run gives the answer under every rule, because
a stop rule reads text only and ends a run where it would cut the text.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from infill_items import Item

from completiond.postprocess.clean import clean
from completiond.prompt.stopping import trim

Row = Mapping[str, Any]


class Rules(NamedTuple):
    """Which rules make the answer."""

    stop: bool = True
    clean: bool = True


ALL = Rules()
WITHOUT = {
    "stop rules": Rules(stop=False),
    "cleaning": Rules(clean=False),
    "both": Rules(False, False),
}


def answer(row: Row, item: Item, rules: Rules = ALL) -> str:
    """What is shown. A peer's row holds that itself."""
    if "stop" not in row:
        return str(row["text"])
    text = _ended(row, rules.stop)
    if not rules.clean:
        return text
    shown, _ = clean(text, item.snapshot())
    return shown


def _ended(row: Row, by_rules: bool) -> str:
    stop, text = row["stop"], row["text"]
    if by_rules:
        return trim(text, stop, row["reason"])
    healed = stop["healed"]
    return text[len(healed) :] if text.startswith(healed) else ""


def shown_tokens(row: Row, shown: str, count: Callable[[str], int]) -> int:
    """Tokens of what is seen of a run: the healed word stands at the cursor, if nothing else."""
    return count(row["stop"]["healed"] + shown) if shown else 0
