"""What became of the latest requests, for `completiond why`: reasons and numbers, never text.

Knows requests and their replies; bounded, and forgotten when the daemon ends.
"""

import time
from collections import Counter, deque
from typing import Any

from completiond.protocol import messages as m
from completiond.sessions import Ticket

KEPT = 256
LONGEST_PATH = 200


class Recent:
    """The latest outcomes, the newest last."""

    def __init__(self, kept: int = KEPT) -> None:
        self._facts: deque[dict[str, Any]] = deque(maxlen=kept)

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, ticket: Ticket, reply: m.Completion | m.Failure) -> None:
        """Remember what a request was told."""
        request = ticket.request
        facts: dict[str, Any] = {
            "request": request.id,
            "at": time.monotonic(),
            "path": (request.path or request.document)[-LONGEST_PATH:],
            "language": request.language,
            "position": request.offset + len(request.before),
            "trigger": request.trigger,
            "total_ms": (time.monotonic_ns() - ticket.arrived_ns) / 1e6,
        }
        self._facts.append(facts | _told(reply))

    def find(self, request: int) -> dict[str, Any]:
        """The outcome of the newest request of that id, 0 of the newest of all; {} if unknown."""
        for facts in list(self._facts)[::-1]:
            if request in (0, facts["request"]):
                ago = time.monotonic() - facts["at"]
                return {name: value for name, value in facts.items() if name != "at"} | {
                    "ago_s": ago
                }
        return {}

    def summary(self) -> dict[str, int]:
        """How many of them ended how."""
        return dict(Counter(str(facts["why"] or facts["reason"]) for facts in self._facts))


def _told(reply: m.Completion | m.Failure) -> dict[str, Any]:
    if isinstance(reply, m.Failure):
        return {"reason": reply.code, "why": reply.code, "message": reply.message}
    return {
        "reason": reply.reason,
        "why": reply.why,
        "characters": [len(candidate.text) for candidate in reply.candidates],
        "ended": [candidate.reason for candidate in reply.candidates],
        "removed": dict(reply.removed),
        "tokens": dict(reply.tokens),
        "timings_ms": dict(reply.timings_ms),
    }
