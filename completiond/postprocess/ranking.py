"""Which of several candidates is offered first: one that leaves the file whole, then the likelier.

Knows text, Python's own parser, and brackets for every other language. Pure functions.
"""

import ast
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from completiond.brackets import balance
from completiond.core import Snapshot

LONGEST_PARSED = 24_576
"""Characters of a file that are parsed: some 20 ms, and only where a person asks."""


class Said(NamedTuple):
    """A candidate's text and its mean log-probability a token, as the target gives it."""

    text: str
    logprob: float


def ranked(candidates: Sequence[Said], snapshot: Snapshot) -> list[int]:
    """Their indices, the best first; equals stay in their order."""
    if len(candidates) < 2:
        return list(range(len(candidates)))
    found = [(faults(said.text, snapshot), -said.logprob) for said in candidates]
    return sorted(range(len(candidates)), key=found.__getitem__)


def faults(text: str, snapshot: Snapshot) -> int:
    """How far from whole the buffer is with `text` in it: 0 if it parses, or all brackets match."""
    whole = snapshot.before + text + snapshot.after
    found = balance(whole)
    unmatched = len(found.closes) + len(found.opens)
    if snapshot.language != "python" or snapshot.offset or len(whole) > LONGEST_PARSED:
        return unmatched
    return 0 if _parses(whole) else 1 + unmatched


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a string of the file may be odd; that is its business
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
