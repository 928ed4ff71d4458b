"""A window of VS Code as a person has it: a page, keys, and what is drawn. Knows no server.

Waits for facts and never for a time; what was drawn in between is in the frames.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Locator, Page, async_playwright

FRAMES = Path(__file__).with_name("vscode_frames.js")
PATIENCE_S = 60.0
POLL_S = 0.02
KEYS = {"\n": "Enter", "\b": "Backspace", "\t": "Tab"}
ITEM = ".statusbar-item[id='completiond.completiond.completiond']"
ROW = ".quick-input-list .monaco-list-row"
EDITOR = ".editor-group-container.active .monaco-editor"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the cursor's line showed from a moment on, in ms of the page's clock."""

    at: float
    before: str
    ghost: str
    after: str
    more: tuple[str, ...]

    @property
    def line(self) -> str:
        """The text of the document in it."""
        return self.before + self.after

    @property
    def suggestion(self) -> str:
        return "\n".join((self.ghost, *self.more)) if self.ghost or self.more else ""


@asynccontextmanager
async def browser(executable: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--force-color-profile=srgb"]
        )


async def until(true: Callable[[], Awaitable[Any]], what: str, seconds: float = PATIENCE_S) -> Any:
    """Wait for a fact and return it; `what` is said if it does not come."""
    try:
        async with asyncio.timeout(seconds):
            while not (found := await true()):
                await asyncio.sleep(POLL_S)
            return found
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} s still not: {what}") from None


class Window:
    """One page with the workbench in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        page.on("console", lambda message: self.console.append(message.text))

    @classmethod
    async def at(cls, browser: Browser, url: str, **page: Any) -> "Window":
        """Open it and wait until the extension has spoken; a server that starts is waited for."""
        window = cls(
            await browser.new_page(**({"viewport": {"width": 1200, "height": 760}} | page))
        )
        window.page.set_default_timeout(PATIENCE_S * 1000)
        await window.page.add_init_script(path=str(FRAMES))
        await until(lambda: _reached(window.page, url), "the server answers")
        await window.page.wait_for_selector(".monaco-workbench .part.statusbar")
        return window

    # -- what is drawn --------------------------------------------------------------------------

    async def status(self) -> str:
        """What the status bar says to somebody who cannot see it."""
        item = self.page.locator(ITEM)
        return (await item.get_attribute("aria-label") or "") if await item.count() else ""

    async def tooltip(self) -> str:
        """What the status bar's item says to whom the mouse is over it."""
        await self.page.mouse.move(5, 5)
        await self.page.locator(ITEM).hover()
        found = self.page.locator(".workbench-hover-container .monaco-hover-content").first
        return (await found.inner_text()).replace("\xa0", " ")

    async def wait_for_status(self, word: str) -> str:
        async def said() -> str:
            status = await self.status()
            return status if re.search(word, status) else ""

        return str(await until(said, f"the status bar says {word}"))

    async def frames(self, since: float = 0.0) -> list[Frame]:
        raw = await self.page.evaluate(
            "since => completiondLog.frames.filter(frame => frame.at >= since)", since
        )
        return [_frame(each) for each in raw]

    async def last_frame(self) -> Frame | None:
        """What is drawn now."""
        await self.now()
        raw = await self.page.evaluate("completiondLog.frames.at(-1) ?? null")
        return _frame(raw) if raw else None

    async def keys(self, since: float = 0.0) -> list[tuple[float, str]]:
        raw = await self.page.evaluate("completiondLog.keys")
        return [(key["at"], key["key"]) for key in raw if key["at"] >= since]

    async def now(self) -> float:
        """The page's clock, once what is under way has been drawn."""
        script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        return float(await self.page.evaluate(script))

    async def shown(self) -> str:
        """The suggestion that is drawn now."""
        frame = await self.last_frame()
        return frame.suggestion if frame else ""

    async def wait_for_ghost(self, text: str | None = None) -> str:
        """Until a suggestion is drawn and stays as it is: this one, if it is named."""

        async def drawn() -> str:
            found = await self.shown()
            whole = text in (None, found) and found == await self.shown()
            return found if whole else ""

        return str(await until(drawn, f"the ghost text {text!r}"))

    async def wait_for_line(self, text: str) -> None:
        """Until this stands on the cursor's line; how wide its blanks are drawn is left open."""

        async def there() -> bool:
            frame = await self.last_frame()
            return frame is not None and frame.line.split() == text.split()

        await until(there, f"the line {text!r}")

    async def wait_for_none(self) -> None:
        async def gone() -> bool:
            return not await self.shown()

        await until(gone, "no ghost text")

    def notifications(self) -> Locator:
        return self.page.locator(".notifications-toasts .notification-list-item-message")

    # -- what a person does ---------------------------------------------------------------------

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.page.keyboard.press(key)

    async def type(self, text: str, per_second: float = 12.0) -> None:
        """Key by key, on time; a key that is late does not delay those after it."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        for number, letter in enumerate(text):
            await asyncio.sleep(start + number / per_second - loop.time())
            await self.page.keyboard.press(KEYS.get(letter, letter))

    async def insert(self, text: str) -> None:
        """As an input method or a paste does: all at once."""
        await self.page.keyboard.insert_text(text)

    async def open(self, path: Path) -> None:
        """A file, by its whole path; the cursor goes to its end."""
        await self.press("Control+P")
        await self.page.wait_for_selector(".quick-input-widget:visible")
        await self.page.keyboard.insert_text(str(path))
        row = self.page.locator(ROW, has_text=path.name).first
        await row.wait_for()
        await self.press("Enter")
        await self.focus(path.name)
        await self.press("Control+End")

    async def focus(self, name: str) -> None:
        """Into the text of the tab of this name, which is the active one."""
        await self.page.wait_for_selector(f".tab.active[data-resource-name='{name}']")
        await self.page.locator(f"{EDITOR}.focused, {EDITOR}").first.wait_for()
        await self.page.locator(f"{EDITOR} .native-edit-context, {EDITOR} textarea").first.focus()

    async def command(self, title: str) -> None:
        """By the palette."""
        await self.press("F1")
        await self.page.wait_for_selector(".quick-input-widget:visible")
        await self.page.keyboard.insert_text(title)
        exact = re.compile(rf"(^|: ){re.escape(title)}$")
        label = self.page.locator(".quick-input-list .monaco-highlighted-label", has_text=exact)
        await label.first.click()

    async def menu(self) -> None:
        """By a click on the status bar."""
        await self.page.locator(f"{ITEM} a").click()
        await self.page.wait_for_selector(".quick-input-widget:visible")

    async def choices(self) -> list[str]:
        """What the list that is open offers."""
        await self.page.locator(ROW).first.wait_for()
        return [text.strip() for text in await self.page.locator(ROW).all_inner_texts()]

    async def choose(self, entry: str) -> None:
        """From the status bar's menu."""
        await self.menu()
        await self.page.locator(ROW, has_text=entry).click()

    async def rewrite(self, path: Path, text: str) -> None:
        """Another text for a file; its tab is closed again."""
        await self.open(path)
        await self.press("Control+A")
        await self.insert(text)
        await self.save()
        await self.command("View: Close Editor")

    async def save(self) -> None:
        await self.press("Control+S")
        await self.page.locator(".tab.active.dirty").wait_for(state="detached")


def _frame(raw: dict[str, Any]) -> Frame:
    return Frame(**{**raw, "more": tuple(raw["more"])})


async def _reached(page: Page, url: str) -> bool:
    try:
        await page.goto(url)
    except Error:
        return False
    return True
