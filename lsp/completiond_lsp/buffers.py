"""The nouns of the bridge: an open buffer, a request made in it, what is left of its answer.

Knows documents and what was typed; knows no editor, no daemon and no settings.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from completiond.core import CancelReason
from completiond.postprocess.clean import fit
from completiond.protocol.messages import Candidate
from completiond_lsp.documents import Document, Edit, Position
from completiond_lsp.params import Change
from completiond_lsp.typed import Typed, line_feeds

SEEN_AFTER = 4_096
"""Characters after the cursor that an answer is compared with."""


class Item(NamedTuple):
    """Text for the editor, the range it replaces, and what stands in front of that on its line."""

    text: str
    start: Position
    end: Position
    line: str
    id: int
    candidate: int


@dataclass(slots=True)
class Ask:
    """A request, from its snapshot until its answer is used up or the text has left its path."""

    typed: Typed
    position: int
    version: int
    task: asyncio.Task[object] | None
    id: int = 0
    reason: CancelReason | None = None
    candidates: Sequence[Candidate] = ()

    def cancel(self, reason: CancelReason) -> bool:
        """End it if it is in flight; its task then tells the daemon. False if it is not."""
        if self.task is None:
            return False
        self.reason = reason
        self.task.cancel()
        return True


@dataclass(slots=True)
class Buffer:
    """An open document, its newest request, and the request whose answer was given last.

    `secret`: its file keeps secrets; a key must not ask the file system for that.
    """

    document: Document
    secret: bool
    newest: Ask | None = None
    shown: Ask | None = None


def edit_of(document: Document, change: Change) -> Edit:
    """Make the change; what it was."""
    if change.span is not None:
        return document.change(*change.span, change.text)
    edit = Edit(0, len(document.text), change.text)
    document.replace(change.text)
    return edit


def follow(buffer: Buffer, edit: Edit) -> None:
    """Keep up what was typed since the two requests that matter."""
    if buffer.newest is not None:
        buffer.newest.typed.follow(edit)
    if buffer.shown is not None and buffer.shown is not buffer.newest:
        buffer.shown.typed.follow(edit)


def items_left(document: Document, ask: Ask, cursor: int) -> list[Item]:
    """What is left of an answer's candidates at the cursor, without repetitions."""
    items = dict[str, Item]()
    closers = ask.typed.closers(cursor)
    if closers is None:
        return []
    before, after = document.line_around(cursor)
    for index, candidate in enumerate(ask.candidates):
        text = ask.typed.rest(line_feeds(candidate.text), cursor)
        if closers and text:
            # The answer closes by itself what the editor has closed since.
            text, _ = fit(text, before, document.text[cursor : cursor + SEEN_AFTER])
        if text:
            end = cursor + min(candidate.replace, len(after))
            span = document.position_at(cursor), document.position_at(end)
            items.setdefault(text, Item(text, *span, before, ask.id, index))
    return list(items.values())
