"""From places where the end of a text stood before to a tree of what may follow, with chances.

Pure. At each node the places that agree so far vote: the longest matches first, each length with
the chance that its counts give it, the shorter ones with what is left, as in prediction by partial
matching (Cleary & Witten, 1984). Later places weigh more.
"""

from array import array
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from completiond.core import NO_DRAFT, Draft

DOUBT = (30.0, 6.0, 2.0, 0.8, 0.6, 0.45, 0.35, 0.28, 0.22, 0.2, 0.18, 0.16, 0.14)
"""Counts that are added for "something else", by the tokens that match: the smoothing. Fitted to
answers of a 0.5b model: nothing that matches held in 4 of 100 cases, one token in 20 to 30."""
FADES = 0.8
"""Weight of each place of the same length against the one that came after it."""
LEAST = 0.02
"""Paths less likely than this are not drafted."""

Found = tuple["array[int]", int, int]
"""(tokens, at, length): a place where the text may go on at `at`, after `length` equal tokens."""
_Candidate = tuple[int, float, "array[int]", int]  # length, weight, tokens, at
_Vote = tuple[float, int, list[_Candidate]]  # probability, length, those who go on from there
_Entry = tuple[float, int, int, int, list[_Candidate]]  # -path, parent, token, length, followers


def grow(found: Sequence[Found], budget: int, source: str, stop_ids: Collection[int] = ()) -> Draft:
    """The likeliest `budget` nodes; of equal lengths the first of `found` weighs most.

    No path goes over the end of a text, and none has a stop id: the pass that keeps the token
    before it draws it anyway, so that a node for it would cost a row and never save a pass.
    """
    heap: list[_Entry] = []
    nodes: list[tuple[int, int, float, int]] = []
    _push(heap, -1, 1.0, _weighed(found), stop_ids)
    while heap and len(nodes) < budget:
        negative, parent, token, length, followers = heappop(heap)
        nodes.append((token, parent, -negative, length))
        # A path of which one place is left needs no votes, and no heap while it is the likeliest.
        while len(followers) == 1 and len(nodes) < budget:
            length, weight, tokens, at = followers[0]
            token = tokens[at] if at < len(tokens) else -1
            negative *= weight / (weight + DOUBT[length if length < 12 else 12])
            if token < 0 or -negative < LEAST or token in stop_ids:
                break
            followers = [(length + 1, weight, tokens, at + 1)]
            if heap and heap[0][0] < negative:
                heappush(heap, (negative, len(nodes) - 1, token, length, followers))
                break
            nodes.append((token, len(nodes) - 1, -negative, length))
        else:
            if len(nodes) < budget:
                _push(heap, len(nodes) - 1, -negative, followers, stop_ids)
    if not nodes:
        return NO_DRAFT
    ids, parents, probs, matched = zip(*nodes, strict=True)
    return Draft(ids, parents, probs, (source,) * len(ids), None, matched)


def _weighed(found: Sequence[Found]) -> list[_Candidate]:
    """Candidates, the longest first."""
    candidates: list[_Candidate] = []
    last, weight = -1, 1.0
    for tokens, at, length in sorted(found, key=lambda place: -place[2]):
        weight = weight * FADES if length == last else 1.0
        last = length
        candidates.append((length, weight, tokens, at))
    return candidates


def _push(
    heap: list[_Entry],
    parent: int,
    above: float,
    candidates: list[_Candidate],
    stop_ids: Collection[int],
) -> None:
    for token, (chance, length, followers) in _votes(candidates).items():
        prob = above * chance
        if prob >= LEAST and token >= 0 and token not in stop_ids:
            heappush(heap, (-prob, parent, token, length, followers))


def _votes(candidates: list[_Candidate]) -> dict[int, _Vote]:
    """What may come next, by token, -1 being the end of a text; longest candidates first."""
    votes: dict[int, _Vote] = {}
    left, start, count = 1.0, 0, len(candidates)
    while start < count and left > LEAST:
        length, stop, total = candidates[start][0], start, 0.0
        while stop < count and candidates[stop][0] == length:
            total += candidates[stop][1]
            stop += 1
        each = left / (total + DOUBT[length if length < 12 else 12])
        for _, weight, tokens, at in candidates[start:stop]:
            if at < len(tokens):
                token, one = tokens[at], (length + 1, weight, tokens, at + 1)
                held = votes.get(token)
                if held is None:
                    votes[token] = (each * weight, length, [one])
                else:
                    held[2].append(one)
                    votes[token] = (held[0] + each * weight, held[1], held[2])
        left -= each * total
        start = stop
    return votes
