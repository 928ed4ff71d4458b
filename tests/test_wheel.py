"""What is shipped: both packages, both console scripts, the wire's specification, nothing else."""

import configparser
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from completiond.version import __version__

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(ROOT)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    assert wheel.name.startswith(f"completiond-{__version__}-")
    names = set(zipfile.ZipFile(wheel).namelist())
    roots = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert roots == {"completiond", "completiond_lsp"}
    for package in (ROOT / "completiond", ROOT / "lsp" / "completiond_lsp"):
        ours = {str(path.relative_to(package.parent)) for path in package.rglob("*.py")}
        assert ours <= names
    assert "completiond/protocol/README.md" in names
    page = ROOT / "completiond" / "dashboard" / "page"
    assert {f"completiond/dashboard/page/{file.name}" for file in page.iterdir()} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_has_both_console_scripts(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        (name,) = [n for n in held.namelist() if n.endswith("entry_points.txt")]
        scripts = configparser.ConfigParser()
        scripts.read_string(held.read(name).decode())
    assert dict(scripts["console_scripts"]) == {
        "completiond": "completiond.__main__:main",
        "completiond-lsp": "completiond_lsp.server:main",
    }


def test_the_wheel_runs_from_where_it_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        held.extractall(tmp_path)
    code = "import completiond.__main__ as m, completiond_lsp.server as s"
    code += "; print(m.__file__, s.__file__)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout.count(str(tmp_path)) == 2
