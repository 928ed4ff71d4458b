"""What is shown, as a file: CSV or JSON of keys, or a trace for scripts/replay.py."""

import csv
import io
import json
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

from completiond.dashboard.answers import charts, plain
from completiond.dashboard.asked import Asked
from completiond.errors import RequestError
from completiond.record import queries, trace
from completiond.record.rows import STAGES

_RISKY = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of a text that spreadsheets take for a formula."""


class File(NamedTuple):
    name: str
    kind: str
    text: str


def export(db: sqlite3.Connection, asked: Asked) -> File:
    """The file of that form. Raises RequestError, and RecordError for a trace without text."""
    made = _FORMS.get(asked.form)
    if made is None:
        raise RequestError(f"It can be saved as {', '.join(_FORMS)} only.")
    return made(db, asked)


def _csv(db: sqlite3.Connection, asked: Asked) -> File:
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for key in queries.latest(db, asked.many, asked.only):
        row = _flat(plain(key))
        if writer is None:
            writer = csv.DictWriter(out, list(row))
            writer.writeheader()
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return File("completiond-keys.csv", "text/csv; charset=utf-8", out.getvalue())


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    stages = row.pop("stages")
    return row | {f"{name}_us": stages.get(name) for name in STAGES}


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_RISKY) else value


def _json(db: sqlite3.Connection, asked: Asked) -> File:
    found = queries.latest(db, asked.many, asked.only)
    drafts = queries.drafts_of(db, [key.key for key in found])
    keys = [
        plain(key) | {"drafts": [draft._asdict() for draft in drafts.get(key.key, ())]}
        for key in found
    ]
    lines = ",\n".join(json.dumps(key) for key in keys)
    text = f'{{"keys": [\n{lines}\n],\n"figures": {json.dumps(charts(db, asked))}}}\n'
    return File("completiond-keys.json", "application/json", text)


def _trace(db: sqlite3.Connection, asked: Asked) -> File:
    found = trace.trace(db, asked.only)
    return File(f"{found['id'][-80:]}.json", "application/json", trace.as_text(found))


_FORMS: dict[str, Callable[[sqlite3.Connection, Asked], File]] = {
    "csv": _csv,
    "json": _json,
    "trace": _trace,
}
