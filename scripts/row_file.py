"""Results as JSON lines in a file that grows: a run that was ended goes on behind them.

Knows no field but those that name a row; a line that was cut off is dropped.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Key = tuple[Any, ...]


class RowFile:
    """The rows of `path` by the fields in `names`; of two rows of one name the last one holds."""

    def __init__(self, path: Path | None, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = names
        self.rows: dict[Key, dict[str, Any]] = {}
        text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
        whole, _, cut_off = text.rpartition("\n")
        if cut_off and path is not None:
            path.write_text(whole + "\n" if whole else "", encoding="utf-8")
        for line in whole.splitlines():
            self._keep(json.loads(line))

    def _keep(self, row: dict[str, Any]) -> None:
        self.rows[tuple(row.get(name) for name in self._names)] = row

    def add(self, row: Mapping[str, Any]) -> None:
        self._keep(dict(row))
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
