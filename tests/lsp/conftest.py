"""Where the daemon of a test listens, and its record."""

from pathlib import Path

import pytest


@pytest.fixture
def endpoint(tmp_path: Path) -> str:
    tmp_path.chmod(0o700)
    return f"ipc://{tmp_path}/d.sock"


@pytest.fixture(autouse=True)
def _own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests recorded is not found."""
    monkeypatch.setenv("COMPLETIOND_STATE", str(tmp_path / "state"))
