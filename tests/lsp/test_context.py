"""When a buffer's context may change: before it was used, or in a pause; never between keys."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from completiond_lsp.context import Context
from completiond_lsp.documents import Document
from completiond_lsp.retrieval import library

HELPER = "def helper(value):\n    return value + 1\n"


def document(root: Path, name: str, text: str) -> Document:
    return Document((root / name).as_uri(), text, language="python", encoding="utf-16")


def made(root: Path, settled_s: float) -> tuple[Context, list[str]]:
    changed: list[str] = []
    context = Context(lambda document: changed.append(document.uri), pytest.fail)
    context.use([root.as_uri()])
    context.enabled = True
    context.settled_s = context.idle_s = settled_s
    return context, changed


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.002)


def idle(context: Context) -> bool:
    return not any(held.busy for held in context._held.values())


async def test_a_buffer_that_was_not_asked_about_takes_what_is_found_at_once(
    tmp_path: Path,
) -> None:
    context, changed = made(tmp_path, 60.0)
    context.opened(document(tmp_path, "b.py", HELPER))
    here = document(tmp_path, "a.py", "x = helper(1)\n")
    context.opened(here)
    await until(lambda: bool(context._held[here.uri].chunks))
    hashes, news = context.of(here, 0)
    assert [chunk.hash for chunk in news] == hashes and len(hashes) == 1
    assert changed == []


async def test_what_is_found_while_somebody_types_waits_for_a_pause(tmp_path: Path) -> None:
    context, changed = made(tmp_path, 60.0)
    context.opened(document(tmp_path, "b.py", HELPER))
    here = document(tmp_path, "a.py", "x = helper(1)\n")
    context.opened(here)
    assert context.of(here, 0) == ([], [])
    await until(lambda: idle(context))
    for _ in range(5):
        context.edited(here, 0, 0)
        assert context.of(here, 0) == ([], [])
    context.settled_s = 0.01
    context.saved(here)
    await until(lambda: changed == [here.uri])
    assert len(context.of(here, 0)[0]) == 1


async def test_a_request_never_waits_for_a_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = threading.Event()
    monkeypatch.setattr(library.Library, "answer", lambda self, ask: held.wait(10) and [])
    context, _ = made(tmp_path, 0.0)
    here = document(tmp_path, "a.py", "x = helper(1)\n")
    context.opened(here)
    started = time.monotonic()
    assert context.of(here, 0) == ([], [])
    assert time.monotonic() - started < 5
    held.set()
    await until(lambda: idle(context))


async def test_a_search_that_fails_costs_the_context_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: library.Library, ask: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(library.Library, "answer", fail)
    context, changed = made(tmp_path, 0.0)
    here = document(tmp_path, "a.py", "x = helper(1)\n")
    context.opened(here)
    await until(lambda: idle(context))
    assert context.of(here, 0) == ([], []) and changed == []
    assert "the disk is gone" in caplog.text


async def test_files_are_found_after_the_first_scan_without_another_key(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("def cart(size):\n    return size\n")
    context, _ = made(tmp_path, 60.0)
    here = document(tmp_path, "a.py", "from cart import cart\n\nx = cart(\n")
    context.opened(here)
    await until(lambda: bool(context._held[here.uri].chunks))
    assert context.of(here, 2)[1][0].path == "cart.py"


async def test_a_closed_buffer_is_forgotten(tmp_path: Path) -> None:
    context, _ = made(tmp_path, 0.0)
    other = document(tmp_path, "b.py", HELPER)
    here = document(tmp_path, "a.py", "x = helper(1)\n")
    context.opened(other)
    context.opened(here)
    await until(lambda: bool(context._held[here.uri].chunks))
    context.closed(other)
    context.of(here, 0)
    await until(lambda: context._held[here.uri].chunks == [])
    assert list(context._held) == [here.uri]
