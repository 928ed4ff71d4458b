"""Small files of the cache, each replaced as a whole. What cannot be written is not kept.

Several processes may keep the same file: the last one wins, and none reads half of it.
"""

import os
from contextlib import suppress
from pathlib import Path


def keep(file: Path, data: bytes) -> None:
    part = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(data)
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
