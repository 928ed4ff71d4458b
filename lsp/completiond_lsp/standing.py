"""What the bridge tells an editor of itself: one object, sent when it changes, not too often.

Knows words and the clock; who finds the facts tells them here. Nothing is sent while a key is being
answered: a notification waits until the reply is out.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from completiond.core import CancelReason
from completiond.protocol.messages import Completion
from completiond.reasons import plainly
from completiond_lsp.daemon_link import Way

PAUSE_S = 0.2
"""Between two notifications."""
AFTER_S = 0.02
"""What is new is told this much later: the reply that it is about goes first."""

Last = dict[str, Any]
SILENT: tuple[CancelReason, ...] = ("superseded", "abandoned")


class Standing:
    """Of one editor. `publish` gets the whole object each time."""

    def __init__(self, publish: Callable[[dict[str, Any]], None]) -> None:
        self._publish = publish
        self._enabled = True
        self._way = Way("starting")
        self._last: Last = {}
        self._dashboard = ""
        self._pull: tuple[str, int | None] | None = None
        self._sent: dict[str, Any] = {}
        self._due: asyncio.TimerHandle | None = None
        self._free = 0.0

    def now(self) -> dict[str, Any]:
        """The object; what is not known is not in it."""
        way = self._way
        found: dict[str, Any] = {"state": way.state, "message": _sentence(way)}
        if way.model:
            found["model"] = way.model
        if self._pull is not None:
            what, percent = self._pull
            found |= {"state": "loading", "message": f"Fetching {what}."}
            found |= {} if percent is None else {"progress": percent}
        if not self._enabled:
            found |= {"state": "off", "message": "Suggestions are switched off (`enabled`)."}
        found |= {"dashboard": self._dashboard} if self._dashboard else {}
        return found | ({"last": self._last} if self._last else {})

    def enabled(self, enabled: bool) -> None:
        self._enabled = enabled
        self._changed()

    def way(self, way: Way) -> None:
        """How things stand with the daemon."""
        self._way = way
        self._changed()

    def pulling(self, what: str, percent: int | None) -> None:
        """A model is being fetched; an empty name: not any more."""
        self._pull = (what, percent) if what else None
        self._changed()

    def dashboard(self, link: str) -> None:
        """Where the record can be seen; empty: nowhere."""
        self._dashboard = link
        self._changed()

    def typed(self, ident: int) -> None:
        """A key was answered by the bridge alone: what was shown goes on."""
        self._note({"id": ident, "source": "typed"})

    def answered(self, answer: Completion, ms: float, shown: bool) -> None:
        if answer.reason in SILENT:
            return
        source = "model" if answer.tokens.get("passes") else "reuse"
        self._note(
            {"id": answer.id, "latencyMs": round(ms, 1), "source": source}
            | ({} if shown else {"reason": _nothing(answer)})
        )

    def refused(self, ident: int, sentence: str) -> None:
        """Nothing is shown, for a reason that is not the daemon's answer."""
        self._note({"id": ident, "reason": sentence})

    def tell(self) -> None:
        """Say it now, for an editor that has just begun to listen."""
        self._sent = {}
        self._changed()

    def _note(self, last: Last) -> None:
        self._last = last
        self._changed()

    def _changed(self) -> None:
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time() + AFTER_S, self._free), self._flush)

    def _flush(self) -> None:
        self._due = None
        found = self.now()
        if found != self._sent:
            self._sent = found
            self._free = asyncio.get_running_loop().time() + PAUSE_S
            self._publish(found)


def _nothing(answer: Completion) -> str:
    """Why an answer shows nothing. One that says something came for a text that is gone."""
    return plainly("outdated") if answer.candidates else plainly(answer.reason, answer.why)


def _sentence(way: Way) -> str:
    """How things stand, for a person."""
    match way.state:
        case "starting":
            return "The completion daemon is starting."
        case "loading":
            return f"{way.model or 'The model'} is being loaded."
        case "ready":
            return f"{way.model} is ready."
    return way.why or "No completion daemon runs; start one with `completiond serve`."
