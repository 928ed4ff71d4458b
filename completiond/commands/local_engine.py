"""An engine in this process, asked like a daemon: for `complete` without one, and for `doctor`.

Knows the door and the daemon's request path; knows no sockets. Needs the extra `serve`, so commands
import it only when they compute.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import Any

from completiond import engine_process
from completiond.client import complete_message
from completiond.config import Config
from completiond.core import Snapshot
from completiond.daemon import Daemon
from completiond.engine.desk import Start
from completiond.engine.thread_engine import ThreadEngine
from completiond.errors import from_code
from completiond.prompts import prompts_of
from completiond.protocol import codec
from completiond.protocol import messages as m

IDENTITY = b"here"
FILL_MS = 60_000


class LocalEngine:
    """`async with LocalEngine(config, start) as engine`: loaded, then asked as a client asks."""

    on_lost: Callable[[], None]
    """The daemon's; there is no connection to lose."""

    def __init__(self, config: Config, start: Start) -> None:
        self._engine = ThreadEngine(lambda: engine_process.load(asdict(start)))
        self._daemon = Daemon(config, self._engine, self)
        self._prompts = partial(prompts_of, config, start)
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[m.Completion]] = {}
        self._on_partial: dict[int, Callable[[m.Partial], None]] = {}

    async def __aenter__(self) -> "LocalEngine":
        await self._daemon.open(self._prompts)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, asyncio.CancelledError):  # Ctrl-C does not wait for the thread
            await self._daemon.close()

    @property
    def info(self) -> dict[str, Any]:
        """What the engine measured and chose when it was loaded."""
        return self._engine.info

    def next_id(self) -> int:
        return next(self._ids)

    async def complete(
        self, message: m.Complete, on_partial: Callable[[m.Partial], None] | None = None
    ) -> m.Completion:
        answer: asyncio.Future[m.Completion] = asyncio.get_running_loop().create_future()
        self._answers[message.id] = answer
        if on_partial is not None:
            self._on_partial[message.id] = on_partial
        self._daemon.handle(IDENTITY, codec.encode(message))
        return await answer

    async def fill(self, prefix: str, suffix: str, max_tokens: int = 16) -> m.Completion:
        """The completion between two texts."""
        snapshot = Snapshot.around(
            prefix + suffix,
            len(prefix),
            document="doctor",
            version=0,
            language="python",
            path="doctor.py",
        )
        message = complete_message(
            snapshot,
            self.next_id(),
            trigger="invoked",
            max_tokens=max_tokens,
            max_ms=FILL_MS,
        )
        return await self.complete(message)

    # -- the daemon's listener ------------------------------------------------------------------

    async def receive(self) -> tuple[bytes, bytes]:
        raise AssertionError("messages are handed to the daemon directly")

    def send(self, identity: bytes, payload: bytes) -> bool:
        message = codec.decode_from_daemon(payload)
        if isinstance(message, m.Partial) and message.id in self._on_partial:
            self._on_partial[message.id](message)
        elif isinstance(message, m.Completion):
            self._answers.pop(message.id).set_result(message)
        elif isinstance(message, m.Failure) and message.id in self._answers:
            failed = from_code(message.code, message.message)
            self._answers.pop(message.id).set_exception(failed)
        return True
