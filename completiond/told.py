"""What clients tell of keys: how long they took there, which they answered themselves, and what
became of answers. Knows spans and feedback; believes no number that cannot be.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any

from completiond.protocol import messages as m
from completiond.reasons import REFUSED
from completiond.record.rows import RETAINED_S, Key
from completiond.record.stages import LONGEST_WAY_NS, SLACK_NS, Clocks, absurd, believed
from completiond.record.wall import now_ms
from completiond.remembered import Entry, Remembered

CLIENTS = 1_024
"""Clients whose clock and editor are remembered."""
BURST, A_SECOND = 2_000, 200
"""Spans and events that one client may have written down: at once, and a second."""
LONGEST_WORD = 64
MOST_CHARACTERS = 1 << 20
WEIGHT = {"shown": 0, "superseded": 1, "rejected": 2, "typed": 3, "partially": 4, "accepted": 5}
"""An outcome gives way to a weightier one only: an answer that is taken also leaves its path."""


@dataclass(slots=True)
class _Client:
    editor: str = ""
    clocks: Clocks = field(default_factory=Clocks)
    allowed: float = BURST
    since: float = field(default_factory=lambda: time.monotonic())

    def may(self) -> bool:
        """Whether one more may be written down."""
        now = time.monotonic()
        self.allowed = min(BURST, self.allowed + (now - self.since) * A_SECOND)
        self.since = now
        if self.allowed < 1:
            return False
        self.allowed -= 1
        return True


class Told:
    """Of all clients. Methods answer how many of what was told were not written down."""

    def __init__(self, keys: Remembered) -> None:
        self._keys = keys
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()

    def editor(self, client: bytes) -> str:
        """Whom that client serves, if it has said so."""
        found = self._clients.get(client)
        return found.editor if found is not None else ""

    def spans(self, client: bytes, told: m.Spans, model: str) -> int:
        """Keys as the client timed them."""
        state = self._client(client)
        state.editor = told.editor[:LONGEST_WORD] or state.editor
        refused = 0
        for span in told.spans:
            refused += not (state.may() and self._span(client, state, span, model))
        return refused

    def feedback(self, client: bytes, told: m.Feedback) -> int:
        """What became of an answer."""
        entry = self._keys.of(client, told.id)
        if entry is None or not self._client(client).may():
            return 1
        characters = max(0, min(told.characters, MOST_CHARACTERS))
        changes: dict[str, Any] = {}
        if told.event == "retained":
            changes = _retained(entry.key, characters, told.after_s)
        elif told.event == "accepted":
            offered = _offered(entry.key, told.candidate)
            taken = max(min(characters, offered), entry.key.taken or 0)
            part = taken < offered
            changes = _became(entry.key, "partially" if part else "accepted") | {"taken": taken}
        else:
            changes = _became(entry.key, told.event)
        if changes:
            self._keys.put(entry, **changes)
        return 0

    def _span(self, client: bytes, state: _Client, span: m.Span, model: str) -> bool:
        """Whether its times, if it tells any, are believed; the rest of it is in any case."""
        entry = self._keys.of(client, span.id) if span.id else None
        at = believed(span.at)
        if entry is None:
            if span.kind != "warm":
                at = {} if _took(at) > LONGEST_WAY_NS else at
                key = self._own(client, state, span, model)
                if at:
                    ago = state.clocks.ago_ns(max(at.values()), time.monotonic_ns())
                    key = replace(key, at_ms=max(0, key.at_ms - ago // 1_000_000))
                self._keys.put(self._keys.add(client, key), **_alone(span, at))
            return bool(at) or not span.at
        if entry.course is not None and "sent" in at:
            came, left = entry.course.arrived, entry.course.replied
            at = {} if absurd(at, came, left, time.monotonic_ns()) else at
        changes = _joined(entry, state.clocks, span, at)
        if span.kind == "warm":
            changes["kind"] = "warm"
        elif span.characters > 0:
            changes["shown"] = entry.key.shown or min(span.characters, MOST_CHARACTERS)
            changes |= _became(entry.key, "shown")
        if state.editor:
            changes["editor"] = state.editor
        self._keys.put(entry, **changes)
        return bool(at) or not span.at

    def _own(self, client: bytes, state: _Client, span: m.Span, model: str) -> Key:
        """A key that the daemon was not asked about."""
        answer = self._keys.of(client, span.answer) if span.answer else None
        return Key(
            at_ms=now_ms(),
            language=span.language[:LONGEST_WORD],
            editor=state.editor,
            model=model,
            path=span.path,
            trigger=span.trigger,
            kind=_own_kind(span),
            reason="ok" if span.kind == "typed" else span.reason[:LONGEST_WORD] or "none",
            position=max(0, span.position),
            answer=answer.number if answer is not None else None,
            shown=max(0, min(span.characters, MOST_CHARACTERS)),
        )

    def _client(self, name: bytes) -> _Client:
        state = self._clients.setdefault(name, _Client())
        self._clients.move_to_end(name)
        while len(self._clients) > CLIENTS:
            self._clients.popitem(last=False)
        return state


def _own_kind(span: m.Span) -> str:
    if span.kind == "typed":
        return "typed"
    return "refused" if span.reason in REFUSED else "none"


def _alone(span: m.Span, at: dict[str, int]) -> dict[str, Any]:
    """The stages of a key that never left the client: all of it is before and after."""
    if "replied" not in at:
        return {}
    took = (at["replied"] - at["received"]) // 1000
    return {"before_us": took, "total_us": _total_us(span, at)} | _drawn(at)


def _joined(entry: Entry, clocks: Clocks, span: m.Span, at: dict[str, int]) -> dict[str, Any]:
    """The client's stages of a key that the daemon knows."""
    if "sent" not in at or entry.course is None:
        return {}
    join = clocks.join(at, entry.course.arrived, entry.course.replied)
    changes: dict[str, Any] = {f"{name}_us": us for name, us in join.stages.items()}
    if "replied" in at:
        here = sum(entry.course.stages().values())  # a key cannot be shorter than a part of it
        changes["total_us"] = max(here, _total_us(span, at))
    return changes | {"clock_us": join.clock} | _drawn(at)


def _total_us(span: m.Span, at: dict[str, int]) -> int:
    """By the client's other clock, where that is not absurd."""
    took = at["replied"] - at["received"]
    return (span.took if took // 2 <= span.took <= took * 2 + SLACK_NS else took) // 1000


def _took(at: dict[str, int]) -> int:
    return at["replied"] - at["received"] if "replied" in at else 0


def _drawn(at: dict[str, int]) -> dict[str, Any]:
    if "drawn" not in at or "replied" not in at:
        return {}
    after = at["drawn"] - at["replied"]
    return {"drawn_us": after // 1000} if after <= LONGEST_WAY_NS else {}


def _became(key: Key, outcome: str) -> dict[str, Any]:
    if key.outcome and WEIGHT[outcome] <= WEIGHT[key.outcome]:
        return {}
    return {"outcome": outcome}


def _offered(key: Key, candidate: int) -> int:
    """Characters of the candidate that was taken."""
    lengths = key.details.get("characters") or [key.shown]
    return int(lengths[candidate]) if 0 <= candidate < len(lengths) else key.shown


def _retained(key: Key, characters: int, after_s: float) -> dict[str, Any]:
    nearest = min(RETAINED_S, key=lambda seconds: abs(seconds - after_s))
    if key.taken is None or abs(nearest - after_s) > nearest / 5:
        return {}
    return {f"kept_{nearest}": min(characters, key.taken)}
