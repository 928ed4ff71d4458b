"""The desk that the tests of one file share: VS Code takes ten seconds to come up."""

import subprocess
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from desk import Desk, desk
from scripted_text import SCRIPT
from vscode_server import ROOT, chromium, program


@pytest.fixture(scope="session")
def packed() -> None:
    """The extension as it is now. Skips where no editor is."""
    if program() is None or chromium() is None:
        pytest.skip("no code-server or no Chromium: scripts/get_code_server brings them")
    subprocess.run([ROOT / "scripts" / "vsix"], check=True, capture_output=True)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def at(packed: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("desk"), SCRIPT) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def picture(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """What the shared window shows at the end of each test, kept in build/screenshots."""
    yield
    found = request.node.funcargs.get("at")
    if isinstance(found, Desk):
        await found.picture(request.node.name.replace("/", "-"))
