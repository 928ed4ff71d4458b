"""What the bridge asks retrieval and what it sends of the answer. Knows no finder, loads none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from completiond.core import text_hash
from completiond.protocol.messages import Chunk
from completiond_lsp.retrieval.recent import Past
from completiond_lsp.retrieval.sources import Piece

TOKENS = 1_024
"""Of all pieces together."""


class Open(NamedTuple):
    """A buffer as it was when the question was asked."""

    uri: str
    language: str
    version: int
    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The buffer with the cursor, the others (the latest used first), and what is held for it."""

    here: Open
    line: int
    others: Sequence[Open]
    past: Past
    held: Sequence[Piece] = ()
    tokens: int = TOKENS


def chunks_of(pieces: Iterable[Piece]) -> list[Chunk]:
    return [_chunk(piece) for piece in pieces]


def _chunk(piece: Piece) -> Chunk:
    text = piece.text.strip("\n")
    return Chunk(text_hash(text), piece.path, piece.language, text)
