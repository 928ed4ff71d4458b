"""A bar for what keeps suggestions waiting: a daemon that starts, a model that loads or is fetched.

Knows LSP's work done progress; for an editor without it there is the status alone.
"""

import asyncio
import uuid
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

LATER_S = 0.5
"""What is over sooner needs no bar."""
TITLE = "completiond"


class Progress:
    """Of one editor. `follow` gets each status; the bar is there while that says it has to be."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._latest: dict[str, Any] | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self, standing: dict[str, Any]) -> None:
        busy = standing["state"] in ("starting", "loading")
        self._latest = standing if busy else None
        self._news.set()
        if busy and self._task is None and self._can():
            self._task = asyncio.create_task(self._show(), name="progress")

    def _can(self) -> bool:
        window = self._server.client_capabilities.window
        return window is not None and bool(window.work_done_progress)

    async def _show(self) -> None:
        try:
            await asyncio.sleep(LATER_S)
            if self._latest is not None:
                token = str(uuid.uuid4())
                await self._server.work_done_progress.create_async(token)
                await self._report(token)
        except JsonRpcException:
            return  # then without a bar
        finally:
            self._task = None

    async def _report(self, token: str) -> None:
        bar, first = self._server.work_done_progress, self._latest or {}
        bar.begin(token, types.WorkDoneProgressBegin(TITLE, message=first.get("message")))
        while (latest := self._latest) is not None:
            self._news.clear()
            percent = latest.get("progress")
            bar.report(
                token, types.WorkDoneProgressReport(message=latest["message"], percentage=percent)
            )
            await self._news.wait()
        bar.end(token, types.WorkDoneProgressEnd())
        bar.tokens.pop(token, None)
