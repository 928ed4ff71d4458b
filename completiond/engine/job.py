"""What front and engine say to each other: the nouns of the door, without the door itself.

Torch-free, so that the front may import it. Everything in a Job is plain data that msgpack carries;
the engine process's entry point builds the stop rule and the token mask from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from completiond.core import GREEDY, CancelToken, Outcome, Prompt, Sampling, StopRule, TokenMask


@dataclass(frozen=True, slots=True)
class Job:
    """One run: a prompt to continue for one buffer.

    `buffer` names the KV slot, `client` whose n-gram state may be used. `hint` are ids that earlier
    answers predict to follow the prompt: the first draft; those of an answer that is `astray` were
    contradicted by what was typed, and may fit again further on. `max_ms` counts from admission,
    0 is no limit. `stop` is the data of the stop rule, `priority` orders the queue (higher first):
    below 0 nobody asked for the run yet, and it gets no pass while another one waits or runs.
    `scored`: the outcome says how likely the answer is, which costs a wait for the device in each
    pass.
    """

    id: int
    buffer: str
    client: str
    prompt: Prompt
    max_tokens: int
    sampling: Sampling = GREEDY
    stop: Mapping[str, Any] = field(default_factory=dict)
    hint: tuple[int, ...] = ()
    astray: bool = False
    max_ms: int = 0
    priority: int = 0
    scored: bool = False


class Rules(NamedTuple):
    """What the entry point builds from a job's data, for an engine that knows no text."""

    stop: StopRule
    mask: TokenMask | None


class Progress(NamedTuple):
    """Ids that one pass committed to a run, and what the run has cost up to here."""

    job: int
    ids: tuple[int, ...]
    passes: int = 0
    prefilled: int = 0


class Done(NamedTuple):
    """A run ended and holds nothing on the device any more; the reason is in the outcome."""

    job: int
    outcome: Outcome


class Failed(NamedTuple):
    """A run ended by an error: a code of completiond.errors and a sentence."""

    job: int
    code: str
    message: str


Event = Progress | Done | Failed


class Core(Protocol):
    """What a worker drives: the real engine, or a scripted one. Single-threaded.

    `cancel` flags are read once per `step`; a job that is cancelled before its first pass never
    reaches the device and still gets its Done.
    """

    @property
    def busy(self) -> bool:
        """Whether `step` has anything to do."""

    def info(self) -> dict[str, Any]:
        """Plain facts for `status`: model, device, kernels, vocabulary, context, memory."""

    def admit(self, job: Job, rules: Rules, cancel: CancelToken) -> None:
        """Queue a run. Raises a CompletiondError that says why it cannot be run."""

    def step(self) -> list[Event]:
        """One pass over the runs whose turn it is."""

    def stats(self) -> dict[str, Any]:
        """Counters since the start: passes, tokens, cancels, KV bytes, queue lengths."""
