"""Token recycling (Luo et al., arXiv:2408.08696): what the target thought likely behind each token.

Every pass says of all its rows, those of rejected drafts too, which tokens were likeliest next.
The latest of them are kept by the row's token; from the text's last token on they make a tree.
"""

from collections import OrderedDict
from heapq import heappop, heappush

from completiond.core import NO_DRAFT, Draft, Likely, Step
from completiond.drafters.base import DraftContext, committed

LIKELIEST = 8
"""Tokens that are read behind each row of a pass."""
TOKENS, CLIENTS = 4096, 8
"""Tokens of a client whose successors are kept, the latest seen, and clients."""
BYTES = 200 + 120 * LIKELIEST
"""What one token and its successors take, about."""
HOLDS = 0.6
"""Part of a chance that is left of it at another place of the same token."""
LEAST = 0.03
"""Paths less likely than this are not drafted."""


class TokenRecycling:
    """Needs `Step.tree` and `Step.likely`; without them it has nothing to learn from."""

    name = "token_recycling"

    def __init__(self) -> None:
        self._clients: OrderedDict[str, OrderedDict[int, Likely]] = OrderedDict()

    @property
    def bytes(self) -> int:
        return BYTES * sum(map(len, self._clients.values()))

    def propose(self, context: DraftContext, budget: int) -> Draft:
        """The likeliest `budget` nodes, best first."""
        if not context.generated:  # a half-typed word says more of what may come first
            return NO_DRAFT
        known = self._client(context.client)
        heap: list[tuple[float, int, int, int]] = []
        nodes: list[tuple[int, int, float, int]] = []
        _push(heap, known.get(context.ids[-1], ()), -1, 1.0)
        while heap and len(nodes) < budget:
            negative, parent, token, rank = heappop(heap)
            if token in context.stop_ids:
                continue  # the pass that keeps the token before it draws it anyway
            nodes.append((token, parent, -negative, rank))
            _push(heap, known.get(token, ()), len(nodes) - 1, -negative)
        if not nodes:
            return NO_DRAFT
        ids, parents, probs, ranks = zip(*nodes, strict=True)
        return Draft(ids, parents, probs, (self.name,) * len(ids), None, ranks)

    def observe(self, context: DraftContext, step: Step) -> None:
        if not step.likely:
            return
        known = self._client(context.client)
        last = context.ids[-1 - len(step.ids) if committed(context, step) else -1]
        for token, likely in zip((last, *step.tree.ids), step.likely, strict=True):
            known[token] = likely
            known.move_to_end(token)
        while len(known) > TOKENS:
            known.popitem(last=False)

    def _client(self, name: str) -> OrderedDict[int, Likely]:
        held = self._clients.setdefault(name, OrderedDict())
        self._clients.move_to_end(name)
        if len(self._clients) > CLIENTS:
            self._clients.popitem(last=False)
        return held


def _push(
    heap: list[tuple[float, int, int, int]], likely: Likely, parent: int, above: float
) -> None:
    for rank, (token, chance) in enumerate(likely):
        path = above * chance * HOLDS
        if path < LEAST:
            return
        heappush(heap, (-path, parent, token, rank))
