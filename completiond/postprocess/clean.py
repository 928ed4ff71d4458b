"""From what a model wrote to what may be drawn at the cursor: the rules, in their order.

Knows the buffer around the cursor; knows no model. Each rule is a pure function on text that only
takes away, but for the blanks in front of lines; each can be left out, to see what it costs.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from completiond.core import Snapshot
from completiond.postprocess import closers, indentation, overlap, repetition
from completiond.postprocess.leaks import before_leak, spells_any
from completiond.postprocess.place import Place, lf, place


def _without_leak(text: str, at: Place) -> str:
    return before_leak(text, names=not spells_any(at.before, at.after))


class Rule(NamedTuple):
    """What it does, and the reason it gives where it leaves nothing."""

    apply: Callable[[str, Place], str]
    reason: str


RULES = {
    "sentinel": Rule(_without_leak, "sentinel"),
    "indent": Rule(indentation.as_in_file, "blank"),
    "double": Rule(indentation.without_double, "blank"),
    "echo": Rule(overlap.without_echo, "repeats_line"),
    "overlap": Rule(overlap.without_rest, "repeats_suffix"),
    "bracket": Rule(closers.without_unowned, "closes_too_much"),
    "snip": Rule(closers.without_snipped, "repeats_next_lines"),
    "below": Rule(overlap.without_below, "repeats_next_lines"),
    "similar": Rule(overlap.without_similar, "repeats_next_lines"),
    "above": Rule(overlap.without_above, "repeats_above"),
    "repetition": Rule(repetition.without_loop, "repetition"),
}
REPEATS = ("repeats_suffix", "repeats_next_lines")
"""Reasons by which an answer says that what is there already comes next."""


class Cleaned(NamedTuple):
    """What may be shown; a reason if that is nothing; characters that each rule took away."""

    text: str
    reason: str
    removed: dict[str, int]


def clean(
    text: str, snapshot: Snapshot, *, least: int = 1, off: Collection[str] = ()
) -> tuple[str, str]:
    """What to insert at the cursor of a snapshot, and a reason if that is nothing."""
    found = cleaned(text, snapshot, least=least, off=off)
    return found.text, found.reason


def cleaned(text: str, snapshot: Snapshot, *, least: int = 1, off: Collection[str] = ()) -> Cleaned:
    """The same with an account. Less than `least` characters are not shown; rules that `off` names
    are left out."""
    at = place(snapshot.before, snapshot.after, snapshot.language, snapshot.indent)
    return _cleaned(text, at, least, off)


def as_typed(text: str, snapshot: Snapshot) -> str:
    """`text` with the blanks that the buffer will have, so that typing them agrees with it."""
    if "\n" not in text and text[:1] not in (" ", "\t"):
        return text
    at = place(snapshot.before, snapshot.after, snapshot.language, snapshot.indent)
    return indentation.without_double(indentation.as_in_file(text, at), at)


def fit(text: str, before: str, after: str) -> tuple[str, str]:
    """What to insert between two texts, and a reason if that is nothing."""
    found = _cleaned(text, place(before, after), 1, ())
    return found.text, found.reason


def _cleaned(text: str, at: Place, least: int, off: Collection[str]) -> Cleaned:
    shown, removed = lf(text), dict[str, int]()
    if not shown.strip():
        return Cleaned("", "blank", removed)
    for name, after in _steps(shown, at, off):
        if after != shown:
            removed[name] = len(shown) - len(after)
        shown = after
        if not shown.strip():
            return Cleaned("", RULES[name].reason, removed)
    shown = indentation.before_rest(shown, at) if at.rest.strip() else shown.rstrip()
    if len(shown.strip()) < least:
        return Cleaned("", "too_short", removed | {"least": len(shown)})
    return Cleaned(shown, "", removed)


def _steps(text: str, at: Place, off: Collection[str]) -> Iterator[tuple[str, str]]:
    """Each rule that is on, and what it leaves."""
    for name, rule in RULES.items():
        if name not in off:
            text = rule.apply(text, at)
            yield name, text
