"""The account of a bench as one HTML file: tables and drawings in it, nothing from elsewhere.

Knows the JSON object of `acceptance.Account` and how to draw bars and lines as inline SVG.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, ROW, LEFT, RIGHT = 500, 28, 104, 44
"""Pixels: of a drawing, of one bar, and of the margins for names and numbers."""
HEIGHT, PAD, END = 236, 46, 12
"""Pixels: of the drawing of lines, its margin for the axes, and the one at its end."""
COLOURS = ("#2f6fb2", "#c05a1c", "#3d8b4f", "#8650a8", "#a8861a", "#b33a5e", "#3b8f9e", "#7a5c43")
GREY = "#8a929b"
"""Plain decoding is no source, and has no colour of its own."""
FEW = 20
"""A share of fewer nodes than this is drawn hollow: it says little."""

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TITLE</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root{color-scheme:light dark;--ink:#1d2126;--dim:#667;--line:#d5d9de;--paper:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e4e6e9;--dim:#9aa3ad;--line:#3a4048;--paper:#16191d}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:720px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}p.dim,figcaption,.dim{color:var(--dim)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid var(--line)}
th.name,td.name{text-align:left;padding-left:0}td.fact{text-align:left;overflow-wrap:anywhere}
figure{margin:1rem 0}svg{width:100%;max-width:600px;height:auto;display:block}
svg text{fill:var(--ink);font-size:12px}svg .axis{stroke:var(--line)}svg .dim{fill:var(--dim)}
svg .mark{stroke:var(--ink);stroke-dasharray:3 3}.key span{margin-right:1.2em;white-space:nowrap}
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
    colours = colours_of(found)
    parts = [
        head("completiond bench acceptance"),
        "<h1>What drafts bring</h1>",
        _facts(about),
        "<h2>Tokens per pass of the model</h2>",
        figure(bars(passes, colours), "Plain decoding makes one."),
        "<h2>Times as fast as plain decoding</h2>",
        figure(
            bars(speeds, colours, mark=1.0),
            "With the same kernels, all spots together. The thin line goes from the first to the "
            "third quartile of the spots, the dashed one is plain decoding: what ends left of it "
            "costs more than it brings.",
        ),
        "<h2>By source</h2>",
        _sources(found),
        "<h2>What was kept, by depth</h2>",
        figure(
            _key(colours, _hazards(found)) + lines(_hazards(found), colours),
            "Of the first, second, … tokens of drafts, where all before them were kept: the share "
            f"that was kept too. Hollow: of fewer than {FEW} tokens.",
        ),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def colours_of(found: Mapping[str, Any]) -> dict[str, str]:
    """A colour for each way and source, the same in every drawing."""
    sources = [name for account in found["ways"].values() for name in account["sources"]]
    names = dict.fromkeys(name for name in (*found["ways"], *sources) if name != "plain")
    return {"plain": GREY} | {n: COLOURS[i % len(COLOURS)] for i, n in enumerate(names)}


def head(title: str) -> str:
    """The beginning of a page, in light and dark."""
    return _HEAD.replace("TITLE", escape(title), 1)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Names and values; the first column is words, the others are numbers."""
    made = [_row(columns, "th", 1), *(_row(row, "td", 1) for row in rows)]
    return f'<div class="wide"><table>{"".join(made)}</table></div>'


def _facts(about: Mapping[str, str]) -> str:
    rows = [
        f'<tr><td class="name">{escape(name)}</td><td class="fact">{escape(value)}</td></tr>'
        for name, value in about.items()
        if value
    ]
    return f"<table>{''.join(rows)}</table>"


def figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _sources(found: Mapping[str, Any]) -> str:
    names = ("way", "source", "drafted", "accepted", "share", "coverage", "other answers")
    rows = [_row(names, "th")]
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
            rows.append(_row(cells, "td"))
    return (
        f'<div class="wide"><table>{"".join(rows)}</table></div>'
        '<p class="dim">Coverage: passes in which the source had anything to propose. Other '
        "answers: spots that this way answered with other tokens than plain decoding; there should "
        "be none, and <code>completiond audit</code> says whether it was more than rounding.</p>"
    )


def _row(cells: Sequence[str], kind: str, names: int = 2) -> str:
    """A table's row, whose first `names` cells are names."""
    made = [
        f'<{kind} class="{"name" if place < names else "count"}">{escape(cell)}</{kind}>'
        for place, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(made)}</tr>"


def _key(colours: Mapping[str, str], rows: Sequence["Line"]) -> str:
    """Which colour is whose; as text, so that it wraps where the page is narrow."""
    made = [
        f'<span><b style="color:{colours[row.name]}">●</b> {escape(row.name)}</span>'
        for row in rows
    ]
    return f'<div class="key">{" ".join(made)}</div>'


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def bars(
    rows: Sequence[Bar], colours: Mapping[str, str], mark: float | None = None, digits: int = 2
) -> str:
    """Horizontal bars from zero, with a line at `mark`; their values, to so many digits, in a
    column at the end."""
    most = max([*(max(bar.value, bar.high or 0) for bar in rows), mark or 0, 1e-9])
    scale = (WIDTH - LEFT - RIGHT) / most
    drawn, height = [], len(rows) * ROW + 4
    for place, bar in enumerate(rows):
        y, long = place * ROW + 4, bar.value * scale
        drawn += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{long:.1f}" height="{ROW - 9}" rx="2" '
            f'fill="{colours.get(bar.name, COLOURS[0])}"/>',
            f'<text x="{WIDTH - 4}" y="{y + 14}" text-anchor="end">{bar.value:,.{digits}f}</text>',
        ]
        if bar.low is not None and bar.high is not None:
            drawn.append(line(LEFT + bar.low * scale, y + 10, LEFT + bar.high * scale, y + 10))
    if mark is not None:
        drawn.append(line(LEFT + mark * scale, 0, LEFT + mark * scale, height, "mark"))
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


def lines(rows: Sequence[Line], colours: Mapping[str, str]) -> str:
    """Shares from 0 to 1 over the depth."""
    deepest = max((len(row.shares) for row in rows), default=1)
    step = (WIDTH - PAD - END) / max(1, deepest - 1)
    drawn = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(line(PAD, _y(share), WIDTH - END, _y(share), "axis"))
        drawn.append(
            f'<text class="dim" x="{PAD - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">'
            f"{share:.0%}</text>"
        )
    for depth in range(deepest):
        x = PAD + depth * step
        drawn.append(
            f'<text class="dim" x="{x:.1f}" y="{HEIGHT - 26}" text-anchor="middle">'
            f"{depth + 1}</text>"
        )
    drawn.append(
        f'<text class="dim" x="{(PAD + WIDTH - END) / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        "depth of the token in its draft</text>"
    )
    for row in rows:
        drawn += _curve(row, colours[row.name], step)
    return _svg(HEIGHT, drawn)


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
    return 10 + (1 - share) * (HEIGHT - 58)


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    look = f'class="{kind}"' if kind else 'stroke="currentColor"'
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {look}/>'


def _svg(height: int, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(drawn)}</svg>'
