"""The messages of the wire, version 1, as README.md beside this file specifies them.

Frozen dataclasses and the tag table; knows no bytes and no sockets.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from completiond.core import CancelReason, Sampling

VERSION = 1

MAX_MESSAGE = 4 << 20
MAX_FRAME = 16 << 20
MAX_BEFORE = 32_768
MAX_AFTER = 16_384
MAX_CONTEXT = 64
MAX_CHUNK = 65_536
MAX_NAME = 4_096
MAX_INDENT = 16
MAX_CANDIDATES = 8
MAX_TOKENS = 4_096
MAX_WAITING = 64
MAX_SPANS = 512
MAX_MOMENTS = 16
MAX_VERSIONS = 64

GRACE_S = 0.060
"""How long a superseded run may live, unless its next pass takes longer."""

Trigger = Literal["automatic", "invoked"]
FeedbackEvent = Literal["shown", "accepted", "rejected", "retained", "typed", "superseded"]
SpanKind = Literal["asked", "typed", "none", "warm"]
CancelWas = Literal["queued", "running", "finished", "unknown"]
State = Literal["loading", "ready", "restarting", "draining"]


@dataclass(frozen=True, slots=True)
class Hello:
    versions: list[int] = field(default_factory=lambda: [VERSION])
    client: str = ""
    client_version: str = ""
    clock: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    hash: str
    path: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Complete:
    id: int
    document: str
    version: int
    before: str
    after: str
    language: str = ""
    path: str = ""
    offset: int = 0
    prefix_hash: str = ""
    indent: str = ""
    trigger: Trigger = "automatic"
    n: int = 1
    model: str = ""
    max_tokens: int | None = None
    max_ms: int | None = None
    line_ms: int | None = None
    sampling: Sampling | None = None
    stream: bool = False
    context: list[str] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int
    reason: CancelReason = "abandoned"


@dataclass(frozen=True, slots=True)
class Feedback:
    id: int
    event: FeedbackEvent
    candidate: int = 0
    characters: int = 0
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """One key, as the client timed it: `at` moments of its clock, `took` by another clock."""

    id: int
    document: str
    version: int
    kind: SpanKind
    at: dict[str, int] = field(default_factory=dict)
    took: int = 0
    language: str = ""
    path: str = ""
    position: int = 0
    trigger: Trigger = "automatic"
    answer: int = 0
    characters: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Spans:
    spans: list[Span] = field(default_factory=list)
    editor: str = ""


@dataclass(frozen=True, slots=True)
class AskStatus:
    id: int = 0


@dataclass(frozen=True, slots=True)
class AskWhy:
    id: int = 0
    request: int = 0


@dataclass(frozen=True, slots=True)
class Welcome:
    version: int
    daemon_version: str
    clock: int
    model: str
    state: State


@dataclass(frozen=True, slots=True)
class Partial:
    id: int
    text: str
    candidate: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    text: str
    reason: str
    replace: int = 0
    logprob: float = 0.0


@dataclass(frozen=True, slots=True)
class Completion:
    id: int
    version: int
    position: int
    candidates: list[Candidate]
    reason: str
    unknown: list[str] = field(default_factory=list)
    timings_ms: dict[str, float] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    drafted: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    why: str = ""
    removed: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    id: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Cancelled:
    id: int
    was: CancelWas
    tokens_after: int = 0
    free_ms: float = 0.0
    passes: int = 0
    prefilled: int = 0


@dataclass(frozen=True, slots=True)
class Ping:
    """Means nothing."""


@dataclass(frozen=True, slots=True)
class Status:
    id: int
    state: State
    model: str
    device: str
    uptime_s: float
    clients: int
    waiting: int
    running: int
    engine: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Why:
    id: int
    facts: dict[str, Any] = field(default_factory=dict)
    recent: dict[str, int] = field(default_factory=dict)


FromClient = Hello | Complete | Cancel | Feedback | Spans | AskStatus | AskWhy
FromDaemon = Welcome | Partial | Completion | Failure | Cancelled | Ping | Status | Why
Message = FromClient | FromDaemon

FROM_CLIENT: dict[str, type[Any]] = {
    "hello": Hello,
    "complete": Complete,
    "cancel": Cancel,
    "feedback": Feedback,
    "spans": Spans,
    "ask_status": AskStatus,
    "ask_why": AskWhy,
}
FROM_DAEMON: dict[str, type[Any]] = {
    "welcome": Welcome,
    "partial": Partial,
    "completion": Completion,
    "failure": Failure,
    "cancelled": Cancelled,
    "ping": Ping,
    "status": Status,
    "why": Why,
}
TAGS = {kind: tag for tag, kind in (FROM_CLIENT | FROM_DAEMON).items()}
