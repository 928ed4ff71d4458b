"""What a record advises: drafts, their length, the model's size, the waiting. Pure.

Each sentence has the number that it rests on and the setting or the command that changes it. Where
too little was recorded, that is all it says.
"""

from collections.abc import Mapping
from typing import Any

from completiond.record.account import Account

FEW_KEYS = 200
"""Keys that waited for the model, under which nothing is advised."""
FEW_TOKENS = 500
"""The same of drafted tokens of one source."""
POOR_SHARE = 0.05
GOOD_SHARE = 0.8
PAYS = 1.3
"""Tokens a pass, over which drafts are worth what they cost on most machines."""
SLOW_US = 400_000
QUICK_US = 120_000
LOW = 0.1
"""A share of answers that are taken."""
LATE = 0.1
WAITS_US = 50_000


def advice(found: Account) -> list[str]:
    """In plain words, the most useful first."""
    if found.asked < FEW_KEYS:
        keys = "1 key" if found.asked == 1 else f"{found.asked} keys"
        return [
            f"Only {keys} waited for the model: too few for advice "
            f"(from {FEW_KEYS} on there is some)."
        ]
    facts = found.served.facts if found.served is not None else {}
    sentences = [*_model(found), *_drafts(found, facts), *_length(found, facts), *_waiting(found)]
    return sentences or ["Nothing to advise: answers come in time, and drafts pay."]


def taken_share(found: Account) -> float:
    """Of the answers that were shown, those that were taken."""
    totals = found.totals
    return totals.taken / totals.answers if totals.answers else 0.0


def _model(found: Account) -> list[str]:
    daemon, share = found.stage("daemon"), taken_share(found)
    if daemon is None:
        return []
    if daemon.p90 > SLOW_US:
        return [
            f"One answer in ten takes over {daemon.p90 / 1000:.0f} ms: a smaller model answers "
            "sooner (`completiond models list`, model.name), or a GPU (engine.device)."
        ]
    if share < LOW and found.totals.answers >= FEW_KEYS and daemon.p90 < QUICK_US:
        return [
            f"Only {share:.0%} of the answers are taken, and nine in ten come within "
            f"{daemon.p90 / 1000:.0f} ms: there is time for a larger model (model.name)."
        ]
    return []


def _drafts(found: Account, facts: Mapping[str, Any]) -> list[str]:
    per_pass = found.totals.tokens_per_pass
    drafted = sum(rate.drafted for rate in found.rates)
    if not drafted:
        if facts.get("drafters") == []:
            return ["Drafts are off: `completiond bench acceptance` says what they would bring."]
        return []
    poor = [r for r in found.rates if r.drafted >= FEW_TOKENS and r.share < POOR_SHARE]
    sentences = [
        f"Of what {rate.source} drafts {rate.share:.0%} holds ({rate.held:,} of {rate.drafted:,} "
        "tokens): try without it (engine.speculation)."
        for rate in poor
    ]
    if drafted >= FEW_TOKENS and per_pass < PAYS:
        sentences.append(
            f"A pass yields {per_pass:.2f} tokens: drafts bring little here; `completiond bench "
            'acceptance --files` on your code says whether engine.speculation = "off" is faster.'
        )
    return sentences


def _length(found: Account, facts: Mapping[str, Any]) -> list[str]:
    drafted = sum(rate.drafted for rate in found.rates)
    held = sum(rate.held for rate in found.rates)
    passes, most = found.totals.wrote, facts.get("draft_tokens")
    if drafted < FEW_TOKENS or not passes or not isinstance(most, int):
        return []
    each = drafted / passes
    if held / drafted > GOOD_SHARE and each > GOOD_SHARE * most:
        return [
            f"{held / drafted:.0%} of the drafts hold, and a pass has {each:.1f} of at most {most} "
            "tokens: raise engine.draft_tokens."
        ]
    if held / drafted < POOR_SHARE and facts.get("policy") == "fixed":
        return [
            f"{held / drafted:.0%} of the drafts hold: lower engine.draft_tokens, or let "
            'engine.policy = "auto" decide.'
        ]
    return []


def _waiting(found: Account) -> list[str]:
    sentences = []
    late = found.reasons.get("timeout", 0)
    if late > LATE * found.asked:
        sentences.append(
            f"{late:,} keys ran out of time with nothing to show: raise completion.max_ms or take "
            "a smaller model."
        )
    queue = found.stage("queue")
    if queue is not None and queue.p90 > WAITS_US:
        sentences.append(
            f"One key in ten waits {queue.p90 / 1000:.0f} ms for the engine: something else "
            "computes on this device, or several people share it."
        )
    return sentences
