"""Our side as an editor has it: a real bridge process, over its pipes.

The bridge's wire is read by a tap between it and the daemon: only there are passes and cancels
told.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

import zmq
import zmq.asyncio
from replay_account import Account
from replay_ours import ANSWER_S, FOLDER, uri_of
from replay_screen import Suggestion
from replay_traces import Moment, Step

from completiond.errors import ProtocolError
from completiond.protocol import codec

_LINE_END = re.compile(r"\r\n|\n|\r")


class Tap:
    """A ROUTER for one bridge and a DEALER to its daemon; what passes is accounted for."""

    def __init__(self, endpoint: str, account: Account) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="completiond-tap-")
        self.endpoint = f"ipc://{self._folder.name}/tap.sock"
        self._account = account
        self._context = zmq.asyncio.Context()
        self._front = self._context.socket(zmq.ROUTER)
        self._back = self._context.socket(zmq.DEALER)
        for socket in (self._front, self._back):
            socket.linger = 0
        self._front.bind(self.endpoint)
        self._back.connect(endpoint)
        self._bridge = b""
        self._tasks = [asyncio.create_task(self._up()), asyncio.create_task(self._down())]

    async def _up(self) -> None:
        while True:
            self._bridge, payload = await self._front.recv_multipart()
            await self._back.send(payload)
            with contextlib.suppress(ProtocolError):
                self._account.take(codec.decode_from_client(payload))

    async def _down(self) -> None:
        while True:
            payload = await self._back.recv()
            with contextlib.suppress(ProtocolError):
                self._account.take(codec.decode_from_daemon(payload))
            await self._front.send_multipart([self._bridge, payload])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._front.close()
        self._back.close()
        self._context.term()
        self._folder.cleanup()


class BridgeSource:
    """A `completiond-lsp` process, spoken to as VS Code speaks: JSON-RPC, UTF-16."""

    def __init__(self, endpoint: str) -> None:
        self.account = Account()
        self._daemon = endpoint
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Any]] = {}
        self._open: dict[str, Moment] = {}
        self._trace = ""
        self._asking = 0

    async def __aenter__(self) -> "BridgeSource":
        self._tap = Tap(self._daemon, self.account)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "completiond_lsp.server", "--endpoint", self._tap.endpoint),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=os.environ | {"COMPLETIOND_CONFIG": os.devnull},
        )
        self._reader = asyncio.create_task(self._read())
        await self._request("initialize", _INITIALIZE)
        self._notify("initialized", {})
        await self._connected()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await asyncio.wait([self._reader])
        await self._tap.close()

    async def _connected(self) -> None:
        """Wait until the bridge has found the daemon: a person would have opened a file first."""
        probe = Moment("probe", "probe.txt", "plaintext", "a\n", 1)
        self.opened(probe)
        deadline = time.monotonic() + ANSWER_S
        while not self.account.versions and time.monotonic() < deadline:
            await self.ask(probe)
        await self.close()
        self.account.versions.clear()
        self.account.answers.clear()

    # -- the editor's side ----------------------------------------------------------------------

    async def open(self, name: str, moments: list[Moment]) -> None:
        self._trace = name
        for moment in moments:
            self.opened(moment)

    def opened(self, moment: Moment) -> None:
        uri = uri_of(self._trace, moment)
        self._open[uri] = moment
        document = {
            "uri": uri,
            "languageId": moment.language,
            "version": moment.version,
            "text": moment.text,
        }
        self._notify("textDocument/didOpen", {"textDocument": document})

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        start = _position(old.text, step.offset)
        end = _position(old.text, step.offset + len(step.delete))
        change = {"range": {"start": start, "end": end}, "text": step.insert}
        document = {"uri": uri_of(self._trace, new), "version": new.version}
        params = {"textDocument": document, "contentChanges": [change]}
        self._notify("textDocument/didChange", params)

    def cancel(self) -> None:
        if self._asking:
            self._notify("$/cancelRequest", {"id": self._asking})
            self._asking = 0

    async def ask(self, moment: Moment) -> Suggestion | None:
        params = {
            "textDocument": {"uri": uri_of(self._trace, moment)},
            "position": _position(moment.text, moment.cursor),
            "context": {"triggerKind": 2},
        }
        try:
            result = await self._request("textDocument/inlineCompletion", params)
        except TimeoutError:
            self.account.failures["no answer"] += 1
            return None
        items = result if isinstance(result, list) else (result or {}).get("items", [])
        return self._suggestion(items[0], moment) if items else None

    def _suggestion(self, item: dict[str, Any], moment: Moment) -> Suggestion:
        ident = item["command"]["arguments"][0]
        asked = self.account.versions.get(ident) == moment.version
        ran = self.account.answers.get(ident)
        passes = self.account.passes(ident, moment.version)
        origin = "pass" if passes else "reuse" if asked else "bridge"
        span = item["range"]
        replaced = span["end"]["character"] - span["start"]["character"]
        return Suggestion(
            item["insertText"], replaced, origin, ran.prefilled if ran and asked else 0
        )

    def shown(self) -> None:
        pass  # LSP has no word for it

    async def close(self) -> None:
        self.cancel()
        for uri in self._open:
            self._notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        self._open.clear()

    # -- the pipe -------------------------------------------------------------------------------

    async def _request(self, method: str, params: Any) -> Any:
        ident = next(self._ids)
        answer = self._replies[ident] = asyncio.get_running_loop().create_future()
        if method == "textDocument/inlineCompletion":
            self._asking = ident
        self._send({"id": ident, "method": method, "params": params})
        try:
            return await asyncio.wait_for(answer, ANSWER_S)
        finally:
            del self._replies[ident]
            if self._asking == ident:
                self._asking = 0

    def _notify(self, method: str, params: Any) -> None:
        self._send({"method": method, "params": params})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0"} | message).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        while header := await stdout.readline():
            size = int(header.split(b":")[1])
            while (await stdout.readline()).strip():
                pass
            self._take(json.loads(await stdout.readexactly(size)))
        for answer in self._replies.values():
            if not answer.done():
                answer.set_result(None)

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if "id" in message:
                self._send({"id": message["id"], "result": None})
            return
        answer = self._replies.get(message["id"])
        if answer is not None and not answer.done():
            answer.set_result(message.get("result"))  # an error shows nothing


_INITIALIZE = {
    "processId": os.getpid(),
    "rootUri": FOLDER,
    "workspaceFolders": [{"uri": FOLDER, "name": "replay"}],
    "initializationOptions": {"startDaemon": False},
    "capabilities": {
        "general": {"positionEncodings": ["utf-16"]},
        "textDocument": {"inlineCompletion": {}},
    },
    "clientInfo": {"name": "Visual Studio Code"},
}


def _position(text: str, offset: int) -> dict[str, int]:
    """Line and UTF-16 column of a code point; lines end as LSP says."""
    line, start = 0, 0
    if "\r" not in text:
        line, start = text.count("\n", 0, offset), text.rfind("\n", 0, offset) + 1
    else:
        for end in _LINE_END.finditer(text, 0, offset):
            if text[end.start() : end.start() + 2] == "\r\n" and end.end() - end.start() == 1:
                break  # the cursor is between the two: the line has not ended yet
            line, start = line + 1, end.end()
    head = text[start:offset]
    column = len(head) if head.isascii() else len(head.encode("utf-16-le", "surrogatepass")) // 2
    return {"line": line, "character": column}
