"""Our side: asked straight at the daemon, or through a real bridge process over its pipes.

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
from replay_screen import Suggestion
from replay_traces import Moment, Step

from completiond.client import Client, complete_message
from completiond.core import Snapshot
from completiond.errors import CompletiondError, ProtocolError
from completiond.protocol import codec
from completiond.protocol import messages as m

ANSWER_S = 60.0
FOLDER = "file:///replay"

_LINE_END = re.compile(r"\r\n|\n|\r")


def uri_of(trace: str, moment: Moment) -> str:
    return f"{FOLDER}/{trace}/{moment.document}/{moment.path or 'untitled'}"


# -- straight to the daemon -----------------------------------------------------------------------


class _Heard(Client):
    """A client whose messages are accounted for as they come."""

    account: Account

    def on_message(self, data: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            self.account.take(codec.decode_from_daemon(data))
        super().on_message(data)


class DaemonSource:
    """What the bridge does, without the bridge: supersede before a change, abandon if it breaks."""

    def __init__(self, endpoint: str) -> None:
        self.account = Account()
        self._client = _Heard(endpoint, client="replay")
        self._client.account = self.account
        self._trace = ""
        self._asking: tuple[int, Moment] | None = None
        self._superseded: tuple[int, Moment] | None = None

    async def __aenter__(self) -> "DaemonSource":
        await self._client.__aenter__()
        await self._client.hello(10)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)

    async def open(self, name: str, moments: list[Moment]) -> None:
        self._trace = name

    def opened(self, moment: Moment) -> None:
        pass  # a request is self-contained

    def cancel(self) -> None:
        if self._asking is not None:
            self._cancel(self._asking[0], "superseded")
            self._superseded, self._asking = self._asking, None

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        if self._superseded is None:
            return
        ident, asked = self._superseded
        on = step.document == asked.document and not step.delete and step.offset == asked.cursor
        if not on or step.cursor != step.offset + len(step.insert):
            self._cancel(ident, "abandoned")
        self._superseded = None

    def _cancel(self, ident: int, reason: Any) -> None:
        self.account.take(m.Cancel(ident, reason))
        self._client.cancel(ident, reason)

    async def ask(self, moment: Moment) -> Suggestion | None:
        ident = self._client.next_id()
        snapshot = Snapshot.around(
            moment.text,
            moment.cursor,
            document=uri_of(self._trace, moment),
            version=moment.version,
            language=moment.language,
            path=moment.path,
        )
        message = complete_message(snapshot, ident)
        self.account.take(message)
        self._asking = (ident, moment)
        try:
            reply = await self._client.complete(message, timeout=ANSWER_S, on_cancel=None)
        except CompletiondError:
            return None
        finally:
            if self._asking and self._asking[0] == ident:
                self._asking = None
        if not reply.candidates:
            return None
        best, ran = reply.candidates[0], self.account.answers[ident]
        origin = "pass" if ran.passes else "reuse"
        return Suggestion(best.text, best.replace, origin, ran.prefilled)

    async def close(self) -> None:
        self.cancel()


# -- through the bridge ---------------------------------------------------------------------------


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
        result = await self._request("textDocument/inlineCompletion", params)
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
