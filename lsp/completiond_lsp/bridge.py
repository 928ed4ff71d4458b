"""From an editor's request to the daemon's answer. Knows documents and the link; no JSON-RPC.

What editors get wrong is put right here: a request is snapshot before the first await, the newest
one of a buffer ends the one before, an edit ends the one in flight, and an answer for a text that
is no longer there is shortened by what was typed, or dropped.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from completiond.client import complete_message
from completiond.core import CancelReason, Snapshot
from completiond.errors import CompletiondError, EngineError, NoDaemon, Overloaded
from completiond.protocol.messages import Chunk, Complete, Completion, Feedback, Spans, Why
from completiond.reasons import plainly
from completiond.redaction import keeps_secrets, redacted_snapshot
from completiond_lsp.buffers import Ask, Buffer, Item, edit_of, follow, items_left
from completiond_lsp.context import Context
from completiond_lsp.daemon_link import DaemonLink
from completiond_lsp.documents import Document, Encoding
from completiond_lsp.items import Place
from completiond_lsp.journal import Journal, Key
from completiond_lsp.ledger import Ledger
from completiond_lsp.options import Options
from completiond_lsp.params import Change, InlineRequest, Opened
from completiond_lsp.paths import relative_path, uri_path
from completiond_lsp.refusals import Refused, refusal
from completiond_lsp.standing import Standing
from completiond_lsp.typed import Typed

log = logging.getLogger(__name__)

TIMEOUT_S = 30.0
"""For a request without a limit of its own; the daemon's default limit is shorter."""
SLACK_S = 0.5
"""What an answer may take over the limit of its request."""
LINE_MS = 100
"""What one types is not waited for longer than its first line takes, or this."""
WHY_S = 5.0


@dataclass(slots=True)
class Bridge:
    """All buffers of one editor."""

    link: DaemonLink
    options: Options = field(default_factory=Options)
    encoding: Encoding = "utf-16"
    folders: Sequence[str] = ()
    warn: Callable[[str], None] = log.warning
    standing: Standing = field(default_factory=lambda: Standing(lambda _: None))
    ledger: Ledger = field(init=False)
    journal: Journal = field(init=False)
    refused: Refused | None = None
    """The last key, if nobody was asked about it."""
    _buffers: dict[str, Buffer] = field(default_factory=dict)
    _context: Context = field(init=False)
    _warming: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._context = Context(self._warm, lambda sentence: self.warn(sentence))
        self.ledger = Ledger(self._tell)
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
        self.standing.enabled(self.options.enabled)
        if self.options.enabled:
            self.link.want()

    def restart(self) -> None:
        """Let go of the daemon, whatever state it is in, and see to one again."""
        self.link.close()
        self.connect()

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
        self._buffers[opened.uri] = Buffer(document, keeps_secrets(uri_path(opened.uri)))
        self.context.opened(document)

    def change(self, uri: str, version: int | None, changes: Sequence[Change]) -> None:
        """Edit the document; a request in flight is not for this text any more."""
        buffer = self._buffers.get(uri)
        if buffer is None:
            return
        document = buffer.document
        document.version = document.version + 1 if version is None else version
        for change in changes:
            edit = edit_of(document, change)
            self.journal.edited(document, edit)  # before the ledger tells of it
            if buffer.shown is not None:
                self.ledger.saw(buffer.shown, edit)
            follow(buffer, edit)
            if change.span is not None:
                (first, _), (last, _) = sorted(change.span)
                self.context.edited(document, first, change.text.count("\n") - (last - first))
        if buffer.newest is not None:
            self._outdate(buffer.newest)
        if buffer.shown is not None and buffer.shown.typed.broken:
            self.ledger.rejected(buffer.shown.id)
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
        if uri and (buffer is None or buffer.secret):
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
        if buffer is not None and buffer.newest is not None:
            buffer.newest.cancel("superseded")
        document = buffer.document if buffer else Document(request.uri, "", encoding=self.encoding)
        cursor = document.offset_at(request.position)
        key.of(document, cursor, relative_path(document.uri, self.folders))
        key.reason = refusal(request, buffer, self.options)
        if key.reason or buffer is None:
            self.refused = Refused(key.reason, key.path, document.language, cursor)
            self.standing.refused(0, plainly(key.reason))
            return []
        self.refused = None
        if not request.invoked and buffer.shown is not None:
            if items := items_left(document, buffer.shown, cursor):
                key.answer = buffer.shown
                self.standing.typed(buffer.shown.id)
                self.ledger.offered(buffer.shown, items, seen=True)
                return items
        self.journal.left(buffer.shown)
        typed = Typed(cursor, line=document.line_around(cursor)[0])
        ask = buffer.newest = Ask(typed, cursor, document.version, asyncio.current_task())
        key.ask = ask
        snapshot = self._snapshot(document, cursor)
        began = time.monotonic()
        try:
            completion = await self._answer(ask, snapshot, request.candidates)
        except CompletiondError as exc:
            self.standing.refused(ask.id, str(exc))
            key.reason = exc.code
            return []
        finally:
            ask.task = None
        items = self._take(buffer, ask, completion)
        self.standing.answered(completion, (time.monotonic() - began) * 1000, bool(items))
        # Of what comes by itself the first is drawn, as far as we know: LSP tells no more.
        self.ledger.offered(ask, items, seen=not request.invoked)
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

    async def _answer(self, ask: Ask, snapshot: Snapshot, candidates: int) -> Completion:
        """Ask the daemon; 0 candidates: the one that comes by itself.

        Raises NoDaemon and whatever the daemon answers.
        """
        client = await self.link.connected()
        message = self._message(ask, snapshot, client.next_id(), candidates)
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
        except EngineError as exc:
            if not isinstance(exc, Overloaded):
                self.link.unready()
            raise
        finally:
            self.journal.answered(ask.id)

    def _message(self, ask: Ask, snapshot: Snapshot, ident: int, candidates: int) -> Complete:
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
            trigger="invoked" if candidates else "automatic",
            n=candidates or 1,
            model=options.model,
            max_tokens=options.max_tokens or None,
            max_ms=options.max_ms or None,
            line_ms=None if candidates else LINE_MS,
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
            completion = await self._answer(ask, self._snapshot(document, cursor), 0)
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
        return items_left(buffer.document, ask, ask.typed.cursor)

    def place(self, uri: str) -> Place:
        """An open document, as an edit of it is addressed."""
        document = self._buffers[uri].document
        return Place(uri, document.version, document.line_end)

    async def why(self, request: int) -> Why:
        """What the daemon remembers of a request, 0 of the latest. Raises NoDaemon."""
        client = await self.link.connected()
        return await client.why(request, WHY_S)

    def _tell(self, feedback: Feedback) -> None:
        self.journal.told(feedback)
        self._send(feedback)

    def _send(self, told: Feedback | Spans) -> bool:
        client = self.link.client
        if client is None:
            return False
        return client.feedback(told) if isinstance(told, Feedback) else client.spans(told)
