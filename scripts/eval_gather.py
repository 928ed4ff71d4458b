"""What the product's own retrieval finds at an item's hole: a source of chunks for eval.py.

A trace's hole has its other open files, and the person's edits up to it. An item of a repository
has that repository's files where it lies unpacked, and no other buffer open. Nothing is held from
an earlier question, as in a buffer that has just been opened.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from infill_items import Item

from completiond.protocol.messages import Chunk
from completiond_lsp.retrieval.ask import TOKENS, Ask, Open, chunks_of
from completiond_lsp.retrieval.gather import SHARES
from completiond_lsp.retrieval.languages import language_of
from completiond_lsp.retrieval.library import Library
from completiond_lsp.retrieval.recent import Past, Recent
from completiond_lsp.retrieval.sources import Kind

FOLDER = "file:///workspace"
"""Of a trace's files, which lie nowhere."""


class Places(NamedTuple):
    """Where the sets are, and the repositories of a cross-file set, unpacked under their names."""

    data: Path
    repositories: Path | None = None


def early(item: Item, places: Places) -> Sequence[Chunk]:
    """The same, looked for before the cursor's line was typed: in the pause behind the last one."""
    if "trace" in item.more:
        return ()  # its text is that of the events up to the hole
    above = item.prefix[: item.prefix.rfind("\n") + 1]
    return gather(item._replace(prefix=above), places)


def gather(
    item: Item, places: Places, *, without: Kind | None = None, tokens: int = TOKENS
) -> Sequence[Chunk]:
    """The chunks that a request at the hole would carry, `without` one kind of them."""
    if "trace" in item.more:
        folder, asked = FOLDER, _of_trace(item, places.data)
    elif places.repositories is not None and "repository" in item.more:
        root = places.repositories.resolve() / item.more["repository"]
        if not root.is_dir():
            raise SystemExit(f"{root} is not there; unpack the repository {root.name} as that.")
        folder, asked = root.as_uri(), Asked(item.prefix + item.suffix, len(item.prefix))
    else:
        return ()
    uri = f"{folder}/{item.path}"
    here = Open(uri, item.language, 1, asked.text)
    line = asked.text.count("\n", 0, asked.cursor)
    ask = Ask(here, line, asked.others, asked.past, tokens=tokens)
    library = _library(folder, without)
    library.forget([uri])  # of one file there are several holes, all of the same version
    return chunks_of(library.answer(ask))


class Asked(NamedTuple):
    """The whole text of the buffer, the other buffers, and where the person has been."""

    text: str
    cursor: int
    others: Sequence[Open] = ()
    past: Past = Past()


@cache
def _library(folder: str, without: Kind | None) -> Library:
    shares = {kind: share for kind, share in SHARES.items() if kind != without}
    library = Library([folder], print, shares, within_s=float("inf"))
    library.refresh()
    return library


def _of_trace(item: Item, data: Path) -> Asked:
    """The buffer after the events up to the hole: an item's own texts are clipped."""
    trace = _trace(data / item.more["trace"])
    text, recent = trace["before_text"], Recent()
    for event in trace["events"][: item.more["event_index"] + 1]:
        at, deleted, inserted = event["offset"], event["delete"], event["insert"]
        if deleted or inserted:
            grown = inserted.count("\n") - deleted.count("\n")
            recent.edited(item.path, text.count("\n", 0, at), grown)
            text = text[:at] + inserted + text[at + len(deleted) :]
    others = [
        Open(f"{FOLDER}/{one['path']}", language_of(one["path"]), 1, one["text"])
        for one in trace["other_open_files"]
    ]
    return Asked(text, item.more["offset"], others, recent.past)


@cache
def _trace(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
