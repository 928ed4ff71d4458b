"""The account of a bench as one HTML file: tables and drawings in it, nothing from elsewhere.

Knows the JSON object of `acceptance.Account` and how to draw bars and lines as inline SVG.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, ROW, LEFT, RIGHT = 640, 30, 130, 60
"""Pixels: of a drawing, of one bar, and of the margins for names and numbers."""
HEIGHT, PAD = 220, 34
"""Pixels: of the drawing of lines, and its margin for the axes."""
COLOURS = ("#2f6fb2", "#c05a1c", "#3d8b4f", "#8650a8", "#a8861a", "#b33a5e")
FEW = 20
"""A share of fewer nodes than this is drawn hollow: it says little."""

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TITLE</title>
<meta name="viewport" content="width=device-width"><style>
:root{color-scheme:light dark;--ink:#1d2126;--dim:#667;--line:#d5d9de;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e4e6e9;--dim:#9aa3ad;--line:#3a4048;--paper:#16191d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:760px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}p.dim,figcaption,.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}figure{margin:1rem 0}svg{max-width:100%;height:auto}
svg text{fill:var(--ink);font-size:12px}svg .axis{stroke:var(--line)}svg .dim{fill:var(--dim)}
</style></head><body>
"""


class Bar(NamedTuple):
    """A value, and the quartiles around it where it has some."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def page(found: Mapping[str, Any], about: Mapping[str, str]) -> str:
    """`found` as `Account.as_json` has it; `about` are facts about the run, by name."""
    passes = [Bar(name, value) for name, value in found["tokens_per_pass"].items()]
    speeds = [
        Bar(name, value, found["speedup_quartiles"][name][0], found["speedup_quartiles"][name][-1])
        for name, value in found["speedup_vs_plain"].items()
    ]
    parts = [
        head("completiond bench acceptance"),
        "<h1>What drafts bring</h1>",
        _facts(about),
        figure(bars(passes), "Tokens per pass of the model. Plain decoding makes one."),
        figure(
            bars(speeds, mark=1.0),
            "Times as fast as plain decoding with the same kernels, all spots together; the thin "
            "line goes from the first to the third quartile of the spots.",
        ),
        "<h2>By source</h2>",
        _sources(found),
        figure(
            lines(_hazards(found)),
            "Of the tokens drafted at a depth below kept ones, the share that was kept. Hollow: "
            f"fewer than {FEW} tokens.",
        ),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def head(title: str) -> str:
    """The beginning of a page, in light and dark."""
    return _HEAD.replace("TITLE", escape(title), 1)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Names and values; the first column is words, the others are numbers."""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table><tr>{names}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def _facts(about: Mapping[str, str]) -> str:
    rows = [f"<tr><td>{escape(n)}</td><td>{escape(v)}</td></tr>" for n, v in about.items() if v]
    return f"<table>{''.join(rows)}</table>"


def figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _sources(found: Mapping[str, Any]) -> str:
    names = ("way", "source", "drafted", "accepted", "share", "coverage", "other answers")
    rows = ["".join(f"<th>{name}</th>" for name in names)]
    for way, account in found["ways"].items():
        for source, counts in account["sources"].items():
            cells = (
                way,
                source,
                str(counts["drafted"]),
                str(counts["accepted"]),
                percent(counts["accepted"], counts["drafted"]),
                f"{counts['coverage']:.0%}",
                str(account["mismatches"]),
            )
            rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def bars(rows: Sequence[Bar], mark: float | None = None, digits: int = 2) -> str:
    """Horizontal bars from zero, with a line at `mark`, and their values to so many digits."""
    most = max([*(max(bar.value, bar.high or 0) for bar in rows), mark or 0, 1e-9])
    scale = (WIDTH - LEFT - RIGHT) / most
    drawn = []
    for place, bar in enumerate(rows):
        y, end = place * ROW + 4, LEFT + bar.value * scale
        drawn += [
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{ROW - 10}" rx="2" '
            f'fill="{COLOURS[place % len(COLOURS)]}"/>',
        ]
        if bar.low is not None and bar.high is not None:
            drawn.append(line(LEFT + bar.low * scale, y + 10, LEFT + bar.high * scale, y + 10))
            end = max(end, LEFT + bar.high * scale)
        drawn.append(f'<text x="{end + 6:.1f}" y="{y + 15}">{bar.value:,.{digits}f}</text>')
    height = len(rows) * ROW + 4
    if mark is not None:
        drawn.append(line(LEFT + mark * scale, 0, LEFT + mark * scale, height, "axis"))
    return _svg(height, drawn)


class Line(NamedTuple):
    """Shares by depth, and how many nodes each rests on."""

    name: str
    shares: Sequence[float | None]
    decided: Sequence[int]


def _hazards(found: Mapping[str, Any]) -> list[Line]:
    """Each source where it drafts alone; one that never does, where it drafts with others."""
    lines: dict[str, Line] = {}
    for way, account in found["ways"].items():
        for source, counts in account["sources"].items():
            if counts["hazard"] and (source not in lines or way == source):
                lines[source] = Line(source, counts["hazard"], counts["decided"])
    return list(lines.values())


def lines(rows: Sequence[Line]) -> str:
    """Shares from 0 to 1 over the depth."""
    deepest = max((len(row.shares) for row in rows), default=1)
    step = (WIDTH - PAD - RIGHT) / max(1, deepest - 1)
    drawn = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(line(PAD, _y(share), WIDTH - RIGHT, _y(share), "axis"))
        drawn.append(
            f'<text class="dim" x="{PAD - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">'
            f"{share:.0%}</text>"
        )
    for depth in range(deepest):
        x = PAD + depth * step
        drawn.append(
            f'<text class="dim" x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
            f"{depth + 1}</text>"
        )
    for place, row in enumerate(rows):
        drawn += _curve(row, COLOURS[place % len(COLOURS)], step)
        drawn.append(
            f'<text x="{PAD + 8 + 110 * place}" y="{HEIGHT + 8}" '
            f'style="fill:{COLOURS[place % len(COLOURS)]}">● {escape(row.name)}</text>'
        )
    return _svg(HEIGHT + 18, drawn)


def _curve(row: Line, colour: str, step: float) -> list[str]:
    points = [
        (PAD + depth * step, _y(share), row.decided[depth])
        for depth, share in enumerate(row.shares)
        if share is not None
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" stroke="{colour}" '
        f'fill="{colour if decided >= FEW else "none"}"><title>{decided} tokens</title></circle>'
        for x, y, decided in points
    ]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}"/>', *dots]


def _y(share: float) -> float:
    return 10 + (1 - share) * (HEIGHT - 44)


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    look = f'class="{kind}"' if kind else 'stroke="currentColor"'
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def _svg(height: int, drawn: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">'
        f"{''.join(drawn)}</svg>"
    )
