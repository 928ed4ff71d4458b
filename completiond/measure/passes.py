"""Jobs run to their end in this thread, every pass of them seen: what benchmarks and audits share.

Knows one core and the drafters of a run; builds no prompts, compares nothing. Needs torch.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from completiond.core import NO_DRAFT, CancelToken, Draft, Outcome, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.planner import Policy
from completiond.engine.job import Done, Failed, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.errors import EngineError, from_code


@dataclass(slots=True)
class Ran:
    """One run: its account, each pass that committed something, its seconds, and the seconds from
    the first of those passes to the last."""

    outcome: Outcome
    steps: list[Step]
    seconds: float
    behind_first: float = 0.0

    @property
    def ids(self) -> list[int]:
        return self.outcome.ids

    @property
    def rate(self) -> float:
        """Tokens a second behind the first pass; 0 if there was nothing behind it."""
        later = sum(len(step.ids) for step in self.steps[1:])
        return later / self.behind_first if self.behind_first else 0.0


@dataclass(slots=True)
class Watch:
    """A drafter that proposes nothing and sees what every pass kept, and when."""

    name: str = "watch"
    seen: dict[str, list[tuple[float, Step]]] = field(default_factory=dict)

    def propose(self, context: DraftContext, budget: int) -> Draft:
        return NO_DRAFT

    def observe(self, context: DraftContext, step: Step) -> None:
        if step.ids:
            self.seen.setdefault(context.buffer, []).append((time.perf_counter(), step))


def run(
    core: ModelCore,
    drafters: Sequence[Drafter],
    jobs: Sequence[tuple[Job, Rules]],
    policy: Policy | None = None,
) -> list[Ran]:
    """All jobs at once, in order, each from a buffer of its own; raises what one of them failed
    by. Without a `policy`, the engine's own decides."""
    watch = Watch()
    core.decoding.use([*drafters, watch], policy)
    started = time.perf_counter()
    for job, rules in jobs:
        core.admit(job, rules, CancelToken())
    ended = dict(_until_idle(core, started))
    found = []
    for job, _ in jobs:
        outcome, seconds = ended[job.id]
        seen = watch.seen.get(job.buffer, [])
        behind = seen[-1][0] - seen[0][0] if seen else 0.0
        found.append(Ran(outcome, [step for _, step in seen], seconds, behind))
    return found


def _until_idle(core: ModelCore, started: float) -> Iterator[tuple[int, tuple[Outcome, float]]]:
    while core.busy:
        for event in core.step():
            if isinstance(event, Failed):
                raise from_code(event.code, event.message)
            if isinstance(event, Done):
                if event.outcome.reason not in ("eos", "length"):
                    raise EngineError(f"A run ended early ({event.outcome.reason}).")
                yield event.job, (event.outcome, time.perf_counter() - started)
