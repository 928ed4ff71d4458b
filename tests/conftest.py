"""What every test shares: one thread for tensors, so that suites do not fight over the cores; and
the command line as a person has it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def _no_record_of_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever daemon a test starts, it writes into no person's record."""
    os.environ["COMPLETIOND_STATE"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of our own: no configuration, an empty cache, no daemon."""
    for name in [name for name in os.environ if name.startswith("COMPLETIOND_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("COMPLETIOND_CONFIG", str(tmp_path / "config" / "config.toml"))
    monkeypatch.setenv("COMPLETIOND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COMPLETIOND_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("COMPLETIOND_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """The command in this process: exit code, stdout, stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        from completiond import __main__ as cli

        monkeypatch.setattr(sys, "argv", ["completiond", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return int(str(ended.value.code or 0)), said.out, said.err

    return run
