"""The page in a real Chromium, while a person types in a real language server.

Times from a key to its row are taken on one clock: the machine's time of day, in both processes.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("playwright") is None or shutil.which("chromium") is None:
    pytest.skip("needs playwright and a chromium on the PATH", allow_module_level=True)

from dashboard_process import LAPTOP, PHONE, Window, chrome, dashboard
from lsp_editor import Editor
from playwright.async_api import Browser, expect
from rows_made import DAEMON, full

from completiond.endpoint import default_endpoint
from completiond.record import place
from completiond.record.rows import Drafted, Pass, Spelled
from completiond.record.store import Store
from scripted_daemon import daemon

pytestmark = [pytest.mark.editor, pytest.mark.usefixtures("apart")]
TYPED = "total = len(rows) + 1"
SEEN_MS = 500
NOTE_ROWS = """
window.rowsAt = {};
new MutationObserver(() => {
  for (const row of document.querySelectorAll('[data-key]')) rowsAt[row.dataset.key] ??= Date.now();
}).observe(document, { subtree: true, childList: true });
"""


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    executable = shutil.which("chromium")
    assert executable is not None
    async with chrome(executable) as found:
        yield found


async def type_at(editor: Editor, text: str, first: int = 4) -> list[float]:
    """Key by key; the time of day, ms, at which the editor had the answer to each."""
    answered = []
    for column, char in enumerate(text, first):
        editor.edit(column, (1, column), (1, column), char)
        await editor.reply(editor.complete(1, column + 1))
        answered.append(time.time() * 1000)
        await asyncio.sleep(0.05)  # a person's pause: without it keys would share one drawing
    return answered


def fill(*keys: object) -> None:
    store = Store(place.following(None, place.directory()), DAEMON)
    store.write(dict(enumerate(keys, 1)))  # type: ignore[arg-type]
    store.close()


def quiet(window: Window) -> None:
    assert window.console == []
    assert window.hosts == {"127.0.0.1"}


async def test_a_key_is_seen_in_half_a_second() -> None:
    with daemon(), dashboard({}) as link:
        async with browser() as found, Editor(endpoint=default_endpoint(), name="vim") as editor:
            window = Window(await found.new_page(viewport=LAPTOP))
            await window.page.add_init_script(NOTE_ROWS)
            await window.page.goto(link)
            await expect(window.page.locator("#state")).to_have_text("live")
            await expect(window.page.locator("#waterfall")).to_contain_text("Nothing has been")
            editor.open("def f():\n    ")
            answered = await type_at(editor, TYPED)
            rows = window.page.locator("#waterfall [data-key]")
            await expect(rows).to_have_count(len(TYPED))
            seen = await window.page.evaluate("Object.values(rowsAt)")
            late = sorted(
                max(0, at - when) for at, when in zip(sorted(seen), answered, strict=True)
            )
            assert late[-1] < SEEN_MS, f"half {late[len(late) // 2]:.0f}, most {late[-1]:.0f} ms"
            await expect(window.page.locator("#tiles")).to_contain_text(f"of {len(TYPED)} keys")
            await expect(window.page.locator("#engine")).to_contain_text("scripted")
            quiet(window)


async def test_a_click_and_a_key_show_one_key_in_full() -> None:
    fill(full(path="a.py"), full(path="b.py"), full(path="c.py"))
    with dashboard({}) as link:
        async with browser() as found:
            window = await Window.at(found, link)
            await window.drawn()
            detail = window.page.locator("#detail")
            await window.page.click("[data-key='2']")
            await expect(detail).to_contain_text("b.py")
            await expect(detail.locator(".stages tr")).to_have_count(6)
            await window.page.keyboard.press("ArrowDown")
            await window.page.keyboard.press("Enter")
            await expect(detail).to_contain_text("a.py")
            await window.page.keyboard.press("Escape")
            await expect(detail).to_contain_text("Choose a key")
            assert await window.page.evaluate("document.activeElement.dataset.key") == "1"
            quiet(window)


async def test_a_filter_and_an_export_show_the_same_keys(tmp_path: Path) -> None:
    fill(full(path="a.py"), full(path="b.rs", language="rust"), full(path="c.rs", language="rust"))
    with dashboard({}) as link:
        async with browser() as found:
            window = await Window.at(found, link)
            await window.drawn()
            await expect(window.page.locator("[name=language] option")).to_have_count(3)
            await window.page.select_option("[name=language]", "rust")
            await expect(window.page.locator("#waterfall [data-key]")).to_have_count(2)
            await expect(window.page.locator("#tiles")).to_contain_text("of 2 keys")
            for form, name in (("csv", "completiond-keys.csv"), ("json", "completiond-keys.json")):
                await window.page.click("#save summary")
                async with window.page.expect_download() as download:
                    await window.page.click(f"[data-form={form}]")
                saved = await download.value
                assert saved.suggested_filename == name
                await saved.save_as(tmp_path / name)
                text = (tmp_path / name).read_text(encoding="utf-8")
                assert "b.rs" in text and "c.rs" in text and "a.py" not in text
            await window.page.click("#save summary")
            await window.page.click("[data-form=trace]")
            await expect(window.page.locator("#notice")).to_contain_text("--record-text")
            await window.page.click("#clear")
            await expect(window.page.locator("#waterfall [data-key]")).to_have_count(3)
            assert [line for line in window.console if "503" not in line] == []


async def test_each_filter_shows_only_what_fits_and_clear_shows_all() -> None:
    day = 86_400_000
    odd = {"editor": "vim", "path": "src/c.rs", "language": "rust"}
    fill(full(), full(), *(full(**{name: value}) for name, value in odd.items()))
    store = Store(place.following(None, place.directory()).with_name("record-1.db"), DAEMON)
    store.write({1: full(at_ms=int(time.time() * 1000) - 3 * day)})
    store.close()
    with dashboard({}) as link:
        async with browser() as found:
            window = await Window.at(found, link)
            await window.drawn()
            rows = window.page.locator("#waterfall [data-key]")
            for name, value in odd.items():
                await window.page.select_option(f"[name={name}]", value)
                await expect(rows).to_have_count(1)
                await expect(window.page.locator("#tiles")).to_contain_text("of 1 keys")
                await window.page.click("#clear")
                await expect(rows).to_have_count(5)
            await window.page.select_option("[name=last_s]", "604800")
            await expect(rows).to_have_count(6)
            await window.page.select_option("[name=last_s]", "900")
            await expect(rows).to_have_count(5)
            quiet(window)


async def test_the_strip_has_words_where_text_is_recorded_and_squares_where_it_is_not() -> None:
    drafts = (Drafted("suffix", 3, 2),)
    words = (
        *(Spelled("total", "suffix", True), Spelled(" =", "suffix", True)),
        *(Spelled("\n", "", True), Spelled("<b>", "suffix", False)),
    )
    fill(
        full()._replace(passes=(Pass(3, drafts, words), Pass(1))),
        full()._replace(passes=(Pass(3, drafts),)),
    )
    with dashboard({}) as link:
        async with browser() as found:
            window = await Window.at(found, link)
            await window.drawn()
            strip = window.page.locator("#detail .strip")
            await window.page.click("[data-key='1']")
            await expect(strip.locator("code")).to_have_text(["total", "·=", "↵", "<b>"])
            await expect(strip.locator("code.held")).to_have_count(2)
            await expect(strip.locator("code.lost")).to_have_attribute(
                "title", "suffix, did not hold"
            )
            await expect(strip.locator("li").first).to_have_attribute(
                "aria-label", "pass 1: 2 of 3 by suffix; 3 tokens"
            )
            assert await window.page.evaluate(CONTRAST) >= 4.5
            await window.page.click("[data-key='2']")
            await expect(strip.locator("code")).to_have_count(0)
            await expect(strip.locator("i.held")).to_have_count(2)
            await expect(strip.locator("i.lost")).to_have_count(1)
            quiet(window)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_it_fits_and_can_be_read_in_both_themes(size: dict[str, int], theme: str) -> None:
    fill(*(full(path=f"src/a/rather/long/path/of/a/file{n}.py") for n in range(40)))
    with dashboard({}) as link:
        async with browser() as found:
            window = await Window.at(found, link, viewport=size, color_scheme=theme)
            await window.drawn()
            wide = await window.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= size["width"]
            await window.page.click("[data-key='40']")
            await expect(window.page.locator("#detail")).to_be_in_viewport()
            assert await window.page.evaluate(CONTRAST) >= 4.5
            assert await window.page.evaluate(UNNAMED) == []
            await window.page.keyboard.press("Escape")
            await window.page.click("#theme")
            other = {"light": "dark", "dark": "light"}[theme]
            await expect(window.page.locator("html")).to_have_attribute("data-theme", other)
            assert await window.page.evaluate(CONTRAST) >= 4.5
            quiet(window)


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4))
    .reduce((sum, c, n) => sum + c * [.2126, .7152, .0722][n], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const texts = 'p, h1, h2, h3, th, td, dt, dd, button, label, time, .took, .file, .kind, code';
  const worst = [...document.querySelectorAll(texts)]
    .filter((node) => node.checkVisibility() && node.textContent.trim())
    .map((node) => [light(rgba(getComputedStyle(node).color)), light(behind(node))])
    .map((pair) => pair.sort((a, b) => b - a))
    .map(([high, low]) => (high + .05) / (low + .05));
  return Math.min(...worst);
}"""
"""The least contrast of any text with what is behind it."""
UNNAMED = """() => [...document.querySelectorAll('button, select, [role=img], summary')]
  .filter((node) => !node.getAttribute('aria-label') && !node.labels?.length)
  .filter((node) => !node.textContent.trim())
  .map((node) => node.outerHTML)"""


async def test_it_says_when_the_daemon_goes_and_when_it_comes_back() -> None:
    with dashboard({}) as link:
        async with browser() as found:
            with daemon():
                window = await Window.at(found, link)
                await expect(window.page.locator("#state")).to_have_text("live")
            await expect(window.page.locator("#state")).to_have_text("no daemon", timeout=10_000)
            with daemon():
                await expect(window.page.locator("#state")).to_have_text("live", timeout=10_000)
            quiet(window)


async def test_it_says_when_its_own_server_is_gone_and_when_it_has_no_token() -> None:
    async with browser() as found:
        with dashboard({}) as link:
            window = await Window.at(found, link)
            await expect(window.page.locator("body")).to_have_attribute("data-link", "live")
            assert "#" not in window.page.url
            guest = await Window.at(found, link.partition("#")[0])
            await expect(guest.page.locator("#notice")).to_contain_text("carries the token")
            await expect(guest.page.locator("#state")).to_have_text("no access")
        await expect(window.page.locator("#state")).to_have_text("connection lost")
