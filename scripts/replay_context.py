"""replay.py --virtual --context: what gathered context costs the keys, in tokens.

The bridge's own context beside the virtual daemon: the buffer, the trace's other open files, a look
in each pause, and the new list computed in that pause. Its threads are done at once, because time
does not pass in them.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from replay_ours import uri_of
from replay_traces import Moment, Step

from completiond.protocol import messages as m
from completiond_lsp.context import Context
from completiond_lsp.documents import Document
from completiond_lsp.retrieval.languages import language_of

T = TypeVar("T")


def at_once(work: Callable[[], T], done: Callable[[T | None], None]) -> None:
    asyncio.get_running_loop().call_soon(done, work())


def other_files(name: str, folders: Sequence[Path]) -> dict[str, str]:
    """The other open files of a trace, as far as it tells them."""
    found = next((path for f in folders if (path := f / f"{name}.json").is_file()), None)
    if found is None:
        return {}
    trace = json.loads(found.read_text(encoding="utf-8"))
    return {one["path"]: one["text"] for one in trace.get("other_open_files", ())}


class Gathering:
    """The context of one person's buffers, and what computing a new list took."""

    def __init__(self, tokens: int, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._context = Context(self._looked, run=at_once)
        self._context.enabled, self._context.tokens = True, tokens
        self._documents: dict[str, Document] = {}
        self._name = ""
        self._asked: dict[str, Moment] = {}
        self.prepare: Callable[[Moment], None] = lambda moment: None
        self.warm: list[int] = []
        self.sizes: list[int] = []

    def open(self, name: str, moments: Sequence[Moment]) -> None:
        self._name = name
        for path, text in other_files(name, self._folders).items():
            self._open(f"file:///replay/{name}/0/{path}", language_of(path), text)
        for moment in moments:
            self.opened(moment)

    def opened(self, moment: Moment) -> None:
        self._open(uri_of(self._name, moment), moment.language, moment.text)

    def _open(self, uri: str, language: str, text: str) -> None:
        self._context.use([f"file:///replay/{self._name}/0"])
        self._documents[uri] = Document(uri, text, version=1, language=language, encoding="utf-16")
        self._context.opened(self._documents[uri])

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        document = self._documents[uri_of(self._name, new)]
        document.replace(new.text)
        document.version = new.version
        line = old.text.count("\n", 0, step.offset)
        self._context.edited(document, line, step.insert.count("\n") - step.delete.count("\n"))

    def with_context(self, moment: Moment, message: m.Complete) -> m.Complete:
        uri = uri_of(self._name, moment)
        self._asked[uri] = moment
        line = moment.text.count("\n", 0, moment.cursor)
        hashes, chunks = self._context.of(self._documents[uri], line)
        self.sizes.append(len(hashes))
        return replace(message, context=hashes, chunks=chunks)

    def told(self, unknown: Sequence[str]) -> None:
        self._context.forget(unknown)

    def _looked(self, document: Document) -> None:
        """The list is another one: have it computed in this pause."""
        moment = self._asked.get(document.uri)
        if moment is not None and moment.version == document.version:
            self.prepare(moment)


def figures(gatherings: Sequence[Gathering], accounts: Sequence[Any]) -> dict[str, Any]:
    """What the pauses computed, and how many chunks a request had."""
    spent: Counter[str] = Counter()
    sizes: list[int] = []
    for gathering, account in zip(gatherings, accounts, strict=True):
        sizes += gathering.sizes
        for ident in gathering.warm:
            spent["looks_that_changed_the_list"] += 1
            ack = account.acks.get(ident)
            ran = account.answers.get(ident)
            spent["prefilled_in_pauses"] += ran.prefilled if ran else ack.prefilled if ack else 0
    return {**spent, "chunks_mean": round(sum(sizes) / max(1, len(sizes)), 2)}
