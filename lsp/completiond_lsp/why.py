"""Why the last key, or a request, showed something or nothing: in words, for a person who asks.

What this process refused it knows itself; else the daemon is asked, then the record.
"""

import asyncio
from dataclasses import replace
from typing import Any, Literal

from completiond.errors import CompletiondError
from completiond.protocol.messages import Why
from completiond.reasons import plainly, sentences
from completiond_lsp.bridge import Bridge


async def why(bridge: Bridge, request: int | Literal["last"]) -> list[str]:
    """As `completiond why` tells it; one sentence where nobody knows."""
    if request != "last":
        return await _told(bridge, request)
    if bridge.refused is not None:
        return bridge.refused.sentences()
    if not bridge.options.enabled:
        return [plainly("switched_off")]
    last = bridge.standing.now().get("last", {})
    # Without a number the request has not reached any daemon, which the reason says.
    return [last["reason"]] if last.get("id") == 0 else await _told(bridge, last.get("id", 0))


async def _told(bridge: Bridge, request: int) -> list[str]:
    """`request` is 0: the newest of all, as this editor has asked nothing yet."""
    found, trouble = Why(0), ""
    try:
        found = await bridge.why(request)
    except CompletiondError as exc:
        trouble = str(exc)
    try:
        return await asyncio.to_thread(_in_words, found, request) or [trouble or _unknown(request)]
    except CompletiondError as exc:
        return [str(exc)]


def _in_words(found: Why, request: int) -> list[str]:
    # Imported here: SQLite is for who asks, not for each window that opens.
    from completiond.record.facts import in_words
    from completiond.record.recall import recalled

    facts: dict[str, Any] = found.facts or recalled(request)
    return [*sentences(replace(found, facts=facts)), *in_words(facts)] if facts else []


def _unknown(request: int) -> str:
    if not request:
        return "Nothing has been asked yet; write something first."
    return f"Nobody remembers request {request}, and it is not in the record."
