"""The logical text of a run: other files, text after the cursor, then what is being continued.

A raw fill-in-the-middle prompt ends with the suffix; what follows in the file goes on from the
prefix, what was typed and what was generated. Knows ids and segments; knows no drafts.
"""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from completiond.core import Segment
from completiond.drafters.base import DraftContext

Ids = npt.NDArray[np.int32]

BOUNDARY = -1
"""Separates texts; it equals no token, so no match and no draft crosses it."""
OWN = ("prefix", "typed")
"""Kinds of segments that the run goes on from."""
RUNS = 16
"""Runs whose text is kept; one that comes back later is read again."""


def prompt_text(context: DraftContext) -> list[int]:
    """The prompt's part of the logical text."""
    ids, segments = context.ids, context.segments
    if not segments:
        return list(ids[: context.prompt])
    text: list[int] = []
    for segment in segments:
        if segment.kind not in OWN and segment.kind != "control":
            text += ids[segment.start : segment.end]
            text.append(BOUNDARY)
    for segment in segments:
        if segment.kind in OWN:
            text += ids[segment.start : segment.end]
    return text


def text_head(context: DraftContext) -> int:
    """Where in `prompt_text` the text after the cursor begins; -1 where there is none."""
    start = 0
    for segment in context.segments:
        if segment.kind == "suffix":
            return start
        if segment.kind not in OWN and segment.kind != "control":
            start += segment.end - segment.start + 1
    return -1


class RunText:
    """One run's text, to which a step appends. `head` is where the text after the cursor begins."""

    def __init__(self, context: DraftContext) -> None:
        text = prompt_text(context)
        self._ids: Sequence[int] = context.ids
        self._segments: Sequence[Segment] = context.segments
        self._seen = context.prompt
        self._size = len(text)
        self.head = text_head(context)
        self._held: Ids = np.empty(len(text) + 256, np.int32)
        self._held[: self._size] = text

    def is_of(self, context: DraftContext) -> bool:
        """Whether this is the same run, further on."""
        return (
            context.ids is self._ids
            and context.segments is self._segments
            and len(context.ids) >= self._seen
        )

    def now(self) -> Ids:
        """[T] ids, with what was committed since the last call."""
        new = self._ids[self._seen :]
        end = self._size + len(new)
        if end > len(self._held):
            self._held = np.concatenate([self._held[: self._size], np.empty(end, np.int32)])
        self._held[self._size : end] = new
        self._size, self._seen = end, self._seen + len(new)
        return self._held[:end]


class RunTexts:
    """The texts of the last runs, by buffer."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, RunText] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def of(self, context: DraftContext) -> Ids:
        return self.run(context).now()

    def run(self, context: DraftContext) -> RunText:
        run = self._held.get(context.buffer)
        if run is None or not run.is_of(context):
            run = self._held[context.buffer] = RunText(context)
            self._held.move_to_end(context.buffer)
            if len(self._held) > RUNS:
                self._held.popitem(last=False)
        return run

    def forget(self, context: DraftContext) -> None:
        self._held.pop(context.buffer, None)
