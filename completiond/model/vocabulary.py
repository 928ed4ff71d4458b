"""What ids a vocabulary really has, and whether two vocabularies are the same, by token text.

Knows tokenizer.json as text (no tokenizer is built) and how padding and end-of-text tokens are
spelt. Does not know models, tensors or the cache.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from completiond.errors import DraftMismatch, ModelCorrupt

PADDING = re.compile(r"\[PAD\d+\]")
"""Converters fill a vocabulary up to the row count of the embedding with such names."""

END_TEXTS = frozenset(
    {
        "<|endoftext|>",
        "<|im_end|>",
        "<|end_of_text|>",
        "<|eot_id|>",
        "</s>",
        "▁<EOT>",
        "<eos>",
        "<end_of_turn>",
        "<｜end▁of▁sentence｜>",
        "<|EOT|>",
    }
)
"""Tokens that end a text whatever the model's own metadata says: an instruct model's metadata
names only the end of a chat turn, but its fills end with the end of the document."""


class Texts(NamedTuple):
    """The texts of a vocabulary by id, padding left out; `added` are those outside the model."""

    every: dict[int, str]
    added: dict[int, str]


def token_texts(tokenizer_json: Path) -> Texts:
    """What a tokenizer.json spells, read as text: half the time of building the tokenizer."""
    try:
        tree = json.loads(tokenizer_json.read_text(encoding="utf-8"))
        vocab = tree["model"]["vocab"]
        if isinstance(vocab, dict):
            texts = {int(i): str(text) for text, i in vocab.items()}
        else:  # a unigram model lists [text, score] in the order of ids
            texts = {i: str(entry[0]) for i, entry in enumerate(vocab)}
        added = {int(t["id"]): str(t["content"]) for t in tree.get("added_tokens") or ()}
    except OSError as exc:
        raise ModelCorrupt(f"{tokenizer_json} cannot be read ({exc.strerror}).") from exc
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as exc:
        raise ModelCorrupt(
            f"{tokenizer_json} is not a tokenizer that can be read; get the model again."
        ) from exc
    return Texts(_without_padding(texts | added), _without_padding(added))


def _without_padding(texts: Mapping[int, str]) -> dict[int, str]:
    return {i: text for i, text in texts.items() if not PADDING.fullmatch(text)}


def real_size(ids: Iterable[int]) -> int:
    """The highest real id + 1; rows of the embedding beyond it are padding."""
    return max(ids, default=-1) + 1


def end_ids(control: Mapping[int, str], named: Iterable[int] = ()) -> tuple[int, ...]:
    """The ids that end a text: those the metadata names, and the known ones among `control`.

    An ordinary token may be spelt `</s>` too (Qwen2.5 has one); it ends nothing.
    """
    known = {i for i, text in control.items() if text in END_TEXTS}
    return tuple(sorted(known | set(named)))


def same_vocabulary(target: Path, draft: Path) -> int:
    """How many ids, from 0, the tokenizer.json of `draft` shares with the one of `target`.

    The draft's vocabulary must be the target's or its beginning: every id stands for the same
    text. Raises DraftMismatch that names the first id where they differ.
    """
    ours, theirs = token_texts(target).every, token_texts(draft).every
    size = real_size(theirs)
    for i in range(size):
        if ours.get(i) != theirs.get(i):
            raise DraftMismatch(
                f"The draft's vocabulary is not the target's: id {i} is {_shown(ours.get(i))} in "
                f"the target and {_shown(theirs.get(i))} in the draft; choose a draft of the "
                "target's own family."
            )
    if not size:
        raise DraftMismatch(f"The draft's {draft} holds no tokens; choose another draft.")
    return size


def _shown(text: str | None) -> str:
    return "nothing" if text is None else repr(text)
