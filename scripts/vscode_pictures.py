"""vscode_pictures.py: the pictures of the documents, taken of real VS Code with the real model.

docs/pictures/vscode.png shows one suggestion; docs/pictures/vscode.gif a person who types. Needs
scripts/get_code_server, scripts/vsix and a pulled model. What is suggested is what the model says.
"""

import argparse
import asyncio
import io
import tempfile
import time
from pathlib import Path

from editor_daemon import EditorDaemon
from PIL import Image
from vscode_server import ROOT, VsCodeServer, chromium
from vscode_window import Window, browser

PICTURES = ROOT / "docs" / "pictures"
SIZE = {"width": 900, "height": 420}
COLORS = 64
PATIENCE_S = 20.0
ASK_AGAIN_S = 3.0
"""An answer that came too late on a busy machine is asked for by hand."""
ASK = "Alt+Backslash"
STILL = '''\
"""Figures of a list of numbers."""


def mean(values):
    """The arithmetic mean."""
    return sum(values) / len(values)


'''
LOOK = {
    "editor.fontSize": 15,
    "editor.lineHeight": 22,
    "editor.fontFamily": "DejaVu Sans Mono",
    "editor.fontLigatures": False,
    "editor.cursorBlinking": "solid",
    "editor.renderLineHighlight": "none",
    "editor.guides.indentation": False,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.parameterHints.enabled": False,
    "editor.hover.enabled": "off",
    "editor.occurrencesHighlight": "off",
    "editor.scrollbar.vertical": "hidden",
    "breadcrumbs.enabled": False,
    "window.commandCenter": False,
    "workbench.activityBar.location": "hidden",
    "workbench.layoutControl.enabled": False,
    "workbench.editor.empty.hint": "hidden",
}


class Film:
    """Pictures of the page, each with the time at which it was taken."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._frames: list[tuple[float, Image.Image]] = []

    async def roll(self, seconds: float) -> None:
        """As many pictures as can be taken in this time, and one at least."""
        end = time.monotonic() + seconds
        while True:
            self._frames.append((time.monotonic(), await picture(self._window)))
            if time.monotonic() >= end:
                return

    async def take(self, *keys: str) -> None:
        """Once a suggestion is there, look at it and press these keys, one by one."""
        asked = time.monotonic()
        while not await self._window.shown():
            await self.roll(0)
            assert time.monotonic() < asked + PATIENCE_S, "no suggestion came"
            if time.monotonic() > asked + ASK_AGAIN_S:
                await self._window.press(ASK)
        for key in keys:
            await self.roll(0.9)
            await self._window.press(key)

    async def type(self, text: str, per_second: float = 5.0) -> None:
        for letter in text:
            await self._window.type(letter)
            await self.roll(1 / per_second)

    def save(self, path: Path) -> None:
        """Equal pictures become one; the last one stays for two seconds."""
        kept: list[tuple[float, Image.Image]] = []
        for at, image in self._frames:
            if not kept or image.tobytes() != kept[-1][1].tobytes():
                kept.append((at, image))
        ends = [at for at, _ in kept[1:]] + [kept[-1][0] + 2.0]
        shown = [int(1000 * (end - at)) for (at, _), end in zip(kept, ends, strict=True)]
        palette = kept[-1][1].quantize(COLORS, dither=Image.Dither.NONE)
        images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for _, image in kept]
        images[0].save(
            path, save_all=True, append_images=images[1:], duration=shown, loop=0, optimize=False
        )


async def picture(window: Window) -> Image.Image:
    return Image.open(io.BytesIO(await window.page.screenshot())).convert("RGB")


async def take(folder: Path, model: str) -> None:
    daemon = EditorDaemon(folder / "d", None, model)
    ours = {"completiond.command": str(daemon.bridge()), "completiond.startDaemon": False}
    server = VsCodeServer(folder / "code", LOOK | ours, daemon.environment)
    for name in ("figures.py", "numbers.py"):
        (server.workspace / name).write_text(STILL)
    server.install()
    executable = chromium()
    assert executable is not None, "a Chromium is on the PATH"
    await daemon.start()
    server.start()
    try:
        async with browser(executable) as chrome:
            window = await Window.at(
                chrome, server.url("figures.py"), viewport=SIZE, color_scheme="light"
            )
            await window.wait_for_status("runs|ready")
            await prepare(window)
            await still(window)
            await window.open(server.workspace / "numbers.py")
            await film(window)
    finally:
        server.stop()
        daemon.stop()


async def prepare(window: Window) -> None:
    await window.command("View: Toggle Primary Side Bar Visibility")
    await window.focus("figures.py")
    await window.press("Control+End")


async def still(window: Window) -> None:
    await window.type("def variance(values):\n", per_second=8)
    await window.type('"""The mean squared distance from the mean."""\n', per_second=12)
    await window.type("center", per_second=8)
    await window.press(ASK)
    await window.wait_for_ghost()
    await window.page.mouse.move(5, 5)
    image = await picture(window)
    compact = image.quantize(128, dither=Image.Dither.NONE)
    compact.save(PICTURES / "vscode.png", optimize=True)


async def film(window: Window) -> None:
    """A function is begun; what is suggested is typed through, taken, or taken by words."""
    camera = Film(window)
    await camera.roll(0.8)
    await camera.type("def variance(values")
    await window.press("End")
    await camera.type(":\n")
    await camera.take("Tab")
    await camera.roll(0.8)
    await window.press("Escape")
    await camera.type("\n\n\b\bdef spread(values")
    await window.press("End")
    await camera.type(":\nreturn max")
    await camera.take("Control+ArrowRight", "Control+ArrowRight", "Tab")
    await camera.roll(0.4)
    await window.press("Escape")
    await camera.roll(0.4)
    camera.save(PICTURES / "vscode.gif")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    given = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="completiond-pictures-") as folder:
        asyncio.run(take(Path(folder), given.model))
    for path in sorted(PICTURES.glob("vscode.*")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
