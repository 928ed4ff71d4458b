"""From an editor's request to the daemon's answer. Knows documents and the link; no JSON-RPC.

What editors get wrong is put right here: a request is snapshot before the first await, the newest
one of a buffer ends the one before, an edit ends the one in flight, and an answer for a text that
is no longer there is shortened by what was typed, or dropped.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from completiond.client import complete_message
from completiond.core import CancelReason, Snapshot
from completiond.errors import CompletiondError, NoDaemon
from completiond.postprocess.clean import fit
from completiond.protocol.messages import (
    Candidate,
    Chunk,
    Complete,
    Completion,
    Feedback,
    Spans,
)
from completiond.redaction import is_secret_file, redacted_snapshot
from completiond_lsp.context import Context
from completiond_lsp.daemon_link import DaemonLink
from completiond_lsp.documents import Document, Edit, Encoding, Position
from completiond_lsp.journal import Journal, Key
from completiond_lsp.options import Options
from completiond_lsp.params import Change, InlineRequest, Opened
from completiond_lsp.paths import relative_path, uri_path
from completiond_lsp.typed import Typed, line_feeds

log = logging.getLogger(__name__)

CANDIDATES = 3
"""How many to ask for when a person asks: they can be cycled through."""
TIMEOUT_S = 30.0
"""For a request without a limit of its own; the daemon's default limit is shorter."""
SLACK_S = 0.5
"""What an answer may take over the limit of its request."""

LINE_MS = 100
"""What one types is not waited for longer than its first line takes, or this."""

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
    """An open document, its newest request, and the request whose answer was given last."""

    document: Document
    newest: Ask | None = None
    shown: Ask | None = None


@dataclass(slots=True)
class Bridge:
    """All buffers of one editor."""

    link: DaemonLink
    options: Options = field(default_factory=Options)
    encoding: Encoding = "utf-16"
    folders: Sequence[str] = ()
    warn: Callable[[str], None] = log.warning
    journal: Journal = field(init=False)
    _buffers: dict[str, Buffer] = field(default_factory=dict)
    _context: Context = field(init=False)
    _warming: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._context = Context(self._warm, lambda sentence: self.warn(sentence))
        self.journal = Journal(self._send)

    @property
    def context(self) -> Context:
        """What goes along with requests, as the settings of this moment say."""
        context = self._context
        context.enabled = self.options.enabled and self.options.context
        context.tokens = self.options.context_tokens
        context.use(self.folders)
        return context

    def connect(self) -> None:
        """See to a daemon before the first request."""
        if self.options.enabled:
            self.link.want()

    # -- documents ------------------------------------------------------------------------------

    def open(self, opened: Opened) -> None:
        self.close(opened.uri)
        document = Document(
            opened.uri,
            opened.text,
            version=opened.version,
            language=opened.language,
            encoding=self.encoding,
        )
        self._buffers[opened.uri] = Buffer(document)
        self.context.opened(document)

    def change(self, uri: str, version: int | None, changes: Sequence[Change]) -> None:
        """Edit the document; a request in flight is not for this text any more."""
        buffer = self._buffers.get(uri)
        if buffer is None:
            return
        document = buffer.document
        document.version = document.version + 1 if version is None else version
        for change in changes:
            self.journal.edited(document, _apply(buffer, change))
            if change.span is not None:
                (first, _), (last, _) = sorted(change.span)
                self.context.edited(document, first, change.text.count("\n") - (last - first))
        if buffer.newest is not None:
            self._outdate(buffer.newest)
        if buffer.shown is not None and buffer.shown.typed.broken:
            buffer.shown = None

    def close(self, uri: str) -> None:
        """Forget the document; what was asked for it is abandoned."""
        buffer = self._buffers.pop(uri, None)
        if buffer is None:
            return
        self.context.closed(buffer.document)
        self.journal.closed(buffer.document)
        if buffer.newest is not None:
            buffer.newest.typed.broken = True
            self._outdate(buffer.newest)

    def saved(self, uri: str) -> None:
        if uri in self._buffers:
            self.context.saved(self._buffers[uri].document)

    def focused(self, uri: str) -> None:
        """The person looks at this buffer now."""
        if uri in self._buffers:
            self.context.focused(self._buffers[uri].document)

    def yanked(self, uri: str, text: str) -> None:
        """The person has copied this text, out of that buffer if the editor knows."""
        buffer = self._buffers.get(uri)
        if uri and (buffer is None or is_secret_file(uri_path(uri))):
            return
        language = buffer.document.language if buffer is not None else ""
        self.context.yanked(relative_path(uri, self.folders) or "clipboard", language, text)

    def _outdate(self, ask: Ask) -> None:
        """Cancel it. Typing on supersedes it: the daemon may still use what it has computed."""
        reason: CancelReason = "abandoned" if ask.typed.broken else "superseded"
        if not ask.cancel(reason) and reason == "abandoned" and ask.reason == "superseded":
            # The editor cancelled before it told us the change, which ends the run's grace.
            ask.reason = reason
            if ask.id and self.link.client is not None:
                self.link.client.cancel(ask.id, reason)

    # -- completions ----------------------------------------------------------------------------

    async def complete(self, request: InlineRequest) -> list[Item]:
        """What to show. Empty whenever there is nothing; raises CancelledError only."""
        with self.journal.key(invoked=request.invoked) as key:
            key.items = items = await self._complete(request, key)
        return items

    async def _complete(self, request: InlineRequest, key: Key) -> list[Item]:
        buffer = self._buffers.get(request.uri)
        if buffer is None:
            return []
        if buffer.newest is not None:
            buffer.newest.cancel("superseded")
        document = buffer.document
        if request.version not in (None, document.version):
            return []
        cursor = document.offset_at(request.position)
        if not self.options.wants(document.language) or is_secret_file(uri_path(request.uri)):
            return []
        key.of(document, cursor, relative_path(document.uri, self.folders))
        if not request.invoked and buffer.shown is not None:
            if items := _items(document, buffer.shown, cursor):
                key.answer = buffer.shown
                return items
        self.journal.left(buffer.shown)
        typed = Typed(cursor, line=document.line_around(cursor)[0])
        key.ask = ask = buffer.newest = Ask(typed, cursor, document.version, asyncio.current_task())
        snapshot = self._snapshot(document, cursor)
        try:
            completion = await self._answer(ask, snapshot, request.invoked)
        except CompletiondError as exc:
            log.debug("Nothing to show: %s", exc)
            key.reason = exc.code
            return []
        finally:
            ask.task = None
        items = self._take(buffer, ask, completion)
        if items and not request.invoked:
            self._tell(Feedback(ask.id, "shown"))  # as far as we know: LSP tells no more
        return items

    def _snapshot(self, document: Document, cursor: int) -> Snapshot:
        snapshot = redacted_snapshot(
            document.text,
            cursor,
            document=document.uri,
            version=document.version,
            language=document.language,
            path=relative_path(document.uri, self.folders),
        )
        return replace(snapshot, indent=self.options.indent)

    async def _answer(self, ask: Ask, snapshot: Snapshot, invoked: bool) -> Completion:
        """Ask the daemon. Raises NoDaemon and whatever the daemon answers."""
        client = await self.link.connected()
        message = self._message(ask, snapshot, client.next_id(), invoked)
        ask.id = message.id
        limit = message.max_ms / 1000 + SLACK_S if message.max_ms else TIMEOUT_S
        self.journal.sent(ask.id)
        try:
            return await self.link.complete(client, message, limit)
        except asyncio.CancelledError:
            ask.reason = ask.reason or "superseded"  # by `$/cancelRequest`, if not by us
            client.cancel(ask.id, ask.reason)
            raise
        except NoDaemon:
            client.cancel(ask.id, "abandoned")
            raise
        finally:
            self.journal.answered(ask.id)

    def _message(self, ask: Ask, snapshot: Snapshot, ident: int, invoked: bool) -> Complete:
        options = self.options
        buffer = self._buffers.get(snapshot.document)
        context: list[str] = []
        chunks: list[Chunk] = []
        if buffer is not None:
            line = buffer.document.position_at(ask.position).line
            context, chunks = self.context.of(buffer.document, line)
        return complete_message(
            snapshot,
            ident,
            trigger="invoked" if invoked else "automatic",
            n=CANDIDATES if invoked else 1,
            model=options.model,
            max_tokens=options.max_tokens or None,
            max_ms=options.max_ms or None,
            line_ms=None if invoked else LINE_MS,
            context=context,
            chunks=chunks,
        )

    def _warm(self, document: Document) -> None:
        """The context has changed in a pause: have it computed now, not at the next key."""
        buffer = self._buffers.get(document.uri)
        last = buffer.newest if buffer is not None else None
        if buffer is None or last is None or self.link.client is None:
            return
        if last.task is None and not last.typed.broken:
            task = asyncio.create_task(self._prepare(buffer, last.typed.cursor), name="warm")
            self._warming.add(task)
            task.add_done_callback(self._warming.discard)

    async def _prepare(self, buffer: Buffer, cursor: int) -> None:
        """Ask as the editor would at the same cursor; a key ends it, or takes its run over."""
        document = buffer.document
        typed = Typed(cursor, line=document.line_around(cursor)[0])
        ask = buffer.newest = Ask(typed, cursor, document.version, asyncio.current_task())
        try:
            completion = await self._answer(ask, self._snapshot(document, cursor), False)
        except CompletiondError as exc:
            log.debug("The context was not computed: %s", exc)
        else:
            self._context.forget(completion.unknown)
        finally:
            ask.task = None
            self.journal.warm(ask.id)

    def _take(self, buffer: Buffer, ask: Ask, completion: Completion) -> list[Item]:
        """The items of an answer that came in time, or whose beginning has been typed since."""
        self._context.forget(completion.unknown)
        log.debug("Answer %d: %s %s", completion.id, completion.reason, completion.why)
        if (completion.position, completion.version) != (ask.position, ask.version):
            return []
        ask.candidates = completion.candidates
        # Half an answer is no reason not to ask again, and none leaves the one before as it is.
        if completion.candidates and completion.reason != "timeout":
            self.journal.left(buffer.shown, replaced=True)
            buffer.shown = ask
        return _items(buffer.document, ask, ask.typed.cursor)

    def accepted(self, ident: int, candidate: int, characters: int) -> None:
        """Tell the daemon that a person took this answer."""
        self._tell(Feedback(ident, "accepted", candidate, characters))

    def _tell(self, feedback: Feedback) -> None:
        self.journal.told(feedback)
        self._send(feedback)

    def _send(self, told: Feedback | Spans) -> bool:
        client = self.link.client
        if client is None:
            return False
        return client.feedback(told) if isinstance(told, Feedback) else client.spans(told)


def _apply(buffer: Buffer, change: Change) -> Edit:
    document = buffer.document
    if change.span is None:
        edit = Edit(0, len(document.text), change.text)
        document.replace(change.text)
    else:
        edit = document.change(*change.span, change.text)
    if buffer.newest is not None:
        buffer.newest.typed.follow(edit)
    if buffer.shown is not None and buffer.shown is not buffer.newest:
        buffer.shown.typed.follow(edit)
    return edit


def _items(document: Document, ask: Ask, cursor: int) -> list[Item]:
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
