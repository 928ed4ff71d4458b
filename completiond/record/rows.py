"""What is recorded of a key, as the rest of the program sees it: one frozen dataclass per row.

Knows names and units, no SQL. Times that end in `_us` are microseconds, `_ms` milliseconds of
unix time; None is "not told" or "did not happen". No text of a buffer or an answer is in any of it.
"""

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

STAGES = (
    "before",
    "there",
    "lookup",
    "prompt",
    "queue",
    "prefill",
    "decode",
    "door",
    "finish",
    "back",
    "after",
)
"""Of one key, in the order of time; they add up to `total`."""

KINDS = ("typed", "reuse", "ahead", "joined", "model", "refused", "none", "warm")
"""How a key was answered: by the bridge (`typed`), from a kept answer, by a run that had been
begun ahead or was on its way, by a new run; not at all (`refused`, `none`); `warm` is no key."""

OUTCOMES = ("shown", "accepted", "partially", "typed", "rejected", "superseded")
"""What became of an answer that was shown; `shown` is all that is known so far."""

RETAINED_S = (30, 120, 300, 600)
"""How long after an answer was taken its characters that are left are counted, seconds."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key: a question of an editor, and what became of it."""

    key: int = 0
    language: str = ""
    editor: str = ""
    model: str = ""
    path: str = ""
    trigger: str = "automatic"
    kind: str = "none"
    reason: str = ""
    why: str = ""
    outcome: str = ""
    at_ms: int = 0
    daemon: int = 0
    request: int = 0
    answer: int | None = None
    position: int = 0
    candidates: int = 0
    shown: int = 0
    before_us: int | None = None
    there_us: int | None = None
    lookup_us: int | None = None
    prompt_us: int | None = None
    queue_us: int | None = None
    prefill_us: int | None = None
    decode_us: int | None = None
    door_us: int | None = None
    finish_us: int | None = None
    back_us: int | None = None
    after_us: int | None = None
    total_us: int | None = None
    text_us: int | None = None
    drawn_us: int | None = None
    clock_us: int | None = None
    prompt: int = 0
    reused: int = 0
    prefilled: int = 0
    generated: int = 0
    passes: int = 0
    wrote: int = 0
    drafted: int = 0
    held: int = 0
    after_cancel: int = 0
    free_us: int | None = None
    taken: int | None = None
    kept_30: int | None = None
    kept_120: int | None = None
    kept_300: int | None = None
    kept_600: int | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def stages(self) -> dict[str, int]:
        """Those that are known, in order."""
        found = {name: getattr(self, f"{name}_us") for name in STAGES}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def took_us(self) -> int:
        """The bridge's own total, or what the daemon and whoever told more add up to."""
        return self.total_us if self.total_us is not None else sum(self.stages.values())


WORDS = ("path", "trigger", "kind", "reason", "why", "outcome")
"""Fields of a Key that are words, which are stored once each."""
GROUP = ("language", "editor", "model")
"""Fields that a key has in common with many others, and that one filters by."""
NUMBERS = tuple(f.name for f in fields(Key) if f.name not in (*WORDS, *GROUP, "key", "details"))
"""Fields that are stored as they are."""


class Drafted(NamedTuple):
    """What one source proposed for a key, and how much of it held; tokens."""

    source: str
    drafted: int
    held: int


class Spelled(NamedTuple):
    """A token as text, who proposed it (nobody: the model's own), and whether it was kept."""

    text: str
    source: str
    held: bool


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a key's run: tokens committed, and its draft by source, in order.

    `words` are those tokens, the committed ones first; only with `record.text`.
    """

    committed: int
    drafts: tuple[Drafted, ...] = ()
    words: tuple[Spelled, ...] = ()


@dataclass(frozen=True, slots=True)
class Served:
    """One start of a daemon: who wrote keys, with what model, and how it was set."""

    daemon: int = 0
    started_ms: int = 0
    pid: int = 0
    version: str = ""
    model: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Said:
    """The text of a key; only with `record.text`."""

    key: int
    document: str
    offset: int
    before: str
    after: str
    answers: tuple[str, ...]


class Point(NamedTuple):
    """Latencies of the keys of one span of time, microseconds."""

    at_ms: int
    keys: int
    p50: int
    p90: int
    p99: int


class Spread(NamedTuple):
    """How long one stage took, microseconds."""

    stage: str
    keys: int
    p50: int
    p90: int
    p99: int


class Bar(NamedTuple):
    """Keys that took at least `low_us` and less than `high_us`."""

    low_us: int
    high_us: int
    keys: int


class Rate(NamedTuple):
    """Drafted tokens of one source, and how many of them held."""

    source: str
    drafted: int
    held: int

    @property
    def share(self) -> float:
        return self.held / self.drafted if self.drafted else 0.0


class Retained(NamedTuple):
    """Of the characters that were taken so long ago, how many are left."""

    after_s: int
    taken: int
    left: int


class Totals(NamedTuple):
    """Counts over many keys. `answers` are those that were shown."""

    keys: int
    answers: int
    accepted: int
    partially: int
    typed: int
    rejected: int
    shown_characters: int
    taken_characters: int
    generated: int
    passes: int
    wrote: int
    prompt: int
    prefilled: int

    @property
    def taken(self) -> int:
        """Answers that were accepted, in part too, or typed through."""
        return self.accepted + self.partially + self.typed

    @property
    def tokens_per_pass(self) -> float:
        """Of the passes that wrote: the one that ends a prompt's reading does, those before not."""
        return self.generated / self.wrote if self.wrote else 0.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Which keys: of a span of time, a language, an editor, a model, a buffer's path."""

    since_ms: int = 0
    until_ms: int = 1 << 53
    language: str = ""
    editor: str = ""
    model: str = ""
    path: str = ""


EVERYTHING = Filter()
