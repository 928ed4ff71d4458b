"""What recording one key costs: a reply in the daemon, a span of the bridge, a key in the bridge.

The writer runs beside it, as in a daemon, so its share of the interpreter is in the times.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from completiond.config import Record
from completiond.protocol import messages as m
from completiond.record.rows import Served
from completiond.record.writer import Writer
from completiond.recorder import Editors, Recorder
from completiond.remembered import Remembered
from completiond.sessions import Sessions, Ticket
from completiond.told import Told
from completiond_lsp.documents import Document
from completiond_lsp.journal import Journal

PAUSE_S = 0.005
"""Between two keys: forty people who type quickly."""


def recording(times: int) -> dict[str, Any]:
    """Percentiles in microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Served(), Record(), Path(folder))
        writer.start()
        try:
            found = asyncio.run(_measure(writer, times))
        finally:
            writer.stop()
    return {
        f"{name}_{share}_us": round(sorted(us)[min(len(us) - 1, int(at * len(us)))], 1)
        for name, us in found.items()
        for share, at in (("p50", 0.5), ("p99", 0.99))
    }


async def _measure(writer: Writer, times: int) -> dict[str, list[float]]:
    keys = Remembered(writer)
    told = Told(keys)
    recorder = Recorder(keys, Editors(told.editor, lambda: "a model"))
    journal = Journal(lambda message: True)
    document = Document("file:///a.py", "x = 1\n", language="python", encoding="utf-16")
    found: dict[str, list[float]] = {"reply": [], "span": [], "bridge": []}
    sessions: Sessions[Any] = Sessions(clients=1, queue=99)
    for number in range(1, times + 1):
        ticket = _ticket(sessions, number)
        began = time.perf_counter()
        recorder.replied(ticket, _reply(number), time.monotonic_ns())
        found["reply"].append((time.perf_counter() - began) * 1e6)
        span = _span(number, ticket)
        began = time.perf_counter()
        told.spans(b"client", m.Spans([span], "an editor"), "a model")
        found["span"].append((time.perf_counter() - began) * 1e6)
        began = time.perf_counter()
        with journal.key(invoked=False) as key:
            key.of(document, 4, "a.py")
        found["bridge"].append((time.perf_counter() - began) * 1e6)
        await asyncio.sleep(PAUSE_S)
    return found


def _ticket(sessions: Sessions[Any], number: int) -> Ticket:
    request = m.Complete(number, "a.py", number, "x = " * 4000, "\n" * 8000, language="python")
    ticket, _ = sessions.admit(b"client", request, time.monotonic_ns())
    sessions.settle(ticket)
    return ticket


def _reply(number: int) -> m.Completion:
    return m.Completion(number, number, 16_000, [m.Candidate("value = 1", "eos")], "ok")


def _span(number: int, ticket: Ticket) -> m.Span:
    now, arrived = time.monotonic_ns(), ticket.arrived_ns
    moments = (arrived - 900, arrived - 500, now + 500, now + 900)
    at = dict(zip(("received", "sent", "answered", "replied"), moments, strict=True))
    return m.Span(number, "a.py", number, "asked", at, took=moments[3] - moments[0], characters=9)
