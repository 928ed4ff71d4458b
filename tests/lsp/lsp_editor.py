"""An editor without a screen: JSON-RPC over the pipes of a real `completiond-lsp` process."""

import asyncio
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any

WAIT_S = 60.0
URI = "file:///work/space/a.py"
CANCELLED = -32800
INVALID_PARAMS = -32602


class Editor:
    """`async with Editor(endpoint=...) as editor`: initialized and ready to open documents.

    An editor with a `name` draws no ghost text; the one without says null and draws it, as Emacs.
    """

    def __init__(
        self,
        *,
        endpoint: str,
        arguments: tuple[str, ...] = (),
        settings: Any = None,
        options: Any = None,
        encodings: list[str] | None = None,
        env: dict[str, str] | None = None,
        process_id: int | None = None,
        name: str = "",
        progress: bool = False,
    ) -> None:
        self.replies: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self.notes: list[dict[str, Any]] = []
        self.standings: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.initialize_s = 0.0
        self.capabilities: dict[str, Any] = {}
        self.stderr = b""
        self._arguments = ("--endpoint", endpoint, *arguments)
        self.settings = settings
        self.configured = 0
        self._env = env or {}
        self._ids = iter(range(1, 1 << 30))
        self._news = asyncio.Event()
        self.asks = {
            "processId": process_id,
            "rootUri": None,
            "workspaceFolders": [{"uri": "file:///work/space", "name": "space"}],
            "initializationOptions": {"startDaemon": False} if options is None else options,
            "capabilities": {
                "general": {"positionEncodings": encodings or ["utf-16"]},
                "workspace": {"configuration": settings is not None},
                "window": {"workDoneProgress": progress},
                "textDocument": {} if name else {"inlineCompletion": None},
            },
            "clientInfo": {"name": name or "a real editor"},
        }

    async def __aenter__(self) -> "Editor":
        started = time.monotonic()
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "completiond_lsp.server", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"COMPLETIOND_CONFIG": "/nonexistent.toml"} | self._env,
        )
        self._readers = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._read_errors()),
        ]
        answer = await self.request("initialize", self.asks)
        self.initialize_s = time.monotonic() - started
        self.capabilities = answer["result"]["capabilities"]
        self.notify("initialized", {})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> int:
        """Close the pipe, as a dying editor does; the exit status."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            status = await asyncio.wait_for(self.process.wait(), WAIT_S)
        except TimeoutError:
            self.process.kill()
            raise
        await asyncio.wait(self._readers)
        return status

    # -- messages -------------------------------------------------------------------------------

    def send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, *params: Any) -> int:
        """Send a request, without `params` if none are given; its id."""
        ident = next(self._ids)
        self.send({"id": ident, "method": method} | ({"params": params[0]} if params else {}))
        return ident

    async def reply(self, ident: int) -> dict[str, Any]:
        await self.until(lambda: bool(self.replies[ident]))
        return self.replies[ident][0]

    async def request(self, method: str, *params: Any) -> dict[str, Any]:
        return await self.reply(self.ask(method, *params))

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for a fact; looks again at each message, and every few milliseconds."""
        async with asyncio.timeout(WAIT_S):
            while not true():
                self._news.clear()
                await asyncio.wait([asyncio.create_task(self._news.wait())], timeout=0.005)

    # -- what editors say -----------------------------------------------------------------------

    def open(
        self, text: str, *, uri: str = URI, version: int = 1, language: str = "python"
    ) -> None:
        document = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def edit(self, version: int, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        change = {"range": span(start, end), "text": text}
        self.change(version, [change])

    def change(self, version: int, changes: list[Any], *, uri: str = URI) -> None:
        document = {"uri": uri, "version": version}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def complete(self, line: int, character: int, kind: int = 2, *, uri: str = URI) -> int:
        return self.ask("textDocument/inlineCompletion", inline(line, character, kind, uri=uri))

    def cancel(self, ident: int) -> None:
        self.notify("$/cancelRequest", {"id": ident})

    # -- the pipe -------------------------------------------------------------------------------

    async def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        while header := await stdout.readline():
            size = int(header.split(b":")[1])
            while (await stdout.readline()).strip():
                pass
            self._take(json.loads(await stdout.readexactly(size)))

    async def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.stderr = await self.process.stderr.read()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            self.replies[message["id"]].append(message)
        elif message["method"] == "completiond/status":
            self.standings.append(message["params"])
        elif "id" not in message:
            self.notes.append(message)
        elif message["method"] == "workspace/configuration":
            self.send({"id": message["id"], "result": [self.settings]})
            self.configured += 1
        else:
            self.asked.append(message)
            result = {"applied": True} if message["method"] == "workspace/applyEdit" else None
            self.send({"id": message["id"], "result": result})
        self._news.set()


def span(start: tuple[int, int], end: tuple[int, int]) -> dict[str, Any]:
    (a, b), (c, d) = start, end
    return {"start": {"line": a, "character": b}, "end": {"line": c, "character": d}}


def inline(line: int, character: int, kind: int = 2, *, uri: str = URI) -> dict[str, Any]:
    return {
        "textDocument": {"uri": uri},
        "position": {"line": line, "character": character},
        "context": {"triggerKind": kind},
    }


def texts(reply: dict[str, Any]) -> list[str]:
    return [item["insertText"] for item in reply["result"]]


async def answered(editor: Editor, line: int, character: int) -> list[str]:
    """Ask as a typing person does, until there is something."""
    async with asyncio.timeout(WAIT_S):
        while True:
            reply = await editor.reply(editor.complete(line, character))
            if reply["result"]:
                return texts(reply)


def shown(editor: Editor, method: str) -> list[str]:
    return [note["params"]["message"] for note in editor.notes if note["method"] == method]
