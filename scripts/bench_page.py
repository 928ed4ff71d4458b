"""How long the dashboard's page takes to open at a large record, in a real Chromium.

From its address to all that it draws. Nothing where Playwright or a Chromium is missing.
"""

import asyncio
import shutil
import time
from importlib.util import find_spec
from pathlib import Path

TIMES = 5


def page(folder: Path) -> dict[str, float]:
    """Milliseconds, of a dashboard whose state directory is that folder."""
    executable = shutil.which("chromium")
    if executable is None or find_spec("playwright") is None:
        return {}
    from dashboard_process import dashboard

    place = {"COMPLETIOND_STATE": str(folder), "COMPLETIOND_RUNTIME_DIR": str(folder / "run")}
    with dashboard(place) as link:
        took = asyncio.run(_opened(executable, link))
    print(f"  the page opens in {', '.join(f'{ms:.0f}' for ms in took)} ms")
    return {"page_p50_ms": sorted(took)[TIMES // 2], "page_most_ms": max(took)}


async def _opened(executable: str, link: str) -> list[float]:
    from dashboard_process import LAPTOP, Window, chrome

    took = []
    async with chrome(executable) as browser:
        for _ in range(TIMES):
            window = Window(await browser.new_page(viewport=LAPTOP))
            began = time.perf_counter()
            await window.page.goto(link)
            await window.drawn()
            took.append(round((time.perf_counter() - began) * 1e3, 1))
            await window.page.close()
    return took
