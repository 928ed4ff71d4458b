"""From places where the end of a text stood before to a tree of what may follow, with chances.

Pure. At each node the places that agree so far vote: the longest matches first, each length with
the chance that its counts give it, the shorter ones with what is left, as in prediction by partial
matching (Cleary & Witten, 1984). Later places weigh more.
"""

from array import array
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from completiond.core import NO_DRAFT, Draft

DOUBT = (4.0, 2.4, 1.3, 0.8, 0.6, 0.45, 0.35, 0.28, 0.22, 0.2, 0.18, 0.16, 0.14)
"""Counts that are added for "something else", by the tokens that match: the smoothing."""
FADES = 0.8
"""Weight of each place of the same length against the one that came after it."""
LEAST = 0.02
"""Paths less likely than this are not drafted."""


class Candidate(NamedTuple):
    """A place in `tokens` where the text may go on at `at`, after `length` equal tokens."""

    tokens: "array[int]"
    at: int
    length: int
    weight: float


class _Vote(NamedTuple):
    prob: float
    length: int
    followers: list[Candidate]


def weighed(found: Sequence[tuple["array[int]", int, int]]) -> list[Candidate]:
    """(tokens, at, length), among equal lengths the latest first → candidates, longest first."""
    ordered = sorted(found, key=lambda f: -f[2])
    candidates, last, weight = [], -1, 1.0
    for tokens, at, length in ordered:
        weight = weight * FADES if length == last else 1.0
        last = length
        candidates.append(Candidate(tokens, at, length, weight))
    return candidates


def grow(
    candidates: list[Candidate], budget: int, source: str, stop_ids: Sequence[int] = ()
) -> Draft:
    """The likeliest `budget` nodes; where a text ended, the first of `stop_ids` is a leaf."""
    end = stop_ids[0] if stop_ids else -1
    heap: list[tuple[float, int, int, int, _Vote]] = []
    _push(heap, -1, 1.0, candidates, end)
    ids: list[int] = []
    parents: list[int] = []
    probs: list[float] = []
    matched: list[int] = []
    while heap and len(ids) < budget:
        negative, _, token, parent, vote = heappop(heap)
        ids.append(token)
        parents.append(parent)
        probs.append(-negative)
        matched.append(vote.length)
        if vote.followers and len(ids) < budget:
            _push(heap, len(ids) - 1, -negative, vote.followers, end)
    if not ids:
        return NO_DRAFT
    return Draft(
        tuple(ids), tuple(parents), tuple(probs), (source,) * len(ids), None, tuple(matched)
    )


def _push(
    heap: list[tuple[float, int, int, int, _Vote]],
    parent: int,
    above: float,
    candidates: list[Candidate],
    end: int,
) -> None:
    for token, vote in _votes(candidates, end).items():
        prob = above * vote.prob
        if prob >= LEAST:
            heappush(heap, (-prob, parent, token, parent, vote))


def _votes(candidates: list[Candidate], end: int) -> dict[int, _Vote]:
    """What may come next, by token; `candidates` are sorted by length, longest first."""
    votes: dict[int, _Vote] = {}
    left, start = 1.0, 0
    while start < len(candidates) and left > LEAST:
        length, stop, total = candidates[start].length, start, 0.0
        while stop < len(candidates) and candidates[stop].length == length:
            total += candidates[stop].weight
            stop += 1
        each = left / (total + DOUBT[min(length, len(DOUBT) - 1)])
        for candidate in candidates[start:stop]:
            _vote(votes, candidate, each * candidate.weight, end)
        left -= each * total
        start = stop
    return votes


def _vote(votes: dict[int, _Vote], candidate: Candidate, prob: float, end: int) -> None:
    tokens, at, length, weight = candidate
    if at >= len(tokens):
        return
    token = tokens[at]
    if token < 0:
        if end < 0:
            return
        token, followers = end, []
    else:
        followers = [Candidate(tokens, at + 1, length + 1, weight)]
    held = votes.get(token)
    if held is None:
        votes[token] = _Vote(prob, length, followers)
    else:
        votes[token] = _Vote(held.prob + prob, held.length, held.followers + followers)
