"""What these tests measure is not what the user's models are started with."""

from pathlib import Path

import pytest

from completiond.model import measured


@pytest.fixture(autouse=True, scope="session")
def own_measurements(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("measured")
    measured.cache_dir = lambda: folder
