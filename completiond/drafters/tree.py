"""Token trees: several drafts become one, and what a pass kept of it. Pure functions.

Knows Draft and nothing of who proposed it. A tree is sorted by the probability of the path down
to a node, which never rises downwards, so that each beginning of it is a tree again.
"""

from collections.abc import Sequence
from typing import NamedTuple

from completiond.core import NO_DRAFT, Draft, Step


class Tried(NamedTuple):
    """A node that the target decided on: all above it was kept."""

    node: int
    kept: bool


def merge(drafts: Sequence[Draft], width: int) -> Draft:
    """One tree of at most `width` nodes, the likeliest of all drafts.

    The same token under the same parent is one node, with the better probability and the name of
    the draft that came first.
    """
    assert all(d.q is None for d in drafts), "a sampled draft is verified whole and alone"
    index: dict[tuple[int, int], int] = {}
    parents: list[int] = []
    ids: list[int] = []
    probs: list[float] = []
    origin: list[tuple[str, int]] = []
    for draft in drafts:
        at: list[int] = []  # where this draft's nodes are in the merged tree
        for node, (token, parent) in enumerate(zip(draft.ids, draft.parents, strict=True)):
            above = at[parent] if parent >= 0 else -1
            here = index.setdefault((above, token), len(ids))
            if here == len(ids):
                ids.append(token)
                parents.append(above)
                probs.append(draft.probs[node])
                origin.append((draft.sources[node], matched_of(draft, node)))
            elif draft.probs[node] > probs[here]:
                probs[here] = draft.probs[node]
            at.append(here)
    sources, matched = zip(*origin, strict=True) if origin else ((), ())
    held = tuple(falling(parents, probs))
    whole = Draft(tuple(ids), tuple(parents), held, sources, None, matched)
    return cut(whole, held, width)


def cut(draft: Draft, paths: Sequence[float], width: int) -> Draft:
    """The best `width` nodes by the path probabilities `paths`, sorted, parents first.

    What the drafters themselves said of their nodes stays with them.
    """
    held = falling(draft.parents, paths)
    order = sorted(range(len(held)), key=lambda i: (-held[i], i))[: max(0, width)]
    return pick(draft, order) if order else NO_DRAFT


def falling(parents: Sequence[int], probs: Sequence[float]) -> list[float]:
    """`probs` with no node likelier than the one above it."""
    held: list[float] = []
    for prob, parent in zip(probs, parents, strict=True):
        held.append(min(prob, held[parent]) if parent >= 0 else prob)
    return held


def pick(draft: Draft, order: Sequence[int]) -> Draft:
    """The nodes `order`, which holds each one's parent before it."""
    at = {node: place for place, node in enumerate(order)}
    at[-1] = -1
    return Draft(
        tuple([draft.ids[i] for i in order]),
        tuple([at[draft.parents[i]] for i in order]),
        tuple([draft.probs[i] for i in order]),
        tuple([draft.sources[i] for i in order]),
        None,
        tuple([matched_of(draft, i) for i in order]),
    )


def pre_order(draft: Draft) -> Draft:
    """The same tree branch after branch: each node behind its parent or behind what follows it."""
    if draft.is_chain:
        return draft
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(draft.parents):
        children.setdefault(parent, []).append(node)
    order: list[int] = []
    waiting = children[-1][::-1]
    while waiting:
        order.append(waiting.pop())
        waiting += children.get(order[-1], [])[::-1]
    return pick(draft, order)


def likeliest(draft: Draft) -> list[int]:
    """The nodes of a sorted tree's first path down: of siblings, the first is the likeliest."""
    path, last = list[int](), -1
    for node, parent in enumerate(draft.parents):
        if parent == last:
            path.append(node)
            last = node
    return path


def forks(parents: Sequence[int]) -> int:
    """Nodes whose parent has another child already: the branches of a tree, but for the first."""
    return len(parents) - len(set(parents))


def matched_of(draft: Draft, node: int) -> int:
    return draft.matched[node] if draft.matched else 0


def depths(draft: Draft) -> list[int]:
    """Tokens above each node that are drafts too."""
    found: list[int] = []
    for parent in draft.parents:
        found.append(found[parent] + 1 if parent >= 0 else 0)
    return found


def nodes(step: Step) -> list[tuple[int, str, bool]]:
    """Each drafted token of a pass: its id, who proposed it, and whether it was kept."""
    tree = step.tree
    kept = {one.node for one in tried(tree, step.ids) if one.kept}
    named = enumerate(zip(tree.ids, tree.sources, strict=True))
    return [(token, source, node in kept) for node, (token, source) in named]


def tried(draft: Draft, ids: Sequence[int]) -> list[Tried]:
    """The nodes that a pass decided on when it committed `ids`: kept ones and their siblings."""
    found: list[Tried] = []
    kept = {-1: 0}  # node to the depth below it, along the path that was kept
    for node, (token, parent) in enumerate(zip(draft.ids, draft.parents, strict=True)):
        depth = kept.get(parent)
        if depth is None or depth >= len(ids):
            continue
        found.append(Tried(node, token == ids[depth]))
        if token == ids[depth]:
            kept[node] = depth + 1
    return found
