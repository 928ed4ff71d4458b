"""How a list of pieces changes as seldom, and as far back, as it can. Pure; knows no cache.

What stands first in a prompt stays in the KV cache while it stays the same: so what is held keeps
its place, what is new comes behind it, and when there is no room half goes at once.
"""

from collections.abc import Iterable, Sequence

from completiond_lsp.retrieval.gather import NEARLY_SAME, tokens_of
from completiond_lsp.retrieval.sources import Piece
from completiond_lsp.retrieval.words import likeness, words


def renewed(held: Sequence[Piece], fresh: Sequence[Piece], tokens: int) -> list[Piece]:
    """The list after a search that found `fresh`, best first."""
    added = _others(fresh, held)
    if sum(map(tokens_of, [*held, *added])) <= tokens:
        return [*held, *added]
    wanted = [piece for piece in held if any(_same(piece, other) for other in fresh)]
    kept = _fitting(wanted, tokens / 2)
    return _fitting([*kept, *_others(fresh, kept)], tokens)


def _others(pieces: Iterable[Piece], known: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not any(_same(piece, other) for other in known)]


def _fitting(pieces: Iterable[Piece], tokens: float) -> list[Piece]:
    found = []
    for piece in pieces:
        if (cost := tokens_of(piece)) <= tokens:
            found.append(piece)
            tokens -= cost
    return found


def _same(one: Piece, other: Piece) -> bool:
    """Whether the two say the same: alike, or mostly the same lines of one text."""
    if one.text == other.text:
        return True
    if one.overlaps(other):
        common = min(one.last, other.last) - max(one.first, other.first)
        return 2 * common >= min(one.last - one.first, other.last - other.first)
    return likeness(words(one.text), words(other.text)) > NEARLY_SAME
