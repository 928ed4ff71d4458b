"""A key as `completiond why` tells it: names and numbers from its row, and times in words. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from completiond.record.rows import RETAINED_S, Drafted, Key

_STAGES = {
    "before": "before it was asked",
    "there": "on the way to the daemon",
    "lookup": "looking for an earlier answer",
    "prompt": "for the prompt",
    "queue": "waiting for the engine",
    "prefill": "until the first token",
    "decode": "decoding the other tokens",
    "door": "between daemon and engine",
    "finish": "to finish the text",
    "back": "on the way back",
    "after": "after it",
}
_KINDS = {
    "typed": "The editor's side answered itself: the answer that was shown is being typed.",
    "reuse": "It came from an earlier answer, without the model.",
    "ahead": "It had been computed before it was asked for.",
    "joined": "A run that was on its way already answered it.",
}
_OUTCOMES = {
    "accepted": "It was accepted",
    "partially": "A part of it was accepted",
    "typed": "It was typed through to its end",
    "rejected": "It was dismissed, or something else was typed",
    "superseded": "Another answer took its place",
}
LEAST_US = 500
"""Stages that took less are not worth a word."""


def facts_of(key: Key, drafts: Sequence[Drafted], now_ms: int) -> dict[str, Any]:
    """What the wire's `why` says of it."""
    shown = [key.shown] if key.candidates == 1 else []
    failed = {"message": key.details["message"]} if "message" in key.details else {}
    return failed | {
        "request": key.request,
        "ago_s": max(0, now_ms - key.at_ms) / 1000,
        "path": key.path,
        "language": key.language,
        "position": key.position,
        "trigger": key.trigger,
        "total_ms": key.took_us / 1000,
        "reason": key.reason,
        "why": key.why,
        "kind": key.kind,
        "outcome": key.outcome,
        "characters": key.details.get("characters", shown),
        "ended": key.details.get("ended", []),
        "removed": key.details.get("removed", {}),
        "tokens": {
            name: getattr(key, name)
            for name in ("prompt", "reused", "prefilled", "generated", "passes")
        },
        "drafts": {source: [drafted, held] for source, drafted, held in drafts},
        "timings_ms": {stage: us / 1000 for stage, us in key.stages.items()},
        "taken": key.taken,
        "left": {
            str(seconds): left
            for seconds in RETAINED_S
            if (left := getattr(key, f"kept_{seconds}")) is not None
        },
    }


def in_words(facts: Mapping[str, Any]) -> list[str]:
    """How it was answered, where its time went, what the drafts were worth, what became of it."""
    lines = [_KINDS.get(facts.get("kind", ""), "")]
    times = sorted(facts.get("timings_ms", {}).items(), key=lambda item: -item[1])
    spent = [
        f"{ms:.1f} ms {_STAGES.get(stage, stage)}" for stage, ms in times if ms * 1000 >= LEAST_US
    ]
    lines.append(f"Of that: {', '.join(spent)}." if len(spent) > 1 else "")
    drafts = [f"{held} of {n} by {source}" for source, (n, held) in facts.get("drafts", {}).items()]
    lines.append(f"Drafts that held: {', '.join(drafts)}." if drafts else "")
    lines.append(_became(facts))
    return [line for line in lines if line]


def _became(facts: Mapping[str, Any]) -> str:
    said = _OUTCOMES.get(facts.get("outcome", ""), "")
    if not said:
        return ""
    taken = f": {facts['taken']} characters" if facts.get("taken") else ""
    left = [f"{n} after {seconds} s" for seconds, n in facts.get("left", {}).items()]
    return f"{said}{taken}{', of which are left ' + ', '.join(left) if left else ''}."
