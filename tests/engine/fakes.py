"""Hand-written stand-ins of what the engine is given: stop rules, masks, jobs."""

from collections.abc import Sequence
from typing import Any

from completiond.core import CancelToken, Prompt
from completiond.engine.job import Core, Done, Event, Job, Progress, Rules

NEWLINE = 10


class StopAt:
    """Stops after a token of the set."""

    def __init__(self, *ids: int) -> None:
        self._ids = ids

    def step(self, ids: Sequence[int]) -> str | None:
        return "line" if any(token in self._ids for token in ids) else None


class Spell:
    """The next tokens must spell `ids` first."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids

    def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
        at = len(generated)
        return [self._ids[at]] if at < len(self._ids) else None


RULES = Rules(StopAt(NEWLINE), None)


def ids_of(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def text_of(ids: Sequence[int]) -> str:
    return bytes(ids).decode()


def job(ident: int = 1, *, prompt: str = "abc", max_tokens: int = 64, **more: Any) -> Job:
    more.setdefault("buffer", f"buffer-{ident}")
    ids = more.pop("ids", None) or ids_of(prompt)
    client = more.pop("client", "client")
    return Job(ident, more.pop("buffer"), client, Prompt(ids), max_tokens, **more)


def admit(core: Core, *jobs: Job, rules: Rules = RULES) -> list[CancelToken]:
    tokens = [CancelToken() for _ in jobs]
    for one, token in zip(jobs, tokens, strict=True):
        core.admit(one, rules, token)
    return tokens


def run_out(core: Core) -> list[Event]:
    events: list[Event] = []
    while core.busy:
        events += core.step()
    return events


def done(events: Sequence[Event], ident: int = 1) -> Done:
    (found,) = [e for e in events if isinstance(e, Done) and e.job == ident]
    return found


def said(events: Sequence[Event], ident: int = 1) -> str:
    ids = [i for e in events if isinstance(e, Progress) and e.job == ident for i in e.ids]
    return text_of(ids)
