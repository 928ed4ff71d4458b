"""Where the daemon of a test listens."""

from pathlib import Path

import pytest


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return f"ipc://{tmp_path}/d.sock"
