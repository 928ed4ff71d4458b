"""The engine in a thread of the front's process: for tests, and `complete` without a daemon.

It drives the same worker as the engine process does, by the same messages.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from completiond.engine import packing
from completiond.engine.desk import Desk
from completiond.engine.worker import Loaded, Worker
from completiond.errors import EngineDied


class ThreadEngine(Desk):
    """The same worker in a thread of this process. `load` runs there too."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        super().__init__()
        self._load = load
        self._loop = asyncio.get_running_loop()
        self._worker = Worker(lambda message: self._post(self._receive, message))
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    async def start(self) -> None:
        self._thread.start()

    async def stop(self, drain: bool) -> None:
        """End the thread: after its runs if `drain`, else after the pass it is in."""
        if drain and self.state == "ready":
            await self._runs.drained()
        if self.state != "stopped":
            self._become("stopped")
            self._send([packing.STOP])
            await asyncio.to_thread(self._thread.join)
        self._runs.fail_all(EngineDied.code, "The engine has been stopped; start the daemon again.")

    def _send(self, message: list[Any]) -> None:
        self._worker.deliver(message)

    def _work(self) -> None:
        try:
            self._worker.run(self._load)
        except Exception as exc:
            # A thread has no supervisor: the runs must not wait for a worker that is gone.
            died = EngineDied(f"The engine failed ({exc!r}); start it again.")
            self._post(self._fail, died)
            raise

    def _post(self, call: Callable[[Any], None], value: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, value)
