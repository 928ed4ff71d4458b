"""Where a half-typed word stood before, letter by letter, whatever tokens spelled it there.

` getNa` is one tokenization, `.getName` another: a place is found by its text, and where the text
before the word is another one, the word is spelled anew as the prompt needs it.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from completiond.drafters.branching import Found
from completiond.drafters.ngrams import LONGEST, Chains, Tail, matching

TOKENS, EARLIER = 24, 4
"""Tokens that begin the word whose latest places are looked at, and earlier places of each."""
FOLLOWING = 16
"""Tokens behind a word that is spelled anew that are drafted with it."""


class Speller(Protocol):
    """One vocabulary, as far as a half-typed word needs it."""

    def continuing(self, text: bytes) -> Sequence[int]:
        """Sorted ids whose bytes begin `text`, or begin with all of it."""

    def spell(self, token: int) -> bytes:
        """The bytes of a token."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids of a text."""


class _Word(NamedTuple):
    text: bytes  # with what was in front of it, to the end of the identifier
    end: int  # index of the token behind it; -1 if a token has more than the word


def rest_of(healed: bytes, generated: Sequence[int], speller: Speller) -> bytes:
    """What is still to be spelled of the text that was taken back; empty once a run left it."""
    for token in generated:
        spelled = speller.spell(token)
        if not healed.startswith(spelled):
            return b""
        healed = healed[len(spelled) :]
    return healed


def half_typed(
    store: Chains, tail: Tail, rest: bytes, speller: Speller, *, begun: bool
) -> list[Found]:
    """Places where `rest` stands, the latest first; the word is evidence as much as one token.

    With `begun`, the run has spelled a part of the word: only the same tokens can go on.
    """
    tokens, found = store.tokens, list[Found]()
    for at in _places(store, rest, speller):
        if _word(tokens, at, rest, speller):
            found.append((tokens, at, 1 + matching(tokens, at - 1, tail)))
    return found if begun else found + _respelled(store, rest, speller)


def spelled_out(rest: bytes, speller: Speller) -> list[Found]:
    """The word as far as it is typed: a new one has no place yet, but its first tokens are sure."""
    ids = _encoded(rest, speller)
    return [(array("i", ids), 0, 1)] if ids else []


def _respelled(store: Chains, rest: bytes, speller: Speller) -> list[Found]:
    word = rest.lstrip(b" \t")
    lead, tokens = rest[: len(rest) - len(word)], store.tokens
    found: list[Found] = []
    for other in (b" " + word, word) if word else ():
        for at in _places(store, other, speller) if other != rest else ():
            if other == word and at and _in_word(speller.spell(tokens[at - 1])[-1:]):
                continue
            read = _word(tokens, at, other, speller)
            ids = _encoded(lead + read.text.lstrip(b" "), speller) if read else ()
            if read and ids:
                behind = tokens[read.end : read.end + FOLLOWING] if read.end >= 0 else ()
                found.append((array("i", [*ids, *behind]), 0, 1))
    return found


def _places(store: Chains, text: bytes, speller: Speller) -> list[int]:
    """Where a token stands that begins `text`, or begins with it; the latest first."""
    if not len(store):
        return []
    latest = np.sort(store.latest(np.asarray(speller.continuing(text), np.int64)))
    places: list[int] = []
    for head in latest[: -TOKENS - 1 : -1].tolist():
        at, token = head, store.tokens[head]
        for _ in range(EARLIER):
            if at < 0 or store.tokens[at] != token:
                break
            places.append(at)
            at = store.before(at)
    return sorted(places, reverse=True)


def _word(tokens: "array[int]", at: int, start: bytes, speller: Speller) -> _Word | None:
    """The identifier at `at`, if its text begins with `start`."""
    said = b""
    for index in range(at, min(at + LONGEST, len(tokens))):
        spelled = speller.spell(tokens[index]) if tokens[index] >= 0 else b""
        if len(said) >= len(start) and not _in_word(spelled[:1]):
            return _Word(said, index)
        said += spelled
        if not (spelled and (said.startswith(start) or start.startswith(said))):
            return None
        inside = len(start)
        while _in_word(said[inside : inside + 1]):
            inside += 1
        if inside < len(said):
            return _Word(said[:inside], -1)
    return _Word(said, min(at + LONGEST, len(tokens))) if len(said) >= len(start) else None


def _in_word(byte: bytes) -> bool:
    return byte.isalnum() or byte in (b"_", b"$") or byte >= b"\x80"


def _encoded(text: bytes, speller: Speller) -> Sequence[int]:
    try:
        return speller.encode(text.decode())
    except UnicodeDecodeError:
        return ()
