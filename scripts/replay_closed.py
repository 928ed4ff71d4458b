"""Closed loop: the next key is sent when the answer to the last one is there.

What a key costs that no client's memory answers: every side is asked the same keys, key by key in
turns, and no side's editor answers by itself. Also the layouts, by the tokens that a key prefills.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from replay_daemon import daemon
from replay_editor import Seat
from replay_metrics import figures, judge, mean, quantile, ratio, share, table
from replay_sides import Ask, Side, our_side
from replay_traces import Trace, desk


@dataclass(frozen=True, slots=True)
class Cost:
    """One key at one side."""

    ms: float
    prefilled: int
    computed: bool
    """Whether this side's memory, the client's or the daemon's, could not have answered it."""
    local: bool
    """Whether the client's memory answered it."""
    empty: bool


Row = dict[str, Cost]


def closed(traces: Sequence[Trace], sides: Sequence[Side], most: int) -> dict[str, Any]:
    """`most` typed keys of each trace (0: all). What counts: keys that no client's memory knew and
    that every side has an answer to; beside them those that no server's memory knew either."""
    rows, bound = asyncio.run(_closed(traces, sides, most))
    first, *peers = [side.name for side in sides]
    asked = [row for row in rows if not any(cost.local or cost.empty for cost in row.values())]
    ran = [row for row in asked if all(cost.computed for cost in row.values())]
    columns = {
        f"{name}{what}": _costs([row[name] for row in chosen])
        for name in [first, *peers]
        for what, chosen in (("", asked), (" computed", ran), (" all", rows))
    }
    print(table(columns))
    own = columns[first]
    ratios = {
        f"{peer}{what}": {
            n: ratio(columns[f"{first}{what}"][n], columns[f"{peer}{what}"][n])
            for n in ("p50_ms", "p95_ms")
        }
        for peer in peers
        for what in ("", " computed")
    }
    print(f"ours / theirs on keys that no client's memory knew: {ratios}")
    return own | {
        "side": first,
        "computed": columns[f"{first} computed"],
        "all_keys": columns[f"{first} all"],
        "no_pass_bound": bound["no_pass_bound"],
        "peers": {peer: columns[peer] for peer in peers},
        "ours_against_peers": ratios,
    }


def _costs(costs: list[Cost]) -> dict[str, Any]:
    times = [cost.ms for cost in costs]
    tokens = [float(cost.prefilled) for cost in costs]
    return {
        "keys": len(costs),
        "p50_ms": quantile(times, 0.5),
        "p90_ms": quantile(times, 0.9),
        "p95_ms": quantile(times, 0.95),
        "prefill_p50": quantile(tokens, 0.5),
        "prefill_mean": mean(tokens),
        "prefill_p95": quantile(tokens, 0.95),
        "empty_share": share(sum(cost.empty for cost in costs), len(costs)),
        "no_pass_share": share(sum(not cost.computed for cost in costs), len(costs)),
    }


async def _closed(
    traces: Sequence[Trace], sides: Sequence[Side], most: int
) -> tuple[list[Row], dict[str, Any]]:
    rows, judged = [], []
    async with AsyncExitStack() as stack:
        seats = [await stack.enter_async_context(side.sit()) for side in sides]
        names = [side.name for side in sides]
        for trace in traces:
            found = await _trace(trace, dict(zip(names, seats, strict=True)), most)
            rows += found
            judged.append(judge(trace, seats[0].screen.keys))
            spent = {name: round(sum(row[name].ms for row in found) / 1000, 1) for name in names}
            print(f"{trace.name}: {len(found)} keys, seconds {spent}", file=sys.stderr, flush=True)
    return rows, figures(judged)


async def _trace(trace: Trace, seats: dict[str, Seat], most: int) -> list[Row]:
    here, rows = desk(trace), list[Row]()
    for seat in seats.values():
        await seat.open(trace.name, here)
    for number, step in enumerate(trace.steps):
        old, new = here.moments.get(step.document), here.apply(step)
        row: Row = {}
        for name in list(seats) if len(rows) % 2 == 0 else list(seats)[::-1]:
            seat = seats[name]
            seat.screen.step(number, step, old, new, time.perf_counter())
            seat.tell(old, step, new)
            if step.typed:
                row[name] = await _cost(seat, new)
        rows += [row] if row else []
        if most and len(rows) >= most:
            break
    for seat in seats.values():
        seat.screen.end(time.perf_counter())
        await seat.close()
    return rows


async def _cost(seat: Seat, new: Any) -> Cost:
    started = time.perf_counter()
    found = await seat.answer(new)
    now = time.perf_counter()
    seat.screen.show(found if found and found.text else None, now)
    computed = found is None or not found.free
    prefilled = found.prefilled if found else 0
    local = found is not None and found.local
    return Cost((now - started) * 1000, prefilled, computed, local, not (found and found.text))


# -- layouts --------------------------------------------------------------------------------------


def layouts(
    traces: Sequence[Trace],
    names: Sequence[str],
    arguments: Any,
    script: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Tokens that a key prefills, by layout: straight to a daemon of its own, the same keys."""
    columns = {}
    for name in names:
        settings = {"completion.layout": name, "engine.threads": arguments.threads}
        with daemon(arguments.model, settings, script) as running:
            side = our_side(running, Ask("daemon", 0.0))
            rows, _ = asyncio.run(_closed(traces, [side], arguments.keys))
        costs = [row["daemon"] for row in rows]
        ran = _costs([cost for cost in costs if cost.computed])
        columns[name] = _costs(costs) | {f"ran_{k}": v for k, v in ran.items() if k != "keys"}
    print(table(columns))
    return {"layouts": columns}
