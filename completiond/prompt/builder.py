"""A snapshot becomes a prompt: where it is split, what is taken back, what fits.

Knows one tokenizer, one template and the budgets; knows no device and keeps no state of a buffer.
Edges move in steps and pieces of text are encoded on their own, so that a key changes the end of
the prompt and leaves the rest as it is in the KV cache.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from completiond import config
from completiond.core import Prompt, Segment, SegmentKind, Snapshot
from completiond.prompt import stopping
from completiond.prompt.anchor import EDGE, Split, end_of, line_anchor, lines_up, split_at
from completiond.prompt.templates import Template, comment, relative
from completiond.prompt.tokenizer import AnyTokenizer, without_surrogates

EDGE_STEP = 256
"""Tokens by which the left edge of the prefix moves."""
PIECE = 1024
"""Characters of text that are encoded together, up to the next line start."""
TYPED_TOKENS = 256
"""Room for the typed part; more of it goes into the prefix, and the split moves."""
LINES_UP = (4, 2)
"""Lines above the cursor's at which a long anchor is set: the model then sees the near text last,
and answers better (docs/performance.md)."""
LARGE = 2 << 30
"""Bytes of weights, some billion parameters: a model of so many answers better where all that is
typed but its line stands in front of the suffix, a smaller one with LINES_UP (docs/quality.md)."""
NEAR = 4
"""The part of the suffix that is read where the cursor has just come: nothing of it is in the KV
cache, and who comes may change a word and leave. All of it is read when a long anchor moves on; one
at the line moves at each line, and the suffix behind it with it: it stays near."""
HEALED_TOKENS = 64
SENTINELS = 4
"""BOS and three sentinels: what a prompt costs without any text."""
LEAST_CHUNK = 32
"""Tokens; a smaller beginning of a chunk is not worth its place."""

_HALF_CHARACTER = re.compile(rb"([\xc0-\xff]|[\xe0-\xff][\x80-\xbf]|[\xf0-\xff][\x80-\xbf]{2})\Z")


def layout_of(wanted: str, weights: int) -> str:
    """The layout that is wanted, or the one for a model with so many bytes of weights."""
    if wanted != "auto":
        return wanted
    return "line" if weights >= LARGE else "long"


class ChunkLike(Protocol):
    """A piece of another file, as context."""

    @property
    def path(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Built:
    """A prompt and what its run needs. `max_tokens` counts the healed part too.

    `prefix` is the text before the anchor, as long as the window has it, and `head` how the part
    of it begins that is in the prompt. `near` says that the suffix is not as long as it may be.
    """

    prompt: Prompt
    stop: dict[str, Any]
    prefix: str
    typed: str
    healed: str
    max_tokens: int
    head: str = ""
    near: bool = False

    @property
    def kept(self) -> "Kept":
        return Kept(self.prefix, self.head, self.near)


class Kept(NamedTuple):
    """What a buffer's last prompt leaves to the next: where it was split (None if the text after
    the cursor is another), how its prefix began, and whether its suffix is the near part only."""

    prefix: str | None = None
    head: str = ""
    near: bool = False


NOTHING = Kept()


class _Budget(NamedTuple):
    """Tokens of each part; they depend on settings alone, never on the text."""

    chunks: int
    prefix: int
    typed: int
    suffix: int
    healed: int
    answer: int


class _Assembly:
    """Ids in the making, and which of them are text."""

    def __init__(self, head: str) -> None:
        self.ids: list[int] = []
        self.segments: list[Segment] = []
        self.head = head

    def text(self, kind: SegmentKind, ids: Sequence[int]) -> None:
        if ids:
            start = len(self.ids)
            self.ids += ids
            self.segments.append(Segment(kind, start, len(self.ids)))

    def control(self, token: int | None) -> None:
        if token is not None:
            self.ids.append(token)


class PromptBuilder:
    def __init__(
        self,
        tokenizer: AnyTokenizer,
        template: Template | None,
        *,
        context: int,
        completion: config.Completion,
        eos_ids: Collection[int],
        off: Collection[str] = (),
        healing: bool | None = None,
        weights: int = 0,
    ) -> None:
        """`healing` is whether the word at the cursor is taken back; None is what the layout
        needs. `weights` is the model's size in bytes."""
        self._tokenizer = tokenizer
        self.template = template
        self.context = context
        self._completion = completion
        self._off = off
        self._layout = layout_of(completion.layout, weights)
        self._anchored = self._layout != "cursor"
        self._healing = self._anchored if healing is None else healing
        template_ids = template.stop_ids(tokenizer) if template else []
        self.stop_ids = sorted({*template_ids, *eos_ids})
        files = template.files if template else None
        self._file_before = tokenizer.token_id(files.before) if files else None
        self._file_after = tokenizer.token_id(files.after) if files else None
        self._marked = self._file_before is not None or self._file_after is not None
        self._inside = bool(self._marked and files and files.inside)

    def build(
        self,
        snapshot: Snapshot,
        chunks: Sequence[ChunkLike] = (),
        *,
        max_tokens: int,
        kept: Kept = NOTHING,
        closers: str = "",
        invoked: bool = False,
    ) -> Built:
        """The prompt at the cursor of `snapshot`; with its answer it fits into the context.

        In the layout `long` the anchor stays where `kept` has it while it can. `closers` begin the
        text after the cursor but belong to what was typed: the prompt goes on without them, as it
        did before they came. `invoked`: a person asks, and wants more than a line.
        """
        before, after = around(snapshot)
        after = after[len(_lf(closers)) :]
        budget = self._budget(max_tokens)
        split = self._split(_whole_lines(before, snapshot), budget.typed, kept.prefix)
        near = self._layout == "line" or (self._layout == "long" and not _settled(split, kept))
        files = self._files(snapshot, chunks, budget.chunks) if chunks else []
        suffix = self._beginning(after, budget.suffix // NEAR if near else budget.suffix)
        assembly = _Assembly(kept.head)
        self._lay_out(assembly, split, suffix, files, budget.prefix)
        healing = min(budget.healed, self._tokens(split.healed))
        cursor = stopping.Cursor(before, after, snapshot.language, closers)
        stop = stopping.rule(
            cursor, healed=split.healed, stop_ids=self.stop_ids, invoked=invoked, off=self._off
        )
        prompt = Prompt(tuple(assembly.ids), tuple(assembly.segments), split.healed)
        return Built(prompt, stop, *split, budget.answer + healing, assembly.head, near)

    def _budget(self, max_tokens: int) -> _Budget:
        """An answer gets half of the context at most: the prompt is never pruned to nothing."""
        answer = max(1, min(max_tokens, self.context // 2))
        healed = min(HEALED_TOKENS, self.context // 16) if self._healing else 0
        room = max(0, self.context - answer - healed - SENTINELS)
        suffix = min(self._completion.suffix_tokens, room // 4) if self.template else 0
        before = min(self._completion.prefix_tokens, room - suffix)
        typed = min(TYPED_TOKENS, before // 2) if self._anchored else 0
        return _Budget(room - suffix - before, before - typed, typed, suffix, healed, answer)

    def _split(self, before: str, limit: int, kept: str | None) -> Split:
        for anchor, room in self._anchors(before, limit, kept) if self._anchored else ():
            split = split_at(before, anchor)
            if not self._healing:
                split = Split(split.prefix, split.typed + split.healed, "")
            # Eight characters a token are more than code has: no need to encode a long text.
            if len(split.typed) <= 8 * room and self._tokens(split.typed) <= room:
                return split
        healed = split_at(before, line_anchor(before)).healed if self._healing else ""
        return Split(before[: len(before) - len(healed)], "", healed)

    def _anchors(self, before: str, limit: int, kept: str | None) -> Iterator[tuple[int, int]]:
        """Where to split, best first, and the tokens that the typed part may then have.

        A new anchor leaves half of the room to what will be typed, so that it can stay.
        """
        if self._layout == "long":
            stays = end_of(kept, before) if kept is not None else None
            if stays is not None:
                yield stays, limit
            for lines in LINES_UP:
                anchor = lines_up(before, lines)
                if anchor is not None:
                    yield anchor, limit // 2
        yield line_anchor(before), limit

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text))

    def _lay_out(
        self,
        out: _Assembly,
        split: Split,
        suffix: Sequence[int],
        files: Sequence[list[int]],
        room: int,
    ) -> None:
        """The parts in the order of the template; without one, context and text alone."""
        template = self.template
        ids = self._tokenizer.token_id
        out.control(self._bos())
        if self._marked:
            self._put_files(out, files)
        if template:
            out.control(ids(template.prefix))
        if template and self._layout == "suffix_first":
            self._put_after(out, template, suffix)
        self._put_before(out, split, files, room)
        if template and self._layout != "suffix_first":
            self._put_after(out, template, suffix)
        out.text("typed", self._tokenizer.encode(split.typed))

    def _put_after(self, out: _Assembly, template: Template, suffix: Sequence[int]) -> None:
        out.control(self._tokenizer.token_id(template.suffix))
        out.text("suffix", suffix)
        out.control(self._tokenizer.token_id(template.middle))

    def _bos(self) -> int | None:
        if self.template is None:
            return self._tokenizer.bos_id
        return self._tokenizer.token_id(self.template.bos)

    def _put_before(
        self, out: _Assembly, split: Split, files: Sequence[list[int]], room: int
    ) -> None:
        """The text before the anchor, behind what a family writes into the same text."""
        if not self._marked:
            self._put_files(out, files)
        elif self._inside and files:
            out.text("context", files[-1])
        lead = " " if self._tokenizer.prepends_space and split.prefix else ""
        ids, out.head = self._end(lead + split.prefix, room, out.head)
        out.text("prefix", ids)

    def _put_files(self, out: _Assembly, files: Sequence[list[int]]) -> None:
        for ids in files[:-1]:
            out.control(self._file_before)
            out.text("context", ids)
            out.control(self._file_after)
        if files:
            out.control(self._file_before)
        if files and not self._inside:
            out.text("context", files[-1])

    def _files(self, snapshot: Snapshot, chunks: Sequence[ChunkLike], room: int) -> list[list[int]]:
        """The chunks that fit, in the order given, and last the heading of the file itself."""
        own = self._tokenizer.encode(self._heading(snapshot.path, snapshot.language))
        room -= len(own) + 2
        found = []
        for chunk in chunks:
            body = self._heading(chunk.path, chunk.language) + _lf(chunk.text).rstrip("\n") + "\n"
            cost = 2 if self._marked else 0
            ids = self._beginning(body, room - cost)
            if len(ids) >= LEAST_CHUNK or self._tokenizer.decode(ids) == body:
                found.append(ids)
                room -= len(ids) + cost
        return [*found, own] if found else []

    def _heading(self, path: str, language: str) -> str:
        shown = relative(path) or "untitled"
        return (shown if self._marked else comment(shown, language)) + "\n"

    def _end(self, text: str, budget: int, head: str) -> tuple[list[int], str]:
        """The end of `text` in `budget` tokens or less, and the head of it.

        It begins where the last prompt did while that leaves it half of the budget, so that a jump
        nearby costs no more than the suffix; else at a line start, by an edge that is stepped.
        """
        start = text.find(head) if head else -1
        if start >= 0:
            ids = self._encoded(text[start:])
            if budget // 2 <= len(ids) <= budget:
                return ids, head
        ids = self._encoded(text)
        if len(ids) > budget:
            step = max(1, min(EDGE_STEP, budget // 4))
            dropped = ids[: -(-(len(ids) - budget) // step) * step]
            text = text[self._line_start(text, dropped, step) :]
            ids = self._encoded(text)[-budget:] if budget > 0 else []
        return ids, text[:EDGE]

    def _encoded(self, text: str) -> list[int]:
        return [token for piece in pieces(text) for token in self._tokenizer.encode(piece)]

    def _line_start(self, text: str, dropped: Sequence[int], reach: int) -> int:
        """Where the first line behind the `dropped` ids begins, if it is near; else behind them."""
        spelled = self._tokenizer.spelled(dropped)
        at = len(spelled.decode("utf-8", "ignore"))
        line = text.find("\n", max(0, at - 1), at + 4 * reach)
        return line + 1 if line >= 0 else at

    def _beginning(self, text: str, budget: int) -> list[int]:
        """The beginning of `text` in `budget` tokens or less, to a line's end where one is near."""
        ids: list[int] = []
        for piece in pieces(text) if budget > 0 else ():
            ids += self._tokenizer.encode(piece)
            if len(ids) > budget:
                return self._to_line_end(ids[:budget])
        return ids

    def _to_line_end(self, ids: list[int]) -> list[int]:
        spell = self._tokenizer.token_bytes
        for at in range(len(ids) - 1, len(ids) // 2, -1):
            line, end, _ = spell(ids[at]).rpartition(b"\n")
            if end:
                kept = self._tokenizer.encode((line + end).decode("utf-8", "ignore"))
                return ids[:at] + (kept if len(kept) <= len(ids) - at else [])
        while ids and _HALF_CHARACTER.search(b"".join(map(spell, ids[-4:]))):
            ids = ids[:-1]
        return ids


def _settled(split: Split, kept: Kept) -> bool:
    """Whether one has typed for so long at one place that the split has moved on."""
    if kept.prefix is None:
        return False
    end = end_of(kept.prefix, split.prefix)
    return not kept.near or (end is not None and end < len(split.prefix))


def around(snapshot: Snapshot) -> tuple[str, str]:
    """The text before and after the cursor with LF as the only line end, fit for UTF-8."""
    before, after = snapshot.before, snapshot.after
    if before.endswith("\r") and after.startswith("\n"):
        before = before[:-1]  # a cursor between CR and LF is at the end of the line
    return without_surrogates(_lf(before)), without_surrogates(_lf(after))


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _whole_lines(before: str, snapshot: Snapshot) -> str:
    """Without the half line at the edge of the window, if it is of a usual length."""
    return before[before.find("\n", 0, PIECE) + 1 :] if snapshot.offset else before


def pieces(text: str) -> Iterator[str]:
    """`text` in parts that later text leaves as they are: a change costs one part's encoding."""
    start = 0
    while len(text) - start > PIECE:
        end = text.find("\n", start + PIECE, start + 2 * PIECE) + 1
        if not end:
            if len(text) - start <= 2 * PIECE:
                break
            end = start + PIECE
        while text.startswith("\n", end):  # a run of empty lines is one token
            end += 1
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
