"""Drafters for tests: random, adversarial, clairvoyant, in chains and trees."""

import random
from collections.abc import Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext


class Quiet:
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
        ids, parents = [], []
        for i in range(budget):
            node = (self._random.randrange(-1, i), self._random.randrange(self._vocabulary))
            if node not in seen and node[0] < len(ids):
                seen.add(node)
                parents.append(node[0])
                ids.append(node[1])
        n = len(ids)
        return Draft(tuple(ids), tuple(parents), (0.5,) * n, (self.name,) * n)


class Clairvoyant(Quiet):
    """Knows the plain answer; errs from depth `wrong` on.

    As a tree it grows a decoy before each node, and under the decoy the token that would be right
    one deeper: an orphan that must not be taken.
    """

    name = "clairvoyant"

    def __init__(self, answer: Sequence[int], *, wrong: int = 1 << 30, tree: bool = False) -> None:
        self._answer, self._wrong, self._tree = list(answer), wrong, tree

    def propose(self, context: DraftContext, budget: int) -> Draft:
        done = len(context.generated)
        truth = self._answer[done : done + budget]
        ids, parents, last = [], [], -1
        for depth, token in enumerate(truth):
            if self._tree and len(ids) + 2 < budget:
                ids += [token ^ 1, *truth[depth + 1 : depth + 2]]
                parents += [last, len(parents)][: len(ids) - len(parents)]
            if len(ids) >= budget:
                break
            ids.append(token ^ 2 if depth >= self._wrong else token)
            parents.append(last)
            last = len(ids) - 1
        n = len(ids)
        return Draft(tuple(ids), tuple(parents), (0.5,) * n, (self.name,) * n)
