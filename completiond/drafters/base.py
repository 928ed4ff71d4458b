"""The seam between the decode loop and what proposes tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from completiond.core import GREEDY, Draft, Sampling, Segment, Step, TokenMask


@dataclass(frozen=True, slots=True)
class DraftContext:
    """What a drafter may know of one run.

    `ids` are the prompt and everything committed since, one list that only grows during a run; the
    first `prompt` of them are the prompt, whose logical text `segments` name. `hint` is what
    earlier answers predict to follow the prompt; one that is `astray` has been contradicted since,
    and does not follow it at once. `healed` is the text that the first tokens must
    spell, as `mask` says in ids. `stop_ids` end a text.
    """

    buffer: str
    client: str
    ids: Sequence[int]
    prompt: int
    segments: Sequence[Segment] = ()
    sampling: Sampling = GREEDY
    mask: TokenMask | None = None
    hint: Sequence[int] = ()
    astray: bool = False
    stop_ids: Sequence[int] = ()
    healed: str = ""

    @property
    def generated(self) -> Sequence[int]:
        return self.ids[self.prompt :]


def committed(context: DraftContext, step: Step) -> bool:
    """Whether the context's ids, which grow with the run, already hold what the step committed."""
    n = len(step.ids)
    return len(context.generated) >= n and list(context.ids[len(context.ids) - n :]) == list(
        step.ids
    )


class Drafter(Protocol):
    """Proposes a token tree; may be wrong, may be empty, must never change the answer."""

    name: str

    def propose(self, context: DraftContext, budget: int) -> Draft:
        """At most `budget` nodes that may follow `context.ids`."""

    def observe(self, context: DraftContext, step: Step) -> None:
        """What the target kept of the last pass, with the context from before it."""
