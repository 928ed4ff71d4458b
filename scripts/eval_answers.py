"""From a row to the answer that a person would see, with all rules or without some of them.

Pure functions of a row and its item; a row of a free run gives the answer under every rule, because
a stop rule reads text only and ends a run where it would cut the text.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from infill_items import Item

from completiond.postprocess.clean import RULES, clean
from completiond.prompt.reading import STOPS
from completiond.prompt.stopping import trim

Row = Mapping[str, Any]


class Rules(NamedTuple):
    """Which rules do not make the answer."""

    stops: frozenset[str] = frozenset()
    cleaning: frozenset[str] = frozenset()


ALL = Rules()
STOP_RULES, CLEANING = frozenset(STOPS), frozenset(RULES)
WITHOUT = {
    "stop rules": Rules(STOP_RULES),
    "cleaning": Rules(cleaning=CLEANING),
    "both": Rules(STOP_RULES, CLEANING),
    **{f"stop: {name}": Rules(frozenset({name})) for name in STOPS},
    **{f"cleaning: {name}": Rules(cleaning=frozenset({name})) for name in RULES},
}


def answer(row: Row, item: Item, rules: Rules = ALL) -> str:
    """What is shown. A peer's row holds that itself."""
    if "stop" not in row:
        return str(row["text"])
    text = _ended(row, rules.stops)
    if rules.cleaning == CLEANING:
        return text
    shown, _ = clean(text, item.snapshot(), off=rules.cleaning)
    return shown


def _ended(row: Row, off: frozenset[str]) -> str:
    """Where rules end it that are not `off`; without any, where the model did."""
    stop, text = row["stop"], row["text"]
    if off != STOP_RULES:
        return trim(text, {**stop, "off": sorted(off)}, row["reason"])
    healed = stop["healed"]
    return text[len(healed) :] if text.startswith(healed) else ""


def shown_tokens(row: Row, shown: str, count: Callable[[str], int]) -> int:
    """Tokens of what is seen of a run: the healed word stands at the cursor, if nothing else."""
    return count(row["stop"]["healed"] + shown) if shown else 0
