"""Prompt lookup: what followed the last tokens when they stood in the text before.

Source: prompt lookup decoding (Saxena, 2023), on the *logical* text of the run alone. The longest
match wins, the latest among equals. Only the text of a run on its way is kept.
"""

import numpy as np

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.text import BOUNDARY, Ids, RunTexts

LONGEST = 32
"""Tokens of a match that are told apart; a longer one is as good."""
PER_MATCHED = (0, 2, 4)
"""Longest draft after a match of 0, 1 and 2 tokens; a longer match may fill the budget."""
HOLDS = (0.0, 0.3, 0.45, 0.55, 0.6, 0.7, 0.75, 0.8, 0.85, 0.85, 0.85, 0.85, 0.9)
"""Chance that the next token is that of the match, by its length: the longer, the surer."""


class Lookup:
    name = "lookup"

    def __init__(self) -> None:
        self._texts = RunTexts()

    def propose(self, context: DraftContext, budget: int) -> Draft:
        text = self._texts.of(context)
        start, length = longest_match(text)
        if length < len(PER_MATCHED):
            budget = min(budget, PER_MATCHED[length])
        follow = text[start : start + max(0, budget)]
        ends = np.flatnonzero(follow == BOUNDARY)
        ids = follow[: ends[0]] if len(ends) else follow
        return self._chain(ids.tolist(), length) if len(ids) else NO_DRAFT

    def observe(self, context: DraftContext, step: Step) -> None:
        if step.reason:
            self._texts.forget(context)

    def _chain(self, ids: list[int], length: int) -> Draft:
        n, path, probs, matched = len(ids), 1.0, [], range(length, length + len(ids))
        for depth in matched:
            path *= HOLDS[min(depth, len(HOLDS) - 1)]
            probs.append(path)
        parents = tuple(range(-1, n - 1))
        return Draft(tuple(ids), parents, tuple(probs), (self.name,) * n, None, tuple(matched))


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
