"""Our daemon, asked straight: what the bridge would send, without the bridge."""

import contextlib
from types import TracebackType
from typing import Any

from replay_account import Account
from replay_screen import Suggestion
from replay_traces import Moment, Step

from completiond.client import Client, complete_message
from completiond.core import Snapshot
from completiond.errors import CompletiondError, ProtocolError
from completiond.protocol import codec
from completiond.protocol import messages as m

ANSWER_S = 60.0
LINE_MS = 100
"""As the bridge asks."""
FOLDER = "file:///replay"


def uri_of(trace: str, moment: Moment) -> str:
    return f"{FOLDER}/{trace}/{moment.document}/{moment.path or 'untitled'}"


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
        self._answered = 0
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
        reply = await self._complete(ident, moment)
        if reply is None or not reply.candidates:
            return None
        self._answered = ident
        best, ran = reply.candidates[0], self.account.answers[ident]
        origin = "pass" if ran.passes else "reuse"
        return Suggestion(best.text, best.replace, origin, ran.prefilled)

    async def _complete(self, ident: int, moment: Moment) -> m.Completion | None:
        message = self.message(ident, moment)
        self.account.take(message)
        self._asking = (ident, moment)
        try:
            return await self._client.complete(message, timeout=ANSWER_S, on_cancel=None)
        except CompletiondError as exc:
            self.account.failures[exc.code] += 1
            return None
        finally:
            if self._asking and self._asking[0] == ident:
                self._asking = None

    def message(self, ident: int, moment: Moment) -> m.Complete:
        snapshot = Snapshot.around(
            moment.text,
            moment.cursor,
            document=uri_of(self._trace, moment),
            version=moment.version,
            language=moment.language,
            path=moment.path,
        )
        return complete_message(snapshot, ident, line_ms=LINE_MS)

    def shown(self) -> None:
        self._client.feedback(m.Feedback(self._answered, "shown"))

    async def close(self) -> None:
        self.cancel()
