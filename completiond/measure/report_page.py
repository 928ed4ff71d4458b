"""The report as one HTML file: tables and drawings in it, nothing from elsewhere.

Knows an account of the record and page.py's drawings.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

from completiond.measure.page import Bar, bars, figure, head, line, percent, table
from completiond.record.account import Account, Group
from completiond.record.advice import advice
from completiond.record.rows import Point, Spread

WIDTH, HEIGHT, LEFT, FOOT = 640, 210, 56, 24
"""Pixels of the drawing of latencies, and its margins."""
SHARES = (("p50", "half"), ("p90", "nine in ten"), ("p99", "99 of 100"))
COLOURS = ("#2f6fb2", "#c05a1c", "#8650a8")
_WORDS = {
    "typed": "typed through",
    "reuse": "kept answer",
    "ahead": "computed ahead",
    "joined": "run on its way",
    "model": "new run",
    "refused": "not worth a run",
    "none": "nothing",
}


def report(found: Account, version: str) -> str:
    """The whole page."""
    days = f"{found.days} days, since {_day(found.since_ms)} (UTC)"
    kinds = [Bar(_WORDS.get(name, name), n) for name, n in found.kinds.items()]
    parts = [
        head("completiond report"),
        "<h1>What completions were worth</h1>",
        f'<p class="dim">{days}; completiond {version}.</p>',
        table(("", ""), overview(found)),
        "<h2>Advice</h2>",
        "<ul>" + "".join(f"<li>{escape(one)}</li>" for one in advice(found)) + "</ul>",
        "<h2>Latency</h2>",
        figure(over_time(found.points), "From the key to the answer, in milliseconds."),
        table(("stage", "keys", "half ms", "90 % ms", "99 % ms"), _stages(found.stages)),
        "<h2>How keys were answered</h2>",
        figure(bars(kinds, {}, digits=0), "Keys."),
        *_groups("language", found.languages),
        *_groups("model", found.models),
        "<h2>Drafts</h2>",
        table(("source", "drafted", "held", "share"), _drafts(found)),
        "<h2>Why nothing was shown, and what was</h2>",
        table(("reason", "keys"), [(name, f"{n:,}") for name, n in found.reasons.items()]),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def overview(found: Account) -> list[tuple[str, str]]:
    """The few numbers that matter, by name; also for a terminal."""
    totals = found.totals
    spreads = (("latency", "total"), ("of what the daemon was asked", "daemon"))
    rows = [
        ("keys", f"{totals.keys:,}"),
        ("answers shown", f"{totals.answers:,}, those asked for by hand among them"),
        *(
            (name, f"{n:,} ({percent(n, totals.answers)})")
            for name, n in (
                ("accepted", totals.accepted),
                ("accepted in part", totals.partially),
                ("typed through", totals.typed),
                ("rejected", totals.rejected),
            )
        ),
        ("characters taken", f"{totals.taken_characters:,}"),
        *(
            (f"left after {after_s} s", f"{percent(left, taken)} of {taken:,} characters")
            for after_s, taken, left in found.retained
            if taken
        ),
    ]
    for name, stage in spreads:
        if (spread := found.stage(stage)) is not None:
            words = ", ".join(f"{word} {_ms(spread, share)}" for share, word in SHARES)
            rows.append((name, words))
    if totals.wrote:
        rows.append(("tokens per pass", f"{totals.tokens_per_pass:.2f}"))
    return rows


def _drafts(found: Account) -> list[tuple[str, ...]]:
    return [
        (source, f"{drafted:,}", f"{held:,}", percent(held, drafted))
        for source, drafted, held in found.rates
    ]


def groups(found: Sequence[Group]) -> list[tuple[str, ...]]:
    """Name, keys, answers, taken, and latencies of each."""
    return [
        (
            one.name,
            f"{one.totals.keys:,}",
            f"{one.totals.answers:,}",
            percent(one.totals.taken, one.totals.answers),
            *(_ms(one.total or one.daemon, share) for share, _ in SHARES),
        )
        for one in found
    ]


def _groups(name: str, found: Sequence[Group]) -> list[str]:
    columns = (name, "keys", "answers", "taken", "half", "90 %", "99 %")
    return [f"<h2>By {name}</h2>", table(columns, groups(found))] if found else []


def _stages(found: Sequence[Spread]) -> list[tuple[str, ...]]:
    return [
        (one.stage, f"{one.keys:,}", *(f"{us / 1000:.1f}" for us in (one.p50, one.p90, one.p99)))
        for one in found
    ]


def _ms(found: Spread | None, share: str) -> str:
    if found is None:
        return "–"
    ms = getattr(found, share) / 1000
    return f"{ms:.1f} ms" if ms < 10 else f"{ms:.0f} ms"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


def over_time(points: Sequence[Point]) -> str:
    """Three curves over the days."""
    if not points:
        return '<svg viewBox="0 0 640 20" width="640" height="20"></svg>'
    first, last = points[0].at_ms, points[-1].at_ms
    most = max(point.p99 for point in points) or 1
    across = (WIDTH - LEFT - 12) / max(1, last - first)
    down = (HEIGHT - FOOT - 20) / most
    drawn = []
    for part in (0.0, 0.5, 1.0):
        y = HEIGHT - FOOT - part * most * down
        drawn.append(line(LEFT, y, WIDTH - 12, y, "axis"))
        drawn.append(
            f'<text class="dim" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{part * most / 1000:.0f}</text>"
        )
    for place, (share, word) in enumerate(SHARES):
        path = " ".join(
            f"{LEFT + (point.at_ms - first) * across:.1f},"
            f"{HEIGHT - FOOT - getattr(point, share) * down:.1f}"
            for point in points
        )
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[place]}"/>')
        drawn.append(
            f'<text x="{LEFT + 130 * place}" y="{HEIGHT - 4}" style="fill:{COLOURS[place]}">'
            f"● {word}</text>"
        )
    drawn += [
        f'<text class="dim" x="{x}" y="12" text-anchor="{anchor}">{_day(at)}</text>'
        for x, anchor, at in ((LEFT, "start", first), (WIDTH - 12, "end", last))
    ]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg {size} role="img" aria-label="Latency over time">{"".join(drawn)}</svg>'
