"""Traces as people would write them down: a text, then keys, fixed times apart."""

import json
from pathlib import Path
from typing import Any

from replay_traces import Trace, read


def events(keys: str, at: int, *, every_ms: int = 200, start_ms: int = 0) -> list[dict[str, Any]]:
    """One event per character, typed forward from offset `at`."""
    return [
        {"t_ms": start_ms + n * every_ms, "offset": at + n, "delete": "", "insert": key}
        | {"kind": "newline" if key == "\n" else "type"}
        for n, key in enumerate(keys)
    ]


def write(folder: Path, before: str, events: list[dict[str, Any]], **more: Any) -> Path:
    raw = {"id": "hand", "path": "a.py", "language": "python", "before_text": before}
    path = folder / "hand.json"
    path.write_text(json.dumps(raw | {"events": events} | more), encoding="utf-8")
    return path


def typed(folder: Path, before: str, keys: str, **more: Any) -> Trace:
    return read(write(folder, before, events(keys, len(before), **more)))
