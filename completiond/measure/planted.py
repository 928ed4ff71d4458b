"""Drafters that know nothing, or too much: what a verifier must withstand.

An audit needs both: real drafters may never be right, or never wrong, on a person's few prompts.
"""

import random
from collections.abc import Mapping, Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext, Drafter

EVERY = 1 << 30


class Quiet:
    """Proposes nothing."""

    name = "quiet"

    def propose(self, context: DraftContext, budget: int) -> Draft:
        return NO_DRAFT

    def observe(self, context: DraftContext, step: Step) -> None:
        pass


class RandomTree(Quiet):
    """Random ids under random parents; siblings differ."""

    name = "random"

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._vocabulary = vocabulary

    def propose(self, context: DraftContext, budget: int) -> Draft:
        seen: set[tuple[int, int]] = set()
        ids: list[int] = []
        parents: list[int] = []
        for i in range(budget):
            node = (self._random.randrange(-1, i), self._random.randrange(self._vocabulary))
            if node not in seen and node[0] < len(ids):
                seen.add(node)
                parents.append(node[0])
                ids.append(node[1])
        return _tree(ids, parents, self.name)


class Clairvoyant(Quiet):
    """Knows the plain answer; errs from depth `wrong` on.

    As a tree it grows a decoy before each node, and under the decoy the token that would be right
    one deeper: an orphan that must not be taken.
    """

    name = "clairvoyant"

    def __init__(
        self,
        answer: Sequence[int],
        *,
        wrong: int = EVERY,
        tree: bool = False,
        vocabulary: int = EVERY,
    ) -> None:
        self._answer, self._wrong, self._tree = list(answer), wrong, tree
        self._vocabulary = vocabulary

    def propose(self, context: DraftContext, budget: int) -> Draft:
        done = len(context.generated)
        truth = self._answer[done : done + budget]
        ids: list[int] = []
        parents: list[int] = []
        last = -1
        for depth, token in enumerate(truth):
            if self._tree and len(ids) + 2 < budget:
                ids += [self._other(token, 1), *truth[depth + 1 : depth + 2]]
                parents += [last, len(parents)][: len(ids) - len(parents)]
            if len(ids) >= budget:
                break
            ids.append(self._other(token, 2) if depth >= self._wrong else token)
            parents.append(last)
            last = len(ids) - 1
        return _tree(ids, parents, self.name)

    def _other(self, token: int, bit: int) -> int:
        return (token ^ bit) % self._vocabulary


class ByBuffer(Quiet):
    """A drafter for each buffer."""

    name = "planted"

    def __init__(self, drafters: Mapping[str, Drafter]) -> None:
        self._drafters = drafters

    def propose(self, context: DraftContext, budget: int) -> Draft:
        return self._drafters[context.buffer].propose(context, budget)


def _tree(ids: Sequence[int], parents: Sequence[int], source: str) -> Draft:
    n = len(ids)
    return Draft(tuple(ids), tuple(parents), (0.5,) * n, (source,) * n)
