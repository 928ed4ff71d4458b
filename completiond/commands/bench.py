"""`completiond bench acceptance`: what drafts bring on a person's own code and machine."""

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from completiond.commands import options
from completiond.commands.counted import Counted
from completiond.commands.serve import device_line
from completiond.commands.terminal import Bar, facts, out, say, waiting
from completiond.config import Config, state_dir
from completiond.errors import ConfigError, RequestError
from completiond.footprint import anonymous_bytes
from completiond.measure.spots import Spot, spots_in
from completiond.version import __version__

if TYPE_CHECKING:
    from completiond.measure.acceptance import Account
    from completiond.measure.lab import Lab

app = typer.Typer(help="Measure this machine with your own code.", no_args_is_help=True)

SHOWN_DEPTHS = 6


@app.callback()
def _bench() -> None:
    pass


@app.command()
def acceptance(
    more: options.MoreFiles = None,
    files: options.Files = None,
    model: options.Model = None,
    draft: options.Draft = None,
    spots: Annotated[
        int, typer.Option("--spots", "-n", metavar="N", help="Places in the code to complete.")
    ] = 20,
    tokens: options.Tokens = 64,
    seed: options.Seed = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where the HTML page goes. Default: your state folder."),
    ] = None,
    as_json: options.EndingJson = False,
    gpu: options.Gpu = None,
    cpu: options.Cpu = False,
    threads: options.Threads = None,
    speculation: options.Speculation = None,
    config: options.ConfigFile = None,
) -> None:
    """Complete places in your code plainly and with drafts, in turns, and compare.

    By source: drafted, accepted, how often it had something, what held at each depth; tokens per
    pass, and seconds beside plain decoding. Works offline; Ctrl-C shows what was measured so far.
    """
    settings = options.settings(
        config,
        model__name=model,
        model__draft=draft,
        engine__device=options.device(gpu, cpu),
        engine__threads=threads,
        engine__speculation=speculation or "auto",
    )
    named = [*(files or ()), *(more or ())]
    chosen = spots_in(named, spots, seed)
    page = _page_file(plot)
    lab = load(settings, "`completiond bench`")
    account, whole = _measure(lab, chosen, tokens)
    if account.spots:
        about = _about(lab, account, len(chosen)) | {
            "files": ", ".join(map(str, named)) or "the source of completiond",
            "seed": str(seed),
            "longest answer": f"{tokens} tokens",
        }
        _show(account, lab, about)
        _write(page, account, about)
    if as_json:
        typer.echo(json.dumps({"bench": "acceptance"} | _result(settings, lab, account)))
    if not whole:
        raise KeyboardInterrupt


def load(config: Config, what: str) -> "Lab":
    """The engine in this process, and what was left out of it said. Raises ModelError."""
    options.need_extra(what)
    from completiond.commands.start import start_of
    from completiond.measure.lab import Lab

    with Bar() as progress:
        start = start_of(config, progress=progress)
    with waiting(f"Loading {config.model.name}"):
        lab = Lab(config, start)
    for note in lab.info["notes"]:
        say(note)
    if not lab.drafters:
        raise ConfigError(
            "Nothing is drafted with this speculation, so that there is nothing to measure; "
            "give --speculation auto, or --draft with a model."
        )
    return lab


def _measure(lab: "Lab", chosen: list[Spot], tokens: int) -> tuple["Account", bool]:
    """The account, and whether it is whole: Ctrl-C ends it after the spots that are done."""
    from completiond.measure.acceptance import Account

    account = Account()
    try:
        with Counted(len(chosen), "Completing spots") as tick:
            for number, spot in enumerate(chosen):
                account.add(_runs(lab, spot, tokens, number))
                tick()
    except KeyboardInterrupt:
        say(f"Stopped after {account.spots} of {len(chosen)} spots.")
        return account, False
    return account, True


def _runs(lab: "Lab", spot: Spot, tokens: int, turn: int) -> dict[str, Any]:
    """One run of every arm; who begins changes from spot to spot, so that none profits."""
    question = lab.question(spot, tokens)
    arms = lab.arms()
    first = turn % len(arms)
    runs = {arm.name: lab.run(arm, [question])[0] for arm in [*arms[first:], *arms[:first]]}
    return {arm.name: runs[arm.name] for arm in arms}


def _about(lab: "Lab", account: "Account", wanted: int) -> dict[str, str]:
    done = f"{account.spots}" if account.spots == wanted else f"{account.spots} of {wanted}"
    return {
        "model": lab.info["model"],
        "draft": lab.info["draft"],
        "device": device_line(lab.info),
        "measured": f"{time.strftime('%Y-%m-%d %H:%M')} by completiond {__version__}",
        "spots": done,
    }


def _show(account: "Account", lab: "Lab", about: Mapping[str, str]) -> None:
    facts(about.items())
    out.print(_ways(account))
    out.print(_sources(account))
    held = {f"memory of {name}": size for name, size in lab.memory().items()}
    held["memory of this process"] = anonymous_bytes()
    facts((name, f"{size / 1e6:.1f} MB") for name, size in held.items() if size)
    other = sum(way.other for way in account.ways.values())
    if other:
        say(
            f"{other} answers differ from plain decoding; `completiond audit` says whether by more "
            "than rounding."
        )


def _ways(account: "Account") -> Table:
    table = Table("way", box=None, header_style="bold")
    for name in ("tokens/pass", "tokens/s", "against plain", "quartiles"):
        table.add_column(name, justify="right")
    found = account.as_json()
    for name, way in account.ways.items():
        low, _, high = found["speedup_quartiles"][name]
        table.add_row(
            name,
            f"{way.tokens_per_pass:.2f}",
            f"{way.tokens_per_second:.1f}",
            f"{account.speed(name):.2f}",
            f"{low:.2f} to {high:.2f}",
        )
    return table


def _sources(account: "Account") -> Table:
    """Whole in 80 columns: only the last cell is broken where a terminal is narrow."""
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("way", "source"):
        table.add_column(name, no_wrap=True)
    for name in ("drafted", "accepted", "share", "coverage"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"kept at depth 1–{SHOWN_DEPTHS}")
    for cells in _source_rows(account):
        table.add_row(*cells)
    return table


def _source_rows(account: "Account") -> Iterator[list[str]]:
    from completiond.measure.page import percent

    for way in account.ways.values():
        for name, source in way.sources.items():
            shares = source.hazard()[:SHOWN_DEPTHS]
            yield [
                way.name,
                name,
                str(source.drafted),
                str(source.accepted),
                percent(source.accepted, source.drafted),
                f"{way.coverage(name):.0%}",
                " ".join("–" if s is None else f"{s:.2f}"[s < 1 :] for s in shares),
            ]


def _result(config: Config, lab: "Lab", account: "Account") -> dict[str, Any]:
    facts_of = {key: lab.info[key] for key in ("model", "draft", "device", "kernel")}
    memory = {"drafters": dict(lab.memory()), "process": anonymous_bytes()}
    found = account.as_json() if account.spots else {"spots": 0}
    return facts_of | {"memory_bytes": memory} | found


def _page_file(wanted: Path | None) -> Path:
    """Where the page goes; told now if it cannot, and not after minutes of measuring."""
    path = wanted or state_dir() / "acceptance.html"
    try:
        if wanted is None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        there = path.exists()
        with path.open("a", encoding="utf-8"):
            pass
        if not there:
            path.unlink()  # nothing is measured yet, and an empty page would be none
    except OSError as exc:
        raise RequestError(
            f"The page cannot be written to {path} ({exc.strerror}); name another --plot."
        ) from exc
    return path


def _write(path: Path, account: "Account", about: Mapping[str, str]) -> None:
    from completiond.measure.page import page

    try:
        path.write_text(page(account.as_json(), about), encoding="utf-8")
    except OSError as exc:
        raise RequestError(f"The page cannot be written to {path} ({exc.strerror}).") from exc
    say(f"The page is {path.absolute()}")
