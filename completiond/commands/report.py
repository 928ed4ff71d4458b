"""`completiond report`: what completions were worth in the last days, and what would help."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from completiond.commands.terminal import facts, out
from completiond.errors import RecordError
from completiond.measure.report_page import groups, overview
from completiond.measure.report_page import report as page
from completiond.record import place
from completiond.record.account import Account, Group, account
from completiond.record.advice import advice
from completiond.record.queries import reading
from completiond.record.wall import now_ms
from completiond.version import __version__


def report(
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How many days, today included (days of UTC).")
    ] = 7,
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Save it as one HTML page, with drawings."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what was shown, accepted and kept, how long it took, and what would help.

    It is read from the record on this machine (docs/record.md); the daemon need not run.
    """
    found = _account(days)
    if to is not None:
        _save(to, page(found, __version__))
    if as_json:
        typer.echo(json.dumps(asdict(found) | {"advice": advice(found)}))
        return
    _show(found)
    if to is not None:
        out.print(f"The page is in {to}.", style="dim")


def _account(days: int) -> Account:
    store = place.newest(place.directory())
    if store is None:
        raise RecordError("Nothing has been recorded yet: let an editor ask the daemon first.")
    with reading(store) as db:
        found = account(db, days, now_ms())
    if not found.totals.keys:
        raise RecordError(f"Nothing has been recorded in the last {days} days; try more --days.")
    return found


def _show(found: Account) -> None:
    out.print(f"[bold]The last {found.days} days[/]")
    facts(overview(found))
    for name, rows in (("language", found.languages), ("model", found.models)):
        _table(name, rows)
    for sentence in advice(found):
        out.print(f"→ {sentence}")


def _table(name: str, rows: list[Group]) -> None:
    if not rows:
        return
    table = Table(name, "keys", "answers", "taken", "half", "90 %", "99 %", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in groups(rows):
        table.add_row(*row)
    out.print(table)


def _save(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise RecordError(
            f"The page cannot be written to {file} ({exc.strerror}); name another --out."
        ) from exc
