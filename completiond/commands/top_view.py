"""The record and the daemon as one screen of a terminal: what `completiond top` draws. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from completiond.protocol.messages import Status
from completiond.record.rows import Key, Rate, Spread, Totals

STAGE_STYLES = {
    "before": "bright_black",
    "there": "bright_black",
    "lookup": "cyan",
    "prompt": "yellow",
    "queue": "red",
    "prefill": "blue",
    "decode": "magenta",
    "door": "bright_black",
    "finish": "green",
    "back": "bright_black",
    "after": "bright_black",
}
SIGNS = {
    "accepted": "✓",
    "partially": "✓",
    "typed": "✓",
    "rejected": "✗",
    "superseded": "↻",
    "shown": "·",
}
WITHOUT_A_RUN = ("typed", "reuse", "ahead", "joined")
NARROW = 70
"""Columns below which the bars are left out."""
AROUND_BAR = 62
"""Columns that the other cells take."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is drawn. `spreads` by stage, `kinds` and `reasons` are counts."""

    keys: Sequence[Key] = ()
    totals: Totals = Totals(*(0,) * len(Totals._fields))
    spreads: dict[str, Spread] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    rates: Sequence[Rate] = ()
    status: Status | None = None
    trouble: str = ""


def screen(seen: Seen, span: str, width: int) -> RenderableType:
    """All of it, for a terminal of so many columns."""
    parts: list[RenderableType] = [_head(seen), Text(), _figures(seen, span), Text()]
    if seen.keys:
        parts.append(_keys(seen.keys, width))
    else:
        parts.append(Text("No key has been recorded yet.", "dim"))
    return Group(*parts)


def took(us: int | None) -> str:
    if us is None:
        return "–"
    if us < 1000:
        return f"{us} µs"
    return f"{us / 1000:.1f} ms" if us < 10_000 else f"{us / 1000:.0f} ms"


def _head(seen: Seen) -> Text:
    status = seen.status
    if status is None:
        return Text.assemble(("completiond ", "bold"), (seen.trouble or "…", "yellow"))
    of = status.engine
    facts = [status.model, str(of.get("kernel", "")), status.device]
    facts.append(f"{status.clients} clients, {status.running} running, {status.waiting} waiting")
    if of.get("kv_budget"):
        facts.append(f"KV {of['kv_bytes'] >> 20} of {of['kv_budget'] >> 20} MiB")
    style = "green" if status.state == "ready" else "yellow"
    told = " · ".join(fact for fact in facts if fact)
    return Text.assemble(("completiond ", "bold"), (status.state, style), f"  {told}")


def _figures(seen: Seen, span: str) -> Table:
    """Is it quick, does speculation pay, why was nothing shown?"""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan")
    table.add_column()
    totals = seen.totals
    quick = sum(seen.kinds.get(kind, 0) for kind in WITHOUT_A_RUN)
    drafts = ", ".join(f"{rate.source} {rate.share:.0%} of {rate.drafted:,}" for rate in seen.rates)
    quiet = [f"{name} {n:,}" for name, n in seen.reasons.items() if name not in ("ok", "")]
    rows = [
        (span, f"{totals.keys:,} keys, {_share(quick, totals.keys)} without a new run"),
        ("a key", _spread(seen.spreads.get("total") or seen.spreads.get("daemon"))),
        ("first text", _spread(seen.spreads.get("text"))),
        ("cancel to free", _spread(seen.spreads.get("free"))),
        ("tokens a pass", _per_pass(totals)),
        ("drafts held", drafts),
        ("shown", f"{totals.answers:,}, {_share(totals.taken, totals.answers)} taken"),
        ("not shown", ", ".join(quiet[:4])),
    ]
    for name, value in rows:
        if value:
            table.add_row(name, value)
    return table


def _per_pass(totals: Totals) -> str:
    if not totals.wrote:
        return ""
    reading = max(0, totals.passes - totals.wrote)
    only = f", {reading:,} more only read prompts" if reading else ""
    each = f"{totals.tokens_per_pass:.2f}, {totals.generated:,} in {totals.wrote:,} passes"
    return f"{each}{only}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _spread(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"half {took(spread.p50)}, 90 % {took(spread.p90)}, 99 % {took(spread.p99)}"


def _keys(keys: Sequence[Key], width: int) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("time", style="dim", no_wrap=True)
    table.add_column("buffer", no_wrap=True, width=16)
    table.add_column("answered", no_wrap=True, width=14)
    table.add_column("", justify="right", width=8, no_wrap=True)
    table.add_column("")
    bar = width - AROUND_BAR if width >= NARROW else 0
    if bar:
        table.add_column("where the time went", no_wrap=True, width=bar)
    most = max(1, *(key.took_us for key in keys))
    for key in keys:
        at = datetime.fromtimestamp(key.at_ms / 1000).strftime("%H:%M:%S")
        what = key.kind if key.reason in ("ok", "") else (key.why or key.reason)
        cells: list[RenderableType] = [at, _plain(key.path.rsplit("/", 1)[-1]), what]
        cells += [took(key.took_us), SIGNS.get(key.outcome, "")]
        table.add_row(*cells, *([_bar(key, most, bar)] if bar else []))
    return table


def _bar(key: Key, most: int, width: int) -> Text:
    """Its stages, each in its colour; what rounds to nothing is left out."""
    text, at, drawn = Text(), 0, 0
    for stage, us in key.stages.items():
        at += us
        end = min(width, round(at * width / most))
        text.append("█" * (end - drawn), STAGE_STYLES[stage])
        drawn = max(drawn, end)
    return text if drawn else Text("▏", "bright_black")


def _plain(text: str) -> Text:
    """A name of a file may hold what a terminal would obey."""
    return Text("".join(char if char.isprintable() else "?" for char in text))
