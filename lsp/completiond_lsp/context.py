"""What other texts go along with a buffer's requests, and when that changes. Knows the clock.

Gathering runs in a thread and a request takes what is ready. Between two keys of one who types the
list stays as it is, because another one would have to be computed at a key: it changes in a pause.
A chunk's text travels once; the daemon's answer says which hashes it does not know.
"""

import asyncio
import contextlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from completiond.protocol.messages import Chunk
from completiond_lsp.documents import Document
from completiond_lsp.paths import relative_path
from completiond_lsp.retrieval.ask import TOKENS, Ask, Open, chunks_of
from completiond_lsp.retrieval.recent import Recent
from completiond_lsp.retrieval.sources import Piece

if TYPE_CHECKING:
    from completiond_lsp.retrieval.library import Library

log = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_S = 3.0
"""A pause after which the context of a buffer is looked at again."""
SETTLED_S = 0.5
"""The same after a jump, a save, or a change of the buffer: people look before they type."""
RESCAN_S = 60.0
"""The workspace is looked through again after this long, when somebody types at all."""
MAX_OTHERS = 200
"""Open buffers that are handed over."""


class Run(Protocol):
    """Does `work` and hands over what came out of it, or None."""

    def __call__(self, work: Callable[[], T], done: Callable[[T | None], None]) -> None: ...


@dataclass(slots=True)
class Held:
    """The list of one buffer. `asked`: a prompt with it may be in the daemon's cache."""

    document: Document
    pieces: list[Piece] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    line: int = 0
    asked: bool = False
    wait: float = SETTLED_S
    timer: asyncio.TimerHandle | None = None
    busy: bool = False
    again: bool = False


class Context:
    """Of one editor. `changed` is called with a buffer whose list has changed after it was used."""

    def __init__(
        self,
        changed: Callable[[Document], None] = lambda _: None,
        warn: Callable[[str], None] = log.warning,
        run: Run | None = None,
    ) -> None:
        """`run` does the work of a search or a scan; by default in a thread."""
        self._run: Run = run or _in_thread
        self.enabled = False
        self.tokens = TOKENS
        self.settled_s, self.idle_s = SETTLED_S, IDLE_S
        self._changed, self._warn = changed, warn
        self._folders: Sequence[str] = ()
        self._library: Library | None = None
        self._lock = threading.Lock()
        self._scanned = float("-inf")
        self._recent = Recent()
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._sent: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # -- what a request takes ---------------------------------------------------------------------

    def of(self, document: Document, line: int) -> tuple[list[str], list[Chunk]]:
        """Hashes of the chunks that are ready, and those chunks that have not been sent yet."""
        held = self._touch(document)
        if held is None:
            return [], []
        jumped = self._recent.visited(self._path(document), line)
        held.line, held.asked = line, True
        self._arm(held, self.settled_s if jumped else None)
        news = [chunk for chunk in held.chunks if chunk.hash not in self._sent]
        self._sent.update(chunk.hash for chunk in news)
        return [chunk.hash for chunk in held.chunks], news

    def forget(self, hashes: Iterable[str]) -> None:
        """The daemon does not know these: send them with the next request."""
        self._sent.difference_update(hashes)

    # -- what an editor tells ---------------------------------------------------------------------

    def use(self, folders: Sequence[str]) -> None:
        """Take the workspace's folders."""
        if tuple(folders) != tuple(self._folders):
            self._folders, self._library = tuple(folders), None
            self._scanned = float("-inf")

    def opened(self, document: Document) -> None:
        """Look at once: nothing that was computed is lost yet."""
        self._held[document.uri] = Held(document)
        if self.enabled:
            self._look(self._held[document.uri])

    def closed(self, document: Document) -> None:
        held = self._held.pop(document.uri, None)
        if held is not None and held.timer is not None:
            held.timer.cancel()
        self._recent.closed(self._path(document))
        if self._library is not None:
            self._library.forget([document.uri])

    def edited(self, document: Document, line: int, grown: int) -> None:
        held = self._touch(document)
        if held is not None:
            self._recent.edited(self._path(document), line, grown)
            held.line = line
            self._arm(held, None)

    def saved(self, document: Document) -> None:
        held = self._touch(document)
        if held is not None:
            self._arm(held, self.settled_s)

    def focused(self, document: Document) -> None:
        self._touch(document)

    def yanked(self, path: str, language: str, text: str) -> None:
        if self.enabled:
            self._recent.yanked(path, language, text)

    # -- when to look -----------------------------------------------------------------------------

    def _touch(self, document: Document) -> Held | None:
        held = self._held.get(document.uri)
        if held is None or not self.enabled:
            return None
        if next(reversed(self._held)) != document.uri:
            self._held.move_to_end(document.uri)
            held.wait = min(held.wait, self.settled_s)
        return held

    def _arm(self, held: Held, wait: float | None) -> None:
        """Look after a pause of `wait` seconds from now; a shorter wait that is due stays short."""
        if held.timer is not None:
            held.timer.cancel()
        if wait is not None:
            held.wait = min(held.wait, wait)
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(held.wait, self._look, held)

    def _look(self, held: Held) -> None:
        if held.timer is not None:
            held.timer.cancel()
        held.timer = None
        held.again = held.busy
        if not held.busy and self._held.get(held.document.uri) is held:
            held.busy, self._loop = True, asyncio.get_running_loop()
            ask = self._ask(held)
            self._run(lambda: self._answer(ask), lambda found: self._found(held, found))

    def _found(self, held: Held, pieces: list[Piece] | None) -> None:
        """A search has ended; one that failed costs the context of one buffer, and nothing else."""
        held.busy = False
        if held.again:
            self._look(held)
        elif pieces is not None and not (held.asked and held.timer is not None):
            held.wait = self.idle_s
            self._take(held, pieces)
            self._scan()
        # Otherwise somebody types again: the timer looks in the next pause.

    def _take(self, held: Held, pieces: list[Piece]) -> None:
        if pieces == held.pieces:
            return
        was = held.chunks
        held.pieces, held.chunks = pieces, chunks_of(pieces)
        if held.asked and held.chunks != was:
            self._changed(held.document)

    def _ask(self, held: Held) -> Ask:
        others = [other for uri, other in reversed(self._held.items()) if other is not held]
        texts = [_open(other.document) for other in others[:MAX_OTHERS]]
        here = _open(held.document)
        return Ask(here, held.line, texts, self._recent.past, held.pieces, self.tokens)

    # -- in threads -------------------------------------------------------------------------------

    def _answer(self, ask: Ask) -> list[Piece]:
        from completiond_lsp.retrieval.library import Library  # no start waits for the finders

        with self._lock:
            if self._library is None:
                self._library = Library(self._folders, self._say)
            return self._library.answer(ask)

    def _scan(self) -> None:
        """Look through the workspace if that was long ago; after the first time buffers look."""
        now, library = asyncio.get_running_loop().time(), self._library
        if library is None or now - self._scanned < RESCAN_S:
            return
        first, self._scanned = self._scanned < 0, now
        self._run(library.refresh, lambda _: self._look_again() if first else None)

    def _look_again(self) -> None:
        for held in list(self._held.values()):
            if held.timer is None:
                self._look(held)

    def _say(self, sentence: str) -> None:
        """Warn, from a thread."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._warn, sentence)

    def _path(self, document: Document) -> str:
        return relative_path(document.uri, self._folders)


def _open(document: Document) -> Open:
    return Open(document.uri, document.language, document.version, document.text)


def _in_thread(work: Callable[[], T], done: Callable[[T | None], None]) -> None:
    """`done` is called on the loop with the result of `work`, or with None if that failed.

    Nobody waits for the thread when the program ends.
    """
    loop = asyncio.get_running_loop()

    def run() -> None:
        result = None
        try:
            result = work()
        except Exception:
            log.exception("No context was found.")
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(done, result)

    threading.Thread(target=run, name="context", daemon=True).start()
