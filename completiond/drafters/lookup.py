"""Prompt lookup: what followed the last tokens when they stood in the text before.

Source: prompt lookup decoding (Saxena, 2023), on the *logical* text (other files, the text after
the cursor, then prefix + typed + generated) instead of the raw prompt, which in fill-in-the-middle
ends with the suffix. The longest match wins, the latest among equals; no state is kept.
"""

import numpy as np
import numpy.typing as npt

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext

Ids = npt.NDArray[np.int64]

BOUNDARY = -1
"""Separates texts; it equals no token, so no match and no draft crosses it."""
LONGEST = 32
"""Tokens of a match that are told apart; a longer one is as good."""
PER_MATCHED = (0, 2, 4)
"""Longest draft after a match of 0, 1 and 2 tokens; a longer match may fill the budget."""


class Lookup:
    name = "lookup"

    def propose(self, context: DraftContext, budget: int) -> Draft:
        text = logical_text(context)
        start, length = longest_match(text)
        if length < len(PER_MATCHED):
            budget = min(budget, PER_MATCHED[length])
        follow = text[start : start + budget]
        ends = np.flatnonzero(follow == BOUNDARY)
        ids = follow[: ends[0]] if len(ends) else follow
        return Draft.chain([int(i) for i in ids], self.name) if len(ids) else NO_DRAFT

    def observe(self, context: DraftContext, step: Step) -> None:
        pass  # nothing is kept between runs


def logical_text(context: DraftContext) -> Ids:
    """[T] ids: other files, text after the cursor, then the text that is being continued."""
    ids = np.asarray(context.ids, dtype=np.int64)
    own = {"prefix", "typed"}
    parts: list[Ids] = []
    for segment in context.segments:
        if segment.kind not in own and segment.kind != "control":
            parts += [ids[segment.start : segment.end], np.array([BOUNDARY])]
    parts += [ids[s.start : s.end] for s in context.segments if s.kind in own]
    if not context.segments:
        parts.append(ids[: context.prompt])
    return np.concatenate([*parts, ids[context.prompt :]])


def longest_match(text: Ids) -> tuple[int, int]:
    """(index behind the match, its length) of the best earlier occurrence of the text's end."""
    tail = text[-LONGEST:]
    edges = np.flatnonzero(tail == BOUNDARY)
    longest = min(len(text) - 1, len(tail) - 1 - int(edges[-1]) if len(edges) else len(tail))
    if longest < 1:
        return len(text), 0
    ends = np.flatnonzero(text[:-1] == text[-1])
    best, length = len(text) - 1, 0
    while len(ends) and length < longest:
        best, length = int(ends[-1]), length + 1
        behind = ends - length
        ends = ends[(behind >= 0) & (text[behind] == text[-1 - length])]
    return best + 1, length
