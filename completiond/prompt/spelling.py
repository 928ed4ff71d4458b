"""The bytes of a vocabulary's tokens, kept in the cache: the file they come from takes a second.

Knows a tokenizer.json by its size and time, and the order of its tokens' bytes. A cache file that
is damaged, old or cannot be written costs that second at the next start, nothing else.
"""

import os
import zlib
from array import array
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from completiond.config import cache_dir
from completiond.keeping import keep
from completiond.prompt.tokenizer import AnyTokenizer, Tokenizer

VERSION = 2
"""Counts the ways in which tokens were spelt; files of another one are made anew."""


class Spelling(NamedTuple):
    """What the ids from 0 to `vocab_size` add to a text, and those that add anything in order."""

    every: list[bytes]
    order: "array[int]"
    control: frozenset[int] = frozenset()

    @property
    def vocab_size(self) -> int:
        return len(self.every)

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to the text; empty for control tokens and ids that do not exist."""
        return self.every[token] if 0 <= token < len(self.every) else b""


def in_order(every: list[bytes], control: Iterable[int] = ()) -> Spelling:
    """From the bytes of each id, and the ids that are control tokens."""
    spoken = (i for i in range(len(every)) if every[i])
    order = array("i", sorted(spoken, key=every.__getitem__))
    return Spelling(every, order, frozenset(control))


def spell(tokenizer: AnyTokenizer) -> Spelling:
    """From a tokenizer that was read."""
    every = [tokenizer.token_bytes(i) for i in range(tokenizer.vocab_size)]
    return in_order(every, tokenizer.control)


def spelling_of(directory: Path, name: str) -> Spelling:
    """Of the model in `directory`, from the cache or from its tokenizer.

    Raises ModelMissing or ModelCorrupt for a tokenizer.json that cannot be read.
    """
    source = directory / "tokenizer.json"
    stamp = _stamp(source)
    kept = cache_dir() / "vocabularies" / f"{zlib.crc32(os.fsencode(source.resolve())):08x}"
    known = _read(kept, stamp)
    if known is None:
        known = spell(Tokenizer.load(directory, name=name))
        _write(kept, stamp, known)
    return known


def _stamp(source: Path) -> list[int]:
    with suppress(OSError):
        status = source.stat()
        return [VERSION, status.st_size, status.st_mtime_ns]
    return []


def _read(kept: Path, stamp: list[int]) -> Spelling | None:
    with suppress(OSError, ValueError, TypeError):
        found: Any = msgpack.unpackb(kept.read_bytes())
        made, check, spelled = found
        if stamp and made == stamp and check == zlib.crc32(spelled):
            every, order, control = msgpack.unpackb(spelled)
            return Spelling(every, array("i", order), frozenset(control))
    return None


def _write(kept: Path, stamp: list[int], spelling: Spelling) -> None:
    spelled = msgpack.packb([spelling.every, spelling.order.tobytes(), sorted(spelling.control)])
    keep(kept, msgpack.packb([stamp, zlib.crc32(spelled), spelled]))
