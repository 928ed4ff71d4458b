"""How many names of the answers the chunks hold: what retrieval finds, asked of no model.

A name counts where it does not stand near its hole. One that is found is not used yet; one that is
not found has to be guessed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from eval_context import NEAR, SOURCES
from eval_gather import Places
from infill_items import Item

from completiond_lsp.retrieval.gather import CHARACTERS_A_TOKEN
from completiond_lsp.retrieval.words import words


class Found(NamedTuple):
    """Names of one set's answers, those of them in the chunks, and about how long these are."""

    set: str
    context: str
    names: int
    found: int
    tokens: int


def names_found(items: Sequence[Item], contexts: Iterable[str], places: Places) -> Iterator[Found]:
    sets = list(dict.fromkeys(item.set for item in items))
    for context in contexts:
        for name in sets:
            yield _of_set(name, context, [item for item in items if item.set == name], places)


def _of_set(name: str, context: str, items: Sequence[Item], places: Places) -> Found:
    names, found, characters = 0, 0, 0
    for item in items:
        text = "\n".join(chunk.text for chunk in SOURCES[context](item, places))
        new = words(item.middle) - words(item.prefix[-NEAR:] + "\n" + item.suffix[:NEAR])
        names, found = names + len(new), found + len(new & words(text))
        characters += len(text)
    return Found(name, context, names, found, round(characters / CHARACTERS_A_TOKEN / len(items)))
