"""Which editors are here. One that is not is skipped with the way to install it."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from vscode_server import editors
from world import World

NVIMS = ("nvim-0.11", "nvim-latest")
OLDEST = "nvim-0.10"
TYPING = "test_nvim_typing"
"""What the oldest runs each time; the environment's ALL_NVIMS lets it run everything."""
collect_ignore = [] if find_spec("playwright") else ["vscode"]
"""What drives VS Code; without it the tests there are not collected."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        with_oldest = metafunc.module.__name__ == TYPING or "ALL_NVIMS" in os.environ
        names = [*([OLDEST] if with_oldest else []), *NVIMS]
        metafunc.parametrize("program", names, indirect=True)


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    path = editors() / request.param / "nvim"
    if not path.exists():
        pytest.skip(f"no {request.param} here; scripts/get_editors {request.param} installs it")
    return path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    here = World(tmp_path)
    yield here
    here.close()
