"""`completiond dashboard` as a process, and its page in a real Chromium. Knows no test."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, Page, async_playwright

LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@contextmanager
def dashboard(environment: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """The link that it prints."""
    command = [sys.executable, "-m", "completiond", "dashboard", *arguments]
    process = subprocess.Popen(
        command, env=os.environ | dict(environment), stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.communicate(timeout=20)


@asynccontextmanager
async def chrome(executable: str) -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        yield await playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox", "--force-color-profile=srgb"]
        )


class Window:
    """One page. What it says on its console, and whom it asks, is noted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.console: list[str] = []
        self.hosts: set[str] = set()
        page.on("console", lambda said: self.console.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: self.console.append(f"error: {error}"))
        page.on("request", lambda asked: self.hosts.add(urlsplit(asked.url).hostname or ""))

    @classmethod
    async def at(cls, browser: Browser, link: str, **page: Any) -> "Window":
        window = cls(await browser.new_page(**({"viewport": LAPTOP} | page)))
        await window.page.goto(link)
        return window

    async def drawn(self) -> None:
        """Until everything that was asked for is there."""
        await self.page.wait_for_selector("#main:not([aria-busy])")
        await self.page.wait_for_selector("#waterfall li")
        script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        await self.page.evaluate(script)
