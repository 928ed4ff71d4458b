"""dashboard_pictures.py: the picture of the dashboard in the documents, of a real session.

A trace is typed at a daemon with the real model, through a real language server, while the page
is open. Needs a Chromium on the PATH, Playwright and a pulled model; --all also saves the other
sizes and themes into a folder.
"""

import argparse
import asyncio
import io
import shutil
import sys
from pathlib import Path

from dashboard_process import LAPTOP, PHONE, Window, chrome, dashboard
from PIL import Image
from playwright.async_api import Browser
from replay_daemon import Running, daemon
from replay_editor import type_trace
from replay_sides import Ask, our_side
from replay_traces import Trace, find, read, timed

from completiond.errors import CompletiondError

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "traces_dev"
PICTURE = ROOT / "docs" / "pictures" / "dashboard.png"
COLORS = 256
TALL = {"width": 1280, "height": 930}
LOOKS = {
    "laptop": {"viewport": LAPTOP},
    "dark": {"viewport": LAPTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE},
    "phone-dark": {"viewport": PHONE, "color_scheme": "dark"},
}


async def take(running: Running, link: str, trace: Trace, everything: Path | None) -> None:
    side = our_side(running, Ask("bridge", 0.03))
    executable = shutil.which("chromium")
    if executable is None:
        raise CompletiondError("There is no chromium on the PATH; install it first.")
    async with chrome(executable) as browser:
        page = await Window.at(browser, link, viewport=TALL)
        async with side.sit() as seat:
            await type_trace(trace, seat)
        await choose(page)
        save(await page.page.screenshot(), PICTURE)
        if everything is not None:
            await take_all(browser, link, everything)


async def choose(window: Window) -> None:
    """A key that can be seen and for which the model ran, rather one that got its answer."""
    await window.drawn()
    listed = await window.page.locator("#waterfall").bounding_box()
    foot = listed["y"] + listed["height"] if listed else 0.0
    for words in ("new run", "run on its way", "a newer key came"):
        for row in await window.page.locator(f"#waterfall button[aria-label*='{words}']").all():
            box = await row.bounding_box()
            if box is not None and box["y"] + box["height"] < foot:
                await row.click()
                await window.page.wait_for_selector("#detail.open")
                await window.drawn()
                return


async def take_all(browser: Browser, link: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, look in LOOKS.items():
        window = await Window.at(browser, link, **look)
        await window.drawn()
        await window.page.screenshot(path=folder / f"{name}.png", full_page=True)
        await choose(window)
        await window.page.screenshot(path=folder / f"{name}-key.png")
        print(f"{name}: {window.console or 'nothing on the console'}")
        await window.page.close()


def save(taken: bytes, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    image = Image.open(io.BytesIO(taken)).convert("RGB")
    image.quantize(COLORS, dither=Image.Dither.NONE).save(to, optimize=True)
    print(f"{to.relative_to(ROOT)}: {to.stat().st_size // 1024} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--trace", default="gson_1*.json", metavar="GLOB")
    parser.add_argument("--seconds", type=float, default=60, help="of the trace")
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="all sizes and themes")
    given = parser.parse_args()
    try:
        trace = timed(read(find(given.trace, [DATA])[0]), given.seconds, longest_gap=2.0)
        with daemon(given.model, {"record.text": "true"}) as running:
            place = {
                "COMPLETIOND_STATE": f"{running.folder}/state",
                "COMPLETIOND_SERVE_ENDPOINT": running.endpoint,
                "COMPLETIOND_CONFIG": f"{running.folder}/none.toml",
            }
            with dashboard(place) as link:
                asyncio.run(take(running, link, trace, given.all))
    except CompletiondError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
