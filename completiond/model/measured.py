"""What was measured on this machine, kept in small files of the cache so that it is measured once.

Knows files and names; what a measurement means is its owner's business. A file that is damaged or
cannot be written costs a measurement at the next start, nothing else.
"""

import json
from contextlib import suppress

import torch

from completiond.config import cache_dir
from completiond.keeping import keep
from completiond.model import processor

Values = dict[str, float]
LARGEST = 1e9
"""No measurement is as large: a file that says so is damaged."""


def machine() -> str:
    """What times depend on beside what is timed."""
    return f"{processor.name()} | {torch.get_num_threads()} threads | torch {torch.__version__}"


class Measured:
    """Numbers by name for things of one kind (`what`), as measured on this machine."""

    def __init__(self, what: str) -> None:
        self._file = cache_dir() / f"{what}.json"
        self._machine = machine()

    def get(self, thing: str) -> Values:
        """What is known of `thing`; nothing if it was not measured here."""
        found = self._read().get(self._machine, {}).get(thing)
        return found if isinstance(found, dict) and all(map(_number, found.values())) else {}

    def put(self, thing: str, values: Values) -> None:
        known = self._read()
        known[self._machine] = known.get(self._machine, {}) | {thing: values}
        keep(self._file, f"{json.dumps(known, indent=1)}\n".encode())

    def _read(self) -> dict[str, dict[str, Values]]:
        with suppress(OSError, ValueError, RecursionError):
            known = json.loads(self._file.read_text(encoding="utf-8"))
            if isinstance(known, dict) and all(isinstance(v, dict) for v in known.values()):
                return known
        return {}


def _number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < LARGEST
