"""What clients are told, from facts that others found. Pure functions; sends nothing."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from completiond.core import Outcome
from completiond.errors import VersionError
from completiond.postprocess.clean import cleaned
from completiond.postprocess.ranking import Said, ranked
from completiond.protocol import messages as m
from completiond.sessions import Ticket
from completiond.version import __version__
from completiond.work import Answer, Work


def welcome(hello: m.Hello, model: str, state: m.State) -> m.Welcome | m.Failure:
    """The answer to a client that introduces itself."""
    if m.VERSION in hello.versions:
        return m.Welcome(m.VERSION, __version__, time.monotonic_ns(), model, state)
    error = VersionError(
        f"This daemon speaks protocol version {m.VERSION}, the client {hello.versions}; "
        "update the older of the two."
    )
    return m.Failure(0, error.code, str(error))


def nothing(ticket: Ticket, reason: str) -> m.Completion:
    """The reply of a request that shows nothing, and why."""
    request = ticket.request
    position = request.offset + len(request.before)
    return m.Completion(request.id, request.version, position, [], reason, ticket.unknown)


def not_asked(work: Work, known: Answer | None, why: str) -> m.Completion:
    """The reply of a request that is not worth a run: what is known already, if it is something."""
    if known is not None and known.shown:
        work.answers.append(known)
        return reply(work)
    return replace(nothing(work.ticket, "not_asked"), why=why)


def reply(work: Work, least: int = 1) -> m.Completion:
    """The candidates that differ and say something, and what they cost together."""
    ticket, answers = work.ticket, work.answers
    shown: dict[str, m.Candidate] = {}
    for answer in answers:
        if len(answer.shown.strip()) >= least:
            likely = answer.outcome.logprob / max(1, len(answer.outcome.ids))
            found = m.Candidate(answer.shown, answer.reason, logprob=likely)
            shown.setdefault(answer.shown, found)
    late = any(answer.reason == "timeout" for answer in answers) or not answers
    reason = "timeout" if late else "ok" if shown else "empty"
    why, removed = _account(answers, ticket, least)
    outcomes = [answer.outcome for answer in answers]
    return replace(
        nothing(ticket, reason),
        candidates=_best_first(list(shown.values()), ticket),
        why="" if shown else why,
        removed=removed,
        timings_ms=_timings(work, outcomes),
        tokens={
            "prompt": sum(o.prompt_tokens for o in outcomes),
            "reused": sum(o.reused for o in outcomes),
            "prefilled": sum(o.prefilled for o in outcomes),
            "generated": sum(len(o.ids) for o in outcomes),
            "passes": sum(o.passes for o in outcomes),
        },
        drafted=_total([o.drafted for o in outcomes]),
        accepted=_total([o.accepted for o in outcomes]),
    )


def _best_first(candidates: list[m.Candidate], ticket: Ticket) -> list[m.Candidate]:
    said = [Said(candidate.text, candidate.logprob) for candidate in candidates]
    return [candidates[index] for index in ranked(said, ticket.snapshot)]


def _account(answers: Sequence[Answer], ticket: Ticket, least: int) -> tuple[str, dict[str, int]]:
    """Why the first answer shows nothing, and the characters that each rule took from it."""
    if not answers:
        return "timeout", {}
    first = answers[0]
    found = cleaned(first.raw, ticket.snapshot, least=least)
    ended = first.outcome.ids or first.reason == "timeout"
    if first.raw.strip() or not ended:
        return found.reason, found.removed
    return _ENDED.get(first.reason, found.reason), found.removed


_ENDED = {
    "suffix": "repeats_suffix",
    "bracket": "closes_too_much",
    "sentinel": "sentinel",
    "repetition": "repetition",
    "length": "unfinished",
    "timeout": "timeout",
}
"""Why a run has nothing to show that wrote only blanks, or had no time, by why it ended."""


def _timings(work: Work, outcomes: list[Outcome]) -> dict[str, float]:
    return {
        "queue": sum(o.queued_ns for o in outcomes) / 1e6,
        "prompt": work.prompt_ns / 1e6,
        "prefill": sum(o.prefill_ns for o in outcomes) / 1e6,
        "decode": sum(o.decode_ns for o in outcomes) / 1e6,
        "total": (time.monotonic_ns() - work.ticket.arrived_ns) / 1e6,
    }


def _total(counts: list[dict[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))
