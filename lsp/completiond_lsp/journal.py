"""What each key took in this process, and what is left of accepted text: told to the daemon.

Off the path of any key: it is sent in batches, some times a second. Knows documents, requests and
the clock; decides nothing. The daemon writes it down (docs/record.md).
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, TypeVar

from completiond.protocol.messages import Candidate, Feedback, Span, SpanKind, Spans, Trigger
from completiond_lsp.documents import Document, Edit
from completiond_lsp.retained import Retained
from completiond_lsp.typed import Typed, line_feeds

FLUSH_S = 0.15
MOST_WAITING = 256
"""Spans that wait for a daemon; the oldest are lost."""
BATCH = 64
"""Spans in one message: it is read between two requests."""
REMEMBERED = 64
"""Answers that may still be accepted, and accepted texts that are followed."""
RETAINED_S = (30, 120, 300, 600)

T = TypeVar("T")


class Asked(Protocol):
    """A request, as far as it is told of."""

    @property
    def id(self) -> int: ...
    @property
    def typed(self) -> Typed: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...


class Shown(Protocol):
    """An item for the editor."""

    @property
    def text(self) -> str: ...


class Key:
    """One key on its way through the bridge: `with journal.key(invoked) as key`."""

    __slots__ = (
        "_began",
        "_journal",
        "answer",
        "ask",
        "at",
        "cursor",
        "document",
        "items",
        "path",
        "reason",
        "trigger",
    )

    def __init__(self, journal: "Journal", trigger: Trigger) -> None:
        self._journal = journal
        self._began = time.perf_counter_ns()
        self.at = {"received": time.monotonic_ns()}
        self.trigger = trigger
        self.document: Document | None = None
        self.path, self.cursor, self.reason = "", 0, ""
        self.answer: Asked | None = None
        self.ask: Asked | None = None
        self.items: Sequence[Shown] = ()

    def __enter__(self) -> "Key":
        return self

    def of(self, document: Document, cursor: int, path: str) -> None:
        """Where it is; a key that is nowhere is not told of."""
        self.document, self.cursor, self.path = document, cursor, path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.document is not None and (kind is None or kind is asyncio.CancelledError):
            done = kind is None
            if done:
                self.at["replied"] = time.monotonic_ns()
            self._journal.ended(self, time.perf_counter_ns() - self._began if done else 0)


class Journal:
    """Of one editor. `send` gives the daemon a message and says whether it was taken."""

    def __init__(self, send: Callable[[Spans | Feedback], bool]) -> None:
        self._send = send
        self._waiting: list[Span] = []
        self._fates: list[Feedback] = []
        self._over: OrderedDict[int, None] = OrderedDict()
        self._moments: OrderedDict[int, dict[str, int]] = OrderedDict()
        self._answers: OrderedDict[int, tuple[Document, Asked]] = OrderedDict()
        self._taken: OrderedDict[int, tuple[Document, Retained]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self.editor = ""

    # -- keys -----------------------------------------------------------------------------------

    def key(self, *, invoked: bool) -> Key:
        """The editor asks."""
        return Key(self, "invoked" if invoked else "automatic")

    def sent(self, ident: int) -> None:
        """The daemon is asked now."""
        _keep(self._moments, ident, {"sent": time.monotonic_ns()})

    def answered(self, ident: int) -> None:
        """It has answered."""
        self._moments.get(ident, {})["answered"] = time.monotonic_ns()

    def warm(self, ident: int) -> None:
        """That one was no key: context was computed in a pause."""
        self._put(Span(ident, "", 0, "warm"))

    def ended(self, key: Key, took: int) -> None:
        """The editor has its answer, or does not want one any more (`took` is 0)."""
        document, ask = key.document, key.ask
        assert document is not None, "only keys that are somewhere are told of"
        asked = self._moments.pop(ask.id, {}) if ask is not None and not key.answer else {}
        if not took:
            asked.pop("answered", None)  # it left before that
        if ask is not None and key.items:
            _keep(self._answers, ask.id, (document, ask))
        span = Span(
            id=ask.id if ask is not None and asked else 0,
            document=document.uri,
            version=document.version,
            kind=_kind(key, asked),
            at={"received": key.at["received"]} | asked | key.at,
            took=took,
            language=document.language,
            path=key.path,
            position=key.cursor,
            trigger=key.trigger,
            answer=key.answer.id if key.answer is not None else 0,
            characters=len(key.items[0].text) if key.items else 0,
            reason=key.reason,
        )
        self._put(span)

    def drawn(self, ident: int) -> None:
        """The editor says that it draws that answer: it was asked for by the latest key."""
        for span in reversed(self._waiting):
            if ident in (span.id, span.answer) and "replied" in span.at:
                span.at.setdefault("drawn", time.monotonic_ns())
                return

    def left(self, answer: Asked | None, *, replaced: bool = False) -> None:
        """This answer says nothing here: it may have been typed to its end. `replaced`: there is
        another one in its place."""
        if answer is None or answer.typed.broken or answer.id in self._over:
            return
        typed = line_feeds(answer.typed.text)
        through = any(typed.startswith(line_feeds(one.text)) for one in answer.candidates)
        if through or replaced:
            _keep(self._over, answer.id, None)
            self._fates.append(Feedback(answer.id, "typed" if through else "superseded"))
            self._later()

    # -- accepted text --------------------------------------------------------------------------

    def told(self, feedback: Feedback) -> None:
        """What became of an answer; of text that was taken it is counted later what is left."""
        if feedback.event != "accepted" or feedback.id not in self._answers:
            return
        document, ask = self._answers[feedback.id]
        candidate = min(max(0, feedback.candidate), len(ask.candidates) - 1)
        text = line_feeds(ask.candidates[candidate].text)[: feedback.characters]
        known = self._taken.get(feedback.id)
        had = known[1].characters if known is not None else 0
        found = _in_place(document, ask.typed.start, text)
        if found is None or len(found) <= had:
            return
        if known is not None:
            known[1].add(ask.typed.start + had, found[had:])
            return
        retained = Retained(ask.typed.start, found)
        _keep(self._taken, feedback.id, (document, retained))
        loop = asyncio.get_running_loop()
        for seconds in RETAINED_S:
            loop.call_later(seconds, self._count, feedback.id, candidate, retained, seconds)

    def edited(self, document: Document, edit: Edit) -> None:
        """The document was edited so. Before anything is told of this edit."""
        for other, retained in self._taken.values():
            if other is document:
                retained.follow(edit)

    def closed(self, document: Document) -> None:
        """Nobody knows what becomes of its text."""
        for kept in (self._taken, self._answers):
            for ident in [ident for ident, found in kept.items() if found[0] is document]:
                del kept[ident]

    def _count(self, ident: int, candidate: int, retained: Retained, seconds: int) -> None:
        known = self._taken.get(ident)
        if known is not None and known[1] is retained:
            self._send(Feedback(ident, "retained", candidate, retained.characters, seconds))
            if seconds == RETAINED_S[-1]:
                del self._taken[ident]

    # -- batches --------------------------------------------------------------------------------

    def _put(self, span: Span) -> None:
        self._waiting.append(span)
        del self._waiting[:-MOST_WAITING]
        self._later()

    def _later(self) -> None:
        del self._fates[:-MOST_WAITING]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self.flush)

    def flush(self) -> None:
        """Tell what waits; what nobody takes is told with the next key."""
        self._timer = None
        while self._waiting and self._send(Spans(self._waiting[:BATCH], self.editor)):
            del self._waiting[:BATCH]
        while self._fates and not self._waiting and self._send(self._fates[0]):
            del self._fates[0]


def _kind(key: Key, asked: dict[str, int]) -> SpanKind:
    return "typed" if key.answer is not None else "asked" if asked else "none"


def _in_place(document: Document, start: int, text: str) -> str | None:
    """The text as it stands there, with the document's own line ends; None if it does not."""
    for form in (text, text.replace("\n", "\r\n")):
        if form and document.text.startswith(form, start):
            return form
    return None


def _keep(kept: OrderedDict[int, T], ident: int, value: T) -> None:
    kept[ident] = value
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)
