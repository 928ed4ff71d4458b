"""A person's desk: a daemon with a script, VS Code with our extension, and one window."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from editor_daemon import EditorDaemon
from other_files import pack
from playwright.async_api import Browser
from scripted_text import head
from vscode_log import Entry, Log
from vscode_server import VsCodeServer, chromium
from vscode_window import Window, browser, until

SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"


@dataclass
class Desk:
    daemon: EditorDaemon
    server: VsCodeServer
    browser: Browser
    window: Window
    _log: Log = field(default_factory=Log)

    def log(self) -> list[Entry]:
        """What the extension has written, LSP included, over all its hosts."""
        return self._log.entries(self.server.logs("completiond.log"))

    async def open(self, name: str, text: str | bytes) -> Path:
        """Write the file, open it, and wait until the bridge has it."""
        path = self.server.workspace / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        await self.window.open(path)
        await self.opened(name)
        return path

    async def opened(self, name: str) -> None:
        await self._told(("'textDocument/didOpen'",), f"/{name}", f"the bridge knows {name}")

    async def in_workspace(self, folder: str) -> None:
        """Wait until the bridge knows this folder of the workspace."""
        told = ("'initialize ", "'workspace/didChangeWorkspaceFolders'")
        await self._told(told, f'"name": "{folder}"', f"the bridge knows the folder {folder}")

    async def _told(self, messages: Sequence[str], text: str, what: str) -> None:
        """Wait until one of these messages to the bridge had the text in it."""

        async def said() -> bool:
            entries = (e for e in self.log() if any(name in e.head for name in messages))
            return any(text in entry.body for entry in entries)

        await until(said, what)

    async def set(self, **settings: Any) -> None:
        """Change settings as a person does who edits their file; None takes one out."""
        before, server = self.server.files(), self.server
        server.settings |= {f"completiond.{name}": value for name, value in settings.items()}
        server.settings = {k: value for k, value in server.settings.items() if value is not None}
        for file, text in server.files().items():
            if text != before[file]:
                await self.window.rewrite(file, text)

    async def saved(self, path: Path) -> bytes:
        await self.window.save()
        return path.read_bytes()

    async def picture(self, name: str) -> None:
        """For a person who wants to see what a test saw."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await self.window.page.screenshot(path=str(SCREENSHOTS / f"{name}.png"))


@asynccontextmanager
async def desk(
    folder: Path,
    script: dict[str, Any] | None,
    *,
    model: str = "",
    files: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    workspace: bool = True,
    starts_daemon: bool = False,
    start: Sequence[str] = (),
    path: str = "",
    ready: str = "",
) -> AsyncIterator[Desk]:
    """Everything runs and the bridge is connected."""
    executable = chromium()
    assert executable is not None
    daemon = EditorDaemon(folder / "d", script, model)
    own = ("--daemon-command", *daemon.command) if starts_daemon else ()
    ours = {
        "completiond.command": str(daemon.bridge(*(start or own))),
        "completiond.startDaemon": starts_daemon,
        "completiond.trace.server": "verbose",
        "files.readonlyInclude": {"**/locked.*": True},
    }
    environment = daemon.environment | ({"PATH": path} if path else {})
    server = VsCodeServer(folder / "code", ours | (settings or {}), environment)
    for name, text in (files or {"first.txt": ""}).items():
        (server.workspace / name).write_text(text)
    starting = asyncio.create_task(_nothing() if starts_daemon else daemon.start())
    await asyncio.to_thread(server.install, pack(folder / "other.vsix", head("mean")))
    server.start()
    try:
        await starting
        async with browser(executable) as chrome:
            first = next(iter(files or {"first.txt": ""})) if workspace else ""
            window = await Window.at(chrome, server.url(first, workspace=workspace))
            await window.wait_for_status(ready or ("PATH" if path else "runs|ready"))
            yield Desk(daemon, server, chrome, window)
    finally:
        server.stop()
        daemon.stop()


async def _nothing() -> None:
    """The bridge starts the daemon."""
