"""What a person chooses from the status bar's menu: why, the dashboard, the model."""

import asyncio
import re

import pytest
from desk import Desk
from playwright.async_api import Page
from scripted_text import MEAN, head
from vscode_window import until

pytestmark = [pytest.mark.editor, pytest.mark.asyncio(loop_scope="session")]

GHOST = MEAN.rstrip("\n")[len("def ") :]
ENTRIES = [
    "Turn off here …",
    "Why is nothing shown?",
    "Open the dashboard",
    "Pull the model",
    "Restart",
    "Settings",
    "Output",
]


async def said(at: Desk, words: str) -> str:
    """What the extension's output says, once these words are in it."""

    async def there() -> str:
        texts = [f"{entry.head}\n{entry.body}" for entry in at.log() if entry.level == "info"]
        return next((text for text in reversed(texts) if re.search(words, text)), "")

    return str(await until(there, f"the output says {words}"))


async def test_the_status_bar_offers_what_there_is(at: Desk) -> None:
    await at.open("menu.py", head("mean"))
    await at.window.menu()
    assert await at.window.choices() == ENTRIES
    await at.window.press("Escape")


async def test_why_says_what_the_command_line_says(at: Desk) -> None:
    await at.open("why.py", head("mean"))
    await at.window.type("def ")
    await at.window.wait_for_ghost(GHOST)
    await at.window.choose("Why is nothing shown?")
    text = await said(at, r"An answer was shown\.")
    assert "Request " in text and "why.py (python)" in text and "It took" in text
    assert await at.window.notifications().count() == 0


async def test_why_says_what_the_language_server_refused(at: Desk) -> None:
    window = at.window
    await at.open("secrets.env", "A = 1\n")
    await window.type("B")
    await window.wait_for_status("ready")

    async def refused() -> bool:
        return "keeps secrets" in await window.tooltip()

    await until(refused, "the status bar says why nothing is shown")
    await window.choose("Why is nothing shown?")
    assert "secrets.env" in await said(at, "keeps secrets by its name")
    assert await window.shown() == ""


async def test_the_dashboard_is_opened_in_a_browser_with_its_token(at: Desk) -> None:
    await at.open("board.py", head("mean"))
    opening = asyncio.ensure_future(at.window.page.context.wait_for_event("page"))
    await at.window.choose("Open the dashboard")
    page: Page = await opening
    await page.wait_for_url(re.compile("#.{20}"))
    await page.wait_for_selector("#main")
    await page.close()


async def test_a_model_that_does_not_exist_is_pulled_in_vain_and_the_person_told(at: Desk) -> None:
    await at.open("pull.py", head("mean"))
    before = len(at.log())
    await at.set(model="no-such-model")

    async def known() -> bool:
        told = [each for each in at.log()[before:] if "workspace/configuration" in each.head]
        return any("no-such-model" in each.body for each in told)

    await until(known, "the setting is known")  # else the default model would be fetched
    await at.window.choose("Pull the model")
    message = at.window.notifications().filter(has_text="no-such-model")
    await message.first.wait_for()
    del at.server.settings["completiond.model"]
    for file, text in at.server.files().items():
        file.write_text(text, encoding="utf-8")
