"""The side of retrieval that runs in a thread: open buffers as texts that may be quoted.

Knows the workspace, the finders and what they keep; one call at a time. Knows no editor: what is
open it is told with each question.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from completiond.redaction import keeps_secrets
from completiond_lsp.paths import relative_path, uri_path
from completiond_lsp.retrieval.ask import Ask, Open
from completiond_lsp.retrieval.gather import SHARES, Gatherer, Material
from completiond_lsp.retrieval.notebooks import code_of
from completiond_lsp.retrieval.sources import Kind, Piece, Question, Source, clean, source
from completiond_lsp.retrieval.stable import renewed
from completiond_lsp.retrieval.workspace import Workspace

log = logging.getLogger(__name__)

WITHIN_S = 0.25
"""How long one question may take; then what is found is used."""
QUOTED = ("file", "untitled", "vscode-notebook-cell")
"""Schemes of what a person writes; others show output, another revision, one side of a diff."""
TEXTS = 256
"""Open buffers whose cleaned texts are kept."""
CELLS = "#cells"


class Library:
    def __init__(
        self,
        folders: Sequence[str],
        warn: Callable[[str], None],
        shares: Mapping[Kind, float] = SHARES,
        within_s: float = WITHIN_S,
    ) -> None:
        self._within_s = within_s
        self._folders = tuple(folders)
        roots = [uri_path(uri) for uri in folders if urlsplit(uri).scheme == "file"]
        self.workspace = Workspace([root for root in roots if root], warn)
        self._gatherer = Gatherer(shares)
        self._texts: dict[str, tuple[int, Source | None]] = {}  # with a hash of what was cleaned
        self._allowed: dict[str, bool] = {}

    def refresh(self) -> None:
        """Look for files anew; what was ignored may not be any more."""
        self.workspace.refresh()
        self._allowed = {}

    def answer(self, ask: Ask) -> list[Piece]:
        """The list for the buffer: what is held and still right, and what is new."""
        path = relative_path(ask.here.uri, self._folders)
        # A notebook that is open as a text has other lines than its code.
        here = None if path.endswith(".ipynb") else self._cleaned(ask.here)
        text = here.text if here is not None else clean(ask.here.text)
        question = Question(path, ask.here.language, text, ask.line)
        material = Material(self._open(ask), self.workspace, ask.past)
        fresh = self._gatherer.pieces(
            question, material, tokens=ask.tokens, within_s=self._within_s
        )
        held = [piece for piece in ask.held if self._holds(piece, material, question)]
        return renewed(held, fresh, ask.tokens)

    def _holds(self, piece: Piece, material: Material, question: Question) -> bool:
        """Whether the text still says what the piece says, and the buffer does not say it."""
        if piece.text in question.text:
            return False
        if piece.kind == "yanked":
            return True
        if piece.path == question.path:
            said: str | None = question.text
        else:
            found = material.source(piece.path)
            said = found.text if found is not None else None
        return said is not None and all(line in said for line in piece.text.split("\n"))

    def _open(self, ask: Ask) -> list[Source]:
        """What may be quoted of the other buffers; the cells of a notebook are one text."""
        found: list[Source] = []
        cells: dict[str, list[Source]] = {}
        for buffer in ask.others:
            text = self._source(buffer)
            if text is not None and buffer.uri.startswith("vscode-notebook-cell:"):
                cells.setdefault(text.path, []).append(text)
            elif text is not None:
                found.append(text)
        return [*map(_notebook, cells.values()), *found]

    def _source(self, buffer: Open) -> Source | None:
        text = self._cleaned(buffer)
        return text if text is not None and self.allows(buffer.uri) else None

    def _cleaned(self, buffer: Open) -> Source | None:
        kept = self._texts.get(buffer.uri)
        # Not its version: a buffer that is closed and opened again counts from the beginning.
        stamp = hash((buffer.language, buffer.text))
        if kept is None or kept[0] != stamp:
            path = relative_path(buffer.uri, self._folders)
            text = code_of(buffer.text) if _is_notebook(buffer, path) else buffer.text
            kept = stamp, source(path, buffer.language, text or "")
            if len(self._texts) >= TEXTS:
                self._texts.clear()  # `forget` was not told of some
            self._texts[buffer.uri] = kept
        return kept[1]

    def allows(self, uri: str) -> bool:
        """Whether a buffer may be quoted elsewhere."""
        if uri not in self._allowed:
            self._allowed[uri] = self._allows(uri)
        return self._allowed[uri]

    def _allows(self, uri: str) -> bool:
        try:
            scheme = urlsplit(uri).scheme
        except ValueError:
            return False
        path = uri_path(uri)
        if scheme not in QUOTED or keeps_secrets(path):
            return False
        if scheme == "untitled" or not self.workspace.roots:
            return True
        return self.workspace.inside(path) is not None and not self.workspace.ignores(path)

    def forget(self, uris: Iterable[str]) -> None:
        """These buffers are closed."""
        for uri in uris:
            self._texts.pop(uri, None)
            self._allowed.pop(uri, None)


def _is_notebook(buffer: Open, path: str) -> bool:
    """Whether this is the JSON of a notebook, broken or not, and no cell and no code made of it."""
    is_file = path.endswith(".ipynb") and not buffer.uri.startswith("vscode-notebook-cell:")
    return is_file and buffer.text.lstrip()[:1] == "{"


def _notebook(cells: Sequence[Source]) -> Source:
    text = "\n\n".join(cell.text for cell in cells)
    return Source(cells[0].path + CELLS, cells[0].language, text)
