"""What a client's text is read for drafts: other files it sent, and of its buffer what the prompt
leaves out.

Knows requests, prompts and the engine's door. A buffer is read again where it is another one than
was read, not at each key: drafts may be of an older text, answers never are.
"""

from collections.abc import Iterable

from completiond.core import Snapshot, text_hash
from completiond.engine.desk import Engine
from completiond.flight import Flight
from completiond.prompt.builder import Built, around
from completiond.protocol.messages import Chunk
from completiond.sessions import Buffer, Ticket

PROBE = 256
"""Characters of text by which one sees whether it was read before."""
LEAST = 64
"""Less text than this is not worth reading."""


class Sources:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def chunks(self, client: bytes, chunks: Iterable[Chunk]) -> None:
        """Pieces of other files that a request brought."""
        for chunk in chunks:
            if chunk.hash == text_hash(chunk.text):
                text = chunk.text.replace("\r\n", "\n")
                self._engine.read(client.hex(), chunk.path or chunk.hash, text)

    def around(self, ticket: Ticket, buffer: Buffer[Flight], built: Built) -> None:
        """The window around the cursor, but for what the prompt has of it before the cursor."""
        now = ticket.snapshot
        if buffer.read is not None and not is_news(buffer.read, now, built):
            return
        buffer.read = now
        _, after = around(now)
        for side, text in (("before", in_front(now, built)), ("after", after)):
            if len(text) >= LEAST:
                name = f"{ticket.request.document}\0{side}"
                self._engine.read(ticket.client.hex(), name, text)


def in_front(snapshot: Snapshot, built: Built) -> str:
    """The text of the window in front of where the prompt begins."""
    before, _ = around(snapshot)
    return before[: max(0, before.find(built.head))] if built.head else ""


def is_news(read: Snapshot, now: Snapshot, built: Built) -> bool:
    """Whether the window that was `read` misses what stands at the edges of the prompt now."""
    (_, after), (read_before, read_after) = around(now), around(read)
    front, behind = in_front(now, built)[-PROBE:], after[PROBE : 2 * PROBE]
    return front not in read_before or behind not in read_after
