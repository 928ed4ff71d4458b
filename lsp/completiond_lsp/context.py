"""Text of other open documents, as chunks. Knows documents; parses and ranks nothing.

The order is the order of opening, so that the prompts of one buffer begin alike. A chunk's text
travels once: the daemon's answer says which hashes it does not know.
"""

from collections.abc import Iterable, Sequence

from completiond.core import text_hash
from completiond.protocol.messages import MAX_CHUNK, Chunk
from completiond_lsp.documents import Document
from completiond_lsp.paths import relative_path

CHUNKS = 4
"""Other documents that are sent along, at most."""


class Context:
    """Which chunks the daemon of one connection has been sent."""

    def __init__(self) -> None:
        self._sent: set[str] = set()

    def of(
        self, document: Document, others: Iterable[Document], folders: Sequence[str]
    ) -> tuple[list[str], list[Chunk]]:
        """Hashes of the chunks for `document`, and those chunks that have not been sent yet."""
        chunks = [
            Chunk(text_hash(text), relative_path(other.uri, folders), other.language, text)
            for other in others
            if other is not document and other.language == document.language
            if (text := other.text[:MAX_CHUNK])
        ][:CHUNKS]
        news = [chunk for chunk in chunks if chunk.hash not in self._sent]
        self._sent.update(chunk.hash for chunk in news)
        return [chunk.hash for chunk in chunks], news

    def forget(self, hashes: Iterable[str]) -> None:
        """The daemon does not know these: send them with the next request."""
        self._sent.difference_update(hashes)
