"""What is left of the machine is what the kernel says, and no more than the process's group may."""

import builtins
import io
from collections.abc import Callable
from typing import Any

import pytest

from completiond import footprint

MEMINFO = "MemTotal:       100 kB\nMemAvailable:    64 kB\nSwapFree: 9 kB\n"
CACHED = {"memory.max": "50000\n", "memory.current": "50000\n"}
CACHED |= {"memory.stat": "anon 3\ninactive_file 7\nactive_file 10000\nshmem 5\n"}
"""A group whose memory is full of files that were read."""


def machine(files: dict[str, str]) -> Callable[..., Any]:
    """An `open` that knows `files` only, each by the end of its path."""

    def opened(path: str, *args: Any, **kwargs: Any) -> io.StringIO:
        for name, text in files.items():
            if path.endswith(name):
                return io.StringIO(text)
        raise FileNotFoundError(path)

    return opened


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({"meminfo": MEMINFO}, 64 << 10),
        ({"meminfo": MEMINFO, "memory.max": "max\n", "memory.current": "5\n"}, 64 << 10),
        ({"meminfo": MEMINFO, "memory.max": "50000\n", "memory.current": "20000\n"}, 30_000),
        ({"meminfo": MEMINFO, "memory.max": "50000\n", "memory.current": "60000\n"}, 0),
        ({"meminfo": MEMINFO, **CACHED}, 10_007),
        ({"meminfo": MEMINFO, "memory.max": "900000\n", "memory.current": "5\n"}, 64 << 10),
        ({}, 0),
    ],
)
def test_the_smaller_of_machine_and_group(
    files: dict[str, str], free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", machine(files))
        found = footprint.free_bytes()
    assert found == free
