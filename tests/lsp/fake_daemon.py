"""A daemon without a model: a real ROUTER socket, and answers that a test decides.

As a program it serves `COMPLETIOND_SERVE_ENDPOINT` until killed, or for LIFE_S seconds; it holds
the endpoint's lock, so a second one ends with status 3.
"""

import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import zmq

from completiond import endpoint as ep
from completiond.errors import EndpointInUse
from completiond.protocol import codec
from completiond.protocol import messages as m

LIFE_S = 20.0
HOLD = None
"""What `answer` returns for a request that waits until it is released or cancelled."""

Answer = m.Completion | m.Failure | list[str] | None


class FakeDaemon:
    """`with FakeDaemon(endpoint, answer) as d`. `answer` says texts, a final reply, or HOLD."""

    def __init__(self, endpoint: str, answer: Callable[[m.Complete], Answer]) -> None:
        self.endpoint = endpoint
        self.answer = answer
        self.state: m.State = "ready"
        self.facts: dict[str, Any] = {}
        self.received: list[m.FromClient] = []
        self._held: dict[int, tuple[bytes, m.Complete]] = {}
        self._orders: queue.SimpleQueue[tuple[int, Answer]] = queue.SimpleQueue()
        self._end = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "FakeDaemon":
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join(5)

    def of(self, kind: type[m.FromClient]) -> list[m.FromClient]:
        return [message for message in list(self.received) if isinstance(message, kind)]

    @property
    def completes(self) -> list[m.Complete]:
        return [message for message in list(self.received) if isinstance(message, m.Complete)]

    @property
    def cancels(self) -> list[tuple[int, str]]:
        found = [message for message in list(self.received) if isinstance(message, m.Cancel)]
        return [(cancel.id, cancel.reason) for cancel in found]

    def release(self, request: int, answer: Answer) -> None:
        self._orders.put((request, answer))

    # -- the thread -----------------------------------------------------------------------------

    def _serve(self) -> None:
        context = zmq.Context()
        router = context.socket(zmq.ROUTER)
        router.linger = 0
        router.bind(self.endpoint)
        self._ready.set()
        while not self._end.is_set():
            while not self._orders.empty():
                request, answer = self._orders.get()
                identity, complete = self._held.pop(request)
                self._reply(router, identity, complete, answer)
            if router.poll(2):
                identity, data = router.recv_multipart()
                self._take(router, identity, codec.decode_from_client(data))
        context.destroy(linger=0)

    def _take(self, router: "zmq.Socket[bytes]", identity: bytes, message: m.FromClient) -> None:
        self.received.append(message)
        if isinstance(message, m.Hello):
            welcome = m.Welcome(m.VERSION, "fake", time.monotonic_ns(), "fake", self.state)
            router.send_multipart([identity, codec.encode(welcome)])
        elif isinstance(message, m.Complete):
            answer = self.answer(message)
            if answer is HOLD:
                self._held[message.id] = identity, message
            else:
                self._reply(router, identity, message, answer)
        elif isinstance(message, m.AskStatus):
            status = m.Status(message.id, self.state, "fake", "none", 0.0, 1, 0, 0)
            router.send_multipart([identity, codec.encode(status)])
        elif isinstance(message, m.AskWhy):
            router.send_multipart([identity, codec.encode(m.Why(message.id, self.facts))])
        elif isinstance(message, m.Cancel):
            held = self._held.pop(message.id, None)
            was: m.CancelWas = "running" if held else "unknown"
            router.send_multipart([identity, codec.encode(m.Cancelled(message.id, was))])
            if held:
                self._reply(router, *held, completion(held[1], [], reason=message.reason))

    def _reply(
        self, router: "zmq.Socket[bytes]", identity: bytes, asked: m.Complete, answer: Answer
    ) -> None:
        if isinstance(answer, list):
            answer = completion(asked, answer)
        assert answer is not None
        router.send_multipart([identity, codec.encode(answer)])


def completion(
    asked: m.Complete, texts: list[str], *, reason: str = "ok", replace: int = 0
) -> m.Completion:
    candidates = [m.Candidate(text, "stop", replace) for text in texts]
    position = asked.offset + len(asked.before)
    return m.Completion(asked.id, asked.version, position, candidates, reason)


def main() -> None:
    endpoint = ep.parse(os.environ["COMPLETIOND_SERVE_ENDPOINT"])
    try:
        with ep.EndpointLock(endpoint), FakeDaemon(endpoint.text, lambda _: ["started"]):
            sys.stdout.write(f"serving {os.getpid()}\n")
            sys.stdout.flush()
            time.sleep(LIFE_S)
    except EndpointInUse:
        sys.exit(3)


if __name__ == "__main__":
    main()
