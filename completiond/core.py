"""The nouns of the project. Knows text positions and token ids; imports nothing of ours but errors.

Text offsets are Unicode code points. Token positions are indices into a prompt's ids.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from completiond.errors import RequestError

WINDOW_STEP = 4096
"""Characters by which the edges of a text window move, so that most keys leave them in place."""
BEFORE_STEPS = 4
AFTER_STEPS = 2

CancelReason = Literal["superseded", "abandoned"]
SegmentKind = Literal["context", "prefix", "typed", "suffix", "control"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A buffer at one moment, cut to a window around the cursor.

    `before` starts at absolute `offset`; `prefix_hash` names all the text in front of it. `indent`
    is one level of indentation as the editor is set, if it said so.
    """

    document: str
    version: int
    language: str
    path: str
    before: str
    after: str
    offset: int = 0
    prefix_hash: str = ""
    indent: str = ""

    @classmethod
    def around(
        cls, text: str, cursor: int, *, document: str, version: int, language: str, path: str
    ) -> "Snapshot":
        """The window of `text` around `cursor`, whose edges move in WINDOW_STEP characters.

        Raises RequestError if the cursor is not inside the text.
        """
        if not 0 <= cursor <= len(text):
            raise RequestError(
                f"The cursor is at character {cursor}, but the text has {len(text)} characters; "
                "ask for a position inside the file."
            )
        start = max(0, cursor // WINDOW_STEP - BEFORE_STEPS) * WINDOW_STEP
        end = (cursor // WINDOW_STEP + 1 + AFTER_STEPS) * WINDOW_STEP
        return cls(
            document=document,
            version=version,
            language=language,
            path=path,
            before=text[start:cursor],
            after=text[cursor:end],
            offset=start,
            prefix_hash=text_hash(text[:start]),
        )


def text_hash(text: str) -> str:
    """128 bits of BLAKE2b over the UTF-8 of `text`, as hex; lone surrogates are kept apart."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Segment(NamedTuple):
    """Token positions [start, end) of a prompt that hold one kind of text."""

    kind: SegmentKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the engine is asked to continue.

    `healed` is the text that was taken back from the end of the typed part: the next tokens must
    spell it first. `segments` name the logical text inside `ids`, without the sentinels.
    """

    ids: tuple[int, ...]
    segments: tuple[Segment, ...] = ()
    healed: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn. Temperature 0 is greedy; noise depends only on (seed, position)."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


GREEDY = Sampling()


@dataclass(frozen=True, slots=True)
class Draft:
    """A token tree of proposals. Node i continues node `parents[i]`; -1 is the last token kept.

    Parents come before their children; `probs` are those of the whole path down to a node.
    `matched`, if given, says how many tokens a node's guess rests on. `q`, if given, is a tensor
    [nodes, V]: the processed distribution that node i was *sampled* from; without it a node is a
    point mass.
    """

    ids: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probs: tuple[float, ...] = ()
    sources: tuple[str, ...] = ()
    q: Any = None
    matched: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def chain(cls, ids: Sequence[int], source: str, prob: float = 0.5, q: Any = None) -> "Draft":
        """The tree without branches: each node continues the one before it."""
        n = len(ids)
        probs = tuple(prob ** (i + 1) for i in range(n))
        return cls(tuple(ids), tuple(range(-1, n - 1)), probs, (source,) * n, q)

    @property
    def is_chain(self) -> bool:
        return all(parent == i - 1 for i, parent in enumerate(self.parents))


NO_DRAFT = Draft()


Likely = tuple[tuple[int, float], ...]
"""(token, chance) of the likeliest next tokens, the best first; chances are shares among these."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one pass committed for one sequence, and the rows (new and drafted tokens) it took.

    `tree` is the draft that was verified; `drawn` are the target's own tokens [1 + nodes], after
    the last token kept and after each node, which the rejection sampler does not have. `likely` are
    in the same rows the target's likeliest tokens, where a drafter learns from them. `logprob` is
    that of `ids` under the target as it is, where the job wants to know.
    """

    ids: tuple[int, ...]
    rows: int = 0
    drafted: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    reason: str | None = None
    tree: Draft = NO_DRAFT
    drawn: tuple[int, ...] = ()
    likely: tuple[Likely, ...] = ()
    logprob: float = 0.0


@dataclass(slots=True)
class Outcome:
    """A run's account: what it produced, why it ended and what it cost.

    Times are nanoseconds of the engine's monotonic clock; counts are tokens and passes. `strip` has
    for each pass that wrote the tokens that it committed, (source, drafted, accepted) of each
    source and, where the engine keeps them, (id, source, accepted) of each drafted token.
    """

    ids: list[int] = field(default_factory=list)
    reason: str = ""
    prompt_tokens: int = 0
    reused: int = 0
    prefilled: int = 0
    passes: int = 0
    drafted: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    queued_ns: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    tokens_after_cancel: int = 0
    cancel_to_free_ns: int = 0
    logprob: float = 0.0
    strip: list[Any] = field(default_factory=list)


class CancelToken:
    """One flag, set from any thread, read once per pass.

    `superseded` leaves a grace: the run may live until `deadline` and for one more pass. `wanted`
    says whether somebody waits for the run, if that has changed since it was begun: one that was
    begun ahead may be taken over, and one that has said enough goes on for nobody.
    """

    __slots__ = ("deadline", "reason", "since", "wanted")

    def __init__(self) -> None:
        self.reason: CancelReason | None = None
        self.since = 0.0
        self.deadline = 0.0
        self.wanted: bool | None = None

    def cancel(self, reason: CancelReason, grace_s: float = 0.0) -> None:
        """Set the flag; an abandonment overrides a supersession, never the other way."""
        if self.reason == "abandoned":
            return
        now = time.monotonic()
        self.since = now
        self.deadline = now + grace_s
        self.reason = reason

    def revive(self) -> bool:
        """Take a superseded run back for a request that still fits it; False if it is abandoned."""
        if self.reason == "abandoned":
            return False
        self.reason = None
        self.wanted = True
        return True

    def demote(self) -> None:
        """Nobody waits for the run any more: it may go on when nobody asks for another."""
        self.wanted = False

    def nobody_asks(self, priority: int) -> bool:
        """Whether a run of this priority must not cost another one anything."""
        return priority < 0 if self.wanted is None else not self.wanted


class StopRule(Protocol):
    """Decides, from the ids committed so far, whether a run is complete."""

    def step(self, ids: Sequence[int]) -> str | None:
        """Take the next committed ids in order; the reason to stop after them, or None."""


class TokenMask(Protocol):
    """Restricts the target's distribution, e.g. to tokens that continue a half-typed word."""

    def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
        """Sorted ids that may follow `generated`, or None when every id may."""
