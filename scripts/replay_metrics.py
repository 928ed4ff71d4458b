"""From what was shown at each key to the figures. Pure arithmetic on logs; asks and times nothing.

Per typed key: the latency to the first suggestion that fitted the buffer (infinite if none came
before the next key), whether its first line is what the person went on to type, and whether it came
without a pass. Infinity is `null` in JSON.
"""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from replay_account import Account
from replay_screen import Key, Place, Suggestion, first_line
from replay_traces import Ahead, Trace, ahead

SEEN_S = 0.150
"""A suggestion is taken only if it has been on the screen this long before the next key."""
BACK = 192
"""Characters typed since an answer, as far as the upper bound looks for it."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A step of the trace and what became of it; only typed ones count as keys."""

    typed: bool
    latency_ms: float
    free: bool
    right: bool
    right_chars: int
    taken: int
    """Index of the step behind the accepted first line, 0 if it would not be taken."""
    step: int
    bound: bool
    """Whether an oracle that remembers every answer so far could have answered it."""


def judge(trace: Trace, keys: Sequence[Key]) -> list[Judged]:
    """Every step of a trace, in order."""
    known = _Known(keys)
    return [_judged(trace, key, key.typed and known.covers(key)) for key in keys]


def _judged(trace: Trace, key: Key, bound: bool) -> Judged:
    first, latency = key.first(), _latency_ms(key)
    if first is None or first.suggestion is None or math.isinf(latency):
        return Judged(key.typed, math.inf, False, False, 0, 0, key.step, bound)
    future = list(ahead(trace.steps, key.step, key.after))
    went_on = future[-1].typed if future else ""
    return Judged(
        typed=key.typed,
        latency_ms=latency,
        free=first.suggestion.free,
        right=bool(_accepts(first.suggestion, key, future)),
        right_chars=_common(first.suggestion.text, went_on),
        taken=_taken(key, future),
        step=key.step,
        bound=bound or first.suggestion.free,
    )


def _latency_ms(key: Key) -> float:
    """To the first suggestion that fitted; one that came with the next key came too late."""
    first = key.first()
    return max(0.0, first.at - key.at) * 1000 if first and first.at < key.until else math.inf


def _taken(key: Key, future: Sequence[Ahead]) -> int:
    seen = key.seen_by(key.until - SEEN_S)
    return _accepts(seen, key, future) if seen is not None else 0


def _accepts(suggestion: Suggestion, key: Key, future: Sequence[Ahead]) -> int:
    """The step at which the person has typed exactly its first line; 0 if that never is so."""
    line = first_line(suggestion.text)
    after = key.after[suggestion.replace :]
    if not line.strip() or not future or not future[-1].typed.startswith(line):
        return 0
    for moment in future:
        if moment.typed == line and moment.after == after:
            return moment.step
    return 0


class _Known:
    """All answers by the place that they were for."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self._answers: dict[Short, list[tuple[int, str]]] = {}
        for key in keys:
            for answer in key.answers:
                self._answers.setdefault(_short(key.place), []).append((key.step, answer.text))

    def covers(self, key: Key) -> bool:
        """Whether an answer for an earlier key still says something at this one."""
        before = key.place.before
        for back in range(min(BACK, len(before)) + 1):
            typed = before[len(before) - back :]
            for step, text in self._answers.get(_short(key.place, back), ()):
                if step < key.step and text.startswith(typed) and len(text) > back:
                    return True
        return False


Short = tuple[str, int, str, str]


def _short(place: Place, back: int = 0) -> Short:
    """The place `back` characters earlier, named by few characters in front of it."""
    before = place.before[: len(place.before) - back]
    return place.document, place.cursor - back, before[-8:], place.after


# -- figures --------------------------------------------------------------------------------------


def saved(judged: Sequence[Judged]) -> int:
    """Typed keys that a person spares who takes each right first line; a key is spared once.

    It may be taken behind any step, a typed key or not.
    """
    spared, until = 0, -1
    for key in judged:
        if key.step <= until:
            spared += key.typed
        elif key.taken:
            until = key.taken
    return spared


def timing(keys: Sequence[Key]) -> dict[str, Any]:
    """How soon typed keys had a suggestion, and at what cost: no look at what was typed later."""
    latencies, free = [], 0
    for key in keys:
        if key.typed:
            latencies.append(_latency_ms(key))
            first = key.first()
            free += bool(first and first.suggestion and first.suggestion.free)
    return _timing(latencies, free)


def _timing(latencies: Sequence[float], free: int) -> dict[str, Any]:
    in_time = [ms for ms in latencies if math.isfinite(ms)]
    return {
        "keys": len(latencies),
        **{f"p{n}_ms": quantile(latencies, n / 100) for n in (50, 90, 95)},
        "before_next_key": share(len(in_time), len(latencies)),
        "answered_p50_ms": quantile(in_time, 0.5),
        "no_pass_share": share(free, len(latencies)),
    }


def figures(traces: Iterable[Sequence[Judged]]) -> dict[str, Any]:
    """The part of the result that any side has."""
    logs = [list(judged) for judged in traces]
    keys = [key for judged in logs for key in judged if key.typed]
    in_time = [key.right_chars for key in keys if math.isfinite(key.latency_ms)]
    return _timing([key.latency_ms for key in keys], sum(key.free for key in keys)) | {
        "no_pass_bound": share(sum(key.bound for key in keys), len(keys)),
        "useful_share": share(sum(key.right for key in keys), len(keys)),
        "right_chars_mean": mean(in_time),
        "saved_share": share(sum(map(saved, logs)), len(keys)),
    }


def prefill_figures(account: Account) -> dict[str, Any]:
    """Requests, and the tokens that those prefilled that ran a pass."""
    prefilled = [float(run.prefilled) for run in account.runs()]
    return {
        "requests": len(account.versions),
        "requests_with_a_pass": len(prefilled),
        "prefill_p50": quantile(prefilled, 0.5),
        "prefill_mean": mean(prefilled),
        "prefill_p95": quantile(prefilled, 0.95),
    }


def wire_figures(account: Account, engine: Counter[str]) -> dict[str, Any]:
    """What only our side tells. `engine` are the differences of its counters over the replay."""
    runs = account.runs()
    superseded, used = account.superseded()
    if engine["daemon superseded runs"]:  # which also knows the uses of runs that have ended since
        superseded = engine["daemon superseded runs"]
        used = engine["daemon joined"] + engine["daemon superseded hits"]
    freed, queued = account.freed(), account.queued()
    after = [float(ack.tokens_after) for ack in freed]
    return prefill_figures(account) | {
        "passes_per_request": mean([float(run.passes) for run in runs]),
        "engine_passes": engine["passes"],
        "tokens_after_cancel": mean(after) or 0.0,
        "tokens_after_cancel_max": int(max(after, default=0)),
        "cancelled_running": len(freed),
        "cancel_p50_ms": quantile([ack.free_ms for ack in freed], 0.5),
        "cancel_p99_ms": quantile([ack.free_ms for ack in freed], 0.99),
        "cancelled_queued": len(queued),
        "tokens_of_queued": sum(ack.tokens_after for ack in queued),
        "superseded_running": superseded,
        "superseded_used_share": share(used, superseded),
        "prefetch_runs": engine["daemon prefetch runs"],
        "prefetch_hits": engine["daemon prefetch hits"],
        "prefetch_tokens": engine["daemon prefetch tokens"],
        "streak_runs": engine["daemon streak runs"],
        "streak_hits": engine["daemon streak hits"],
        "streak_tokens": engine["daemon streak tokens"],
        "recycled_tokens": engine["daemon accepted recycled"] or account.accepted["recycled"],
        "failures": dict(account.failures),
    }


def quantile(values: Sequence[float], at: float) -> float | None:
    """The least value that `at` of all do not exceed; None where that is infinite, or none is."""
    if not values:
        return None
    found = sorted(values)[max(0, math.ceil(at * len(values)) - 1)]
    return round(found, 1) if math.isfinite(found) else None


def mean(values: Sequence[float]) -> float | None:
    return round(statistics.fmean(values), 2) if values else None


def share(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def ratio(a: float | None, b: float | None) -> float | None:
    """a / b; None where one of them is missing or infinite."""
    return round(a / b, 3) if a is not None and b else None


def table(columns: dict[str, dict[str, Any]]) -> str:
    """One row per figure, one column per side; what a side does not tell stays empty."""
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    width = max(len(name) for name in names)
    lines = [" " * width + "".join(f"{side:>16}" for side in columns)]
    for name in names:
        cells = [_cell(name, column) for column in columns.values()]
        lines.append(f"{name:<{width}}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def _cell(name: str, column: dict[str, Any]) -> str:
    if name not in column:
        return ""
    value = column[name]
    if value is None:
        return "inf" if name.endswith("_ms") else "-"
    if isinstance(value, float):
        return f"{value:.1%}" if name.endswith(("_share", "_bound", "_key")) else f"{value:g}"
    return str(value)


def _common(a: str, b: str) -> int:
    """Length of the common start."""
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)
