"""Prompts that another program has laid out for a model already: their text to ids, where they end.

Law: a sentinel of the model's family is a control token where that family has it, once; any other
spelling of a control token's name is text, as it is in a file. Knows no device and no requests.
"""

import codecs
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from completiond.core import Prompt, Segment, SegmentKind
from completiond.errors import RequestError
from completiond.prompt import stopping
from completiond.prompt.templates import FAMILIES, Template
from completiond.prompt.tokenizer import AnyTokenizer


class Part(NamedTuple):
    """Text of one kind, and the control token before it."""

    kind: SegmentKind
    text: str
    control: str = ""


class ReadyPrompts:
    """Reads prompts for one vocabulary; `template` is what its model was trained on, if any."""

    def __init__(self, tokenizer: AnyTokenizer, template: Template | None) -> None:
        self._tokenizer = tokenizer
        self._template = template

    def cursor(self, text: str) -> stopping.Cursor | None:
        """The text around the cursor that a prompt is about; None if it is text alone."""
        if self._sentinels(text) is None:
            return None
        prefix, suffix, typed = (part.text for part in self._parts(text))
        return stopping.Cursor(prefix + typed, suffix)

    def read(self, text: str) -> Prompt:
        """Its ids. Raises RequestError for a prompt in the form of another family."""
        ids: list[int] = []
        segments: list[Segment] = []
        for kind, piece, control in [*self._opening(text), *self._parts(text)]:
            token = self._tokenizer.token_id(control) if control else None
            ids += [token] if token is not None else []
            if piece:
                segments.append(Segment(kind, len(ids), 0))
                ids += self._tokenizer.encode(piece)
                segments[-1] = segments[-1]._replace(end=len(ids))
        bos = self._bos
        if bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
            segments = [Segment(s.kind, s.start + 1, s.end + 1) for s in segments]
        return Prompt(tuple(ids), tuple(segments))

    @cached_property
    def _bos(self) -> int | None:
        """Other servers put it in front by themselves, so programs leave it out."""
        if self._template is None:
            return self._tokenizer.bos_id
        return self._tokenizer.token_id(self._template.bos)

    def _opening(self, text: str) -> list[Part]:
        """What stands in front of the sentinels: other files, the repository's name."""
        template, at = self._template, self._sentinels(text)
        if template is None or at is None:
            return []
        head, parts, control, end = text[: at[0].start()], list[Part](), "", 0
        for mark in re.finditer("|".join(map(re.escape, template.opening)) or r"(?!)", head):
            parts.append(Part("context", head[end : mark.start()], control))
            control, end = mark[0], mark.end()
        return [*parts, Part("context", head[end:], control)]

    def _parts(self, text: str) -> list[Part]:
        template, at = self._template, self._sentinels(text)
        if template is None or at is None:
            self._refuse_others(text)
            return [Part("prefix", text)]
        prefix, suffix, middle = at
        return [
            Part("prefix", text[prefix.end() : suffix.start()], template.prefix),
            Part("suffix", text[suffix.end() : middle.start()], template.suffix),
            Part("typed", text[middle.end() :], template.middle),
        ]

    def _sentinels(self, text: str) -> tuple[re.Match[str], re.Match[str], re.Match[str]] | None:
        return sentinels(self._template, text) if self._template is not None else None

    def _refuse_others(self, text: str) -> None:
        for family in FAMILIES:
            if sentinels(family, text) is not None:
                ours = "no fill-in-the-middle prompt"
                if self._template is not None:
                    ours = f"the one of {self._template.name}"
                raise RequestError(
                    f"The prompt has the form of {family.name}, but {self._tokenizer.name} reads "
                    f"{ours}; set the prompt format in your editor."
                )


def sentinels(
    template: Template, text: str
) -> tuple[re.Match[str], re.Match[str], re.Match[str]] | None:
    """Where a prompt has prefix, suffix and middle: the first prefix, the first suffix behind it,
    the last middle behind that. All three, or it is plain text."""
    prefix = _pattern(template.prefix).search(text)
    suffix = _pattern(template.suffix).search(text, prefix.end()) if prefix else None
    if prefix is None or suffix is None:
        return None
    middles = list(_pattern(template.middle).finditer(text, suffix.end()))
    return (prefix, suffix, middles[-1]) if middles else None


def _pattern(token: str) -> re.Pattern[str]:
    """A token's name as text has it: SentencePiece writes a blank in front as `▁`."""
    name = token.removeprefix("▁")
    return re.compile(("[ ▁]?" if name != token else "") + re.escape(name))


def rule(
    tokenizer: AnyTokenizer,
    stop_ids: Collection[int],
    texts: Sequence[str],
    cursor: stopping.Cursor | None = None,
) -> dict[str, Any]:
    """The data of the stop rule: ids, and texts that end the answer where they begin. A text that
    is the name of a control token is that token. At a cursor the answer ends as an editor's does.
    """
    named = (tokenizer.token_id(text) for text in texts)
    ids = {*stop_ids, *(token for token in named if token is not None)}
    data = stopping.rule(cursor, healed="", stop_ids=ids) if cursor else {"stop_ids": sorted(ids)}
    return data | {"texts": [text for text in texts if text]}


class ReadyStop:
    """core.StopRule for the data of `rule`."""

    def __init__(self, data: Mapping[str, Any], token_bytes: Callable[[int], bytes]) -> None:
        self._stop_ids = frozenset(data["stop_ids"])
        self._texts = data["texts"]
        self._longest = max(map(len, self._texts), default=0)
        self._at_cursor = stopping.TextStop(data, token_bytes) if "line" in data else None
        self._token_bytes = token_bytes
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._end = ""

    def step(self, ids: Sequence[int]) -> str | None:
        """Take the next committed ids; the reason to stop after them, or None."""
        for token in ids:
            if token in self._stop_ids:
                return "eos"
            if self._at_cursor is not None and (reason := self._at_cursor.step([token])):
                return reason
            if self._texts:
                self._end += self._utf8.decode(self._token_bytes(token))
                if any(text in self._end for text in self._texts):
                    return "stop"
                self._end = self._end[1 - self._longest :] if self._longest > 1 else ""
        return None


def said(text: str, data: Mapping[str, Any], reason: str) -> str:
    """The answer of a run that spelled `text` and is over by `reason`."""
    return _cut(stopping.trim(text, data, reason) if "line" in data else text, data["texts"])


def sure(text: str, data: Mapping[str, Any]) -> str:
    """What of an answer that goes on is certain: at a cursor the whole lines, and never what may
    be the beginning of a stop text."""
    texts = data["texts"]
    if "line" in data:
        text = stopping.trim(text, data, "").rpartition("\n")[0].rstrip()
    text = _cut(text, texts)
    for size in range(min(max(map(len, texts), default=1) - 1, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in texts):
            return text[:-size]
    return text


def _cut(text: str, texts: Sequence[str]) -> str:
    """What is said before that one of `texts` which is complete first."""
    found = [(at + len(stop), at) for stop in texts if (at := text.find(stop)) >= 0]
    return text[: min(found)[1]] if found else text
