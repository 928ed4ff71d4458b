"""Real time: every trace is typed at each side in turn, at the keys' own times."""

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from replay_account import Account
from replay_daemon import counters
from replay_editor import Seat, type_trace
from replay_metrics import Judged, figures, judge, prefill_figures, ratio, table, wire_figures
from replay_sides import Side
from replay_traces import Trace


@dataclass(slots=True)
class Log:
    """What a side did with all traces."""

    synthetic: list[list[Judged]] = field(default_factory=list)
    recorded: list[list[Judged]] = field(default_factory=list)
    late_ms: float = 0.0
    account: Account = field(default_factory=Account)
    engine: Counter[str] = field(default_factory=Counter)

    def figures(self, side: Side) -> dict[str, Any]:
        found = figures(self.synthetic + self.recorded)
        if side.daemon is not None:
            found |= wire_figures(self.account, self.engine)
        elif self.account.versions:
            found |= prefill_figures(self.account)
        found["latest_key_ms"] = round(self.late_ms, 1)
        return found


def live(traces: Sequence[Trace], sides: Sequence[Side], speed: float) -> dict[str, Any]:
    """Replays, prints the tables, returns the figures of the first side with `peers` in them."""
    logs = asyncio.run(_live(traces, sides, speed))
    columns = {side.name: logs[side.name].figures(side) for side in sides}
    print(table(columns))
    sets = {}
    for name in ("synthetic", "recorded"):
        found = {side: getattr(log, name) for side, log in logs.items()}
        if any(found.values()):
            sets[name] = {side: figures(judged) for side, judged in found.items()}
            print(f"\n{name} traces\n{table(sets[name])}")
    first, *peers = [side.name for side in sides]
    own = columns[first]
    return own | {
        "side": first,
        "sets": {name: found[first] for name, found in sets.items()},
        "peers": {
            peer: columns[peer]
            | {"sets": {name: found[peer] for name, found in sets.items()}}
            | {"ours_against_it": _against(own, columns[peer])}
            for peer in peers
        },
    }


def _against(own: dict[str, Any], peer: dict[str, Any]) -> dict[str, float | None]:
    names = ("before_next_key", "saved_share", "useful_share", "p50_ms", "p90_ms", "p95_ms")
    return {name: ratio(own[name], peer[name]) for name in names}


async def _live(traces: Sequence[Trace], sides: Sequence[Side], speed: float) -> dict[str, Log]:
    logs = {side.name: Log() for side in sides}
    async with AsyncExitStack() as stack:
        seats = {side.name: await stack.enter_async_context(side.sit()) for side in sides}
        for side in sides:
            logs[side.name].account = seats[side.name].account
        for number, trace in enumerate(traces):
            order = sides if number % 2 == 0 else sides[::-1]
            for side in order:
                await _one(trace, side, seats[side.name], logs[side.name], speed)
    return logs


async def _one(trace: Trace, side: Side, seat: Seat, log: Log, speed: float) -> None:
    before = await _counters(side)
    log.late_ms = max(log.late_ms, await type_trace(trace, seat, speed))
    log.engine.update(await _counters(side) - before)
    judged = judge(trace, seat.screen.keys)
    (log.recorded if trace.recorded else log.synthetic).append(judged)
    own = figures([judged])
    told = ", ".join(f"{name} {own[name]}" for name in _TOLD)
    print(f"{trace.name} {side.name}: {told}", file=sys.stderr, flush=True)


_TOLD = ("keys", "p50_ms", "before_next_key", "no_pass_share", "useful_share", "saved_share")


async def _counters(side: Side) -> Counter[str]:
    if side.daemon is None:
        return Counter()
    found = await counters(side.daemon.endpoint)
    return Counter({k: int(v) for k, v in found.items() if type(v) is int})
