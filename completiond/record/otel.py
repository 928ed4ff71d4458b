"""Keys as spans of OpenTelemetry: one a key, its stages below it, for a collector that was named.

Knows rows and the library (the extra `otel`, imported here and nowhere else). No text of a buffer
or an answer leaves, and no path. Whoever puts a key never waits; a collector that is away costs
its spans, which is said once.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

from completiond.record.rows import STAGES, Drafted, Key, Served
from completiond.record.store import Full

log = logging.getLogger(__name__)

SETTLED_S = 2.0
"""So long after a key is first told of, its client has told its part too."""
TICK_S = 0.5
SEND_S = 5.0
"""How long a collector may take."""
MOST_WAITING = 5_000
BATCH = 200
LAST_S = 2.0
"""How long the end of the daemon waits for the last keys."""
UNTIL_REPLY = STAGES[: STAGES.index("back")]
WORDS = ("kind", "trigger", "language", "editor", "model", "reason", "why", "outcome")
COUNTS = (
    *("request", "position", "candidates", "shown", "taken", "prompt", "reused", "prefilled"),
    *("generated", "passes", "wrote", "drafted", "held", "after_cancel", "free_us", "clock_us"),
)


class _Waiting(NamedTuple):
    since: float
    key: Key
    drafts: tuple[Drafted, ...]


class Exporter:
    """`put` from any thread; `start` and `stop` from one."""

    def __init__(self, address: str, daemon: Served) -> None:
        self._address = address
        self._made = InMemorySpanExporter()
        self._tracer = _tracer(self._made, daemon)
        self._out = OTLPSpanExporter(endpoint=address, timeout=SEND_S)
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # we say it, once
        self._lock = threading.Lock()
        self._waiting: dict[int, _Waiting] = {}
        self._sent = 0
        self._said = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel", daemon=True)
        self.lost = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send what waits, and end."""
        self._stopped.set()
        self._thread.join(timeout=LAST_S)
        self._out.shutdown()

    def put(self, number: int, state: Full) -> None:
        """This is the key of that number now. What comes when it has been sent is too late."""
        if state.key.kind == "warm":
            return
        with self._lock:
            before = self._waiting.get(number)
            if number <= self._sent or (before is None and len(self._waiting) >= MOST_WAITING):
                self.lost += number > self._sent
                return
            since = before.since if before is not None else time.monotonic()
            self._waiting[number] = _Waiting(since, state.key, state.drafts)

    def _run(self) -> None:
        while not self._stopped.wait(TICK_S):
            self.tick()
        self.tick(settled_s=0.0)

    def tick(self, settled_s: float = SETTLED_S) -> None:
        """Send the keys that are settled. Never raises."""
        ready = self._ready(time.monotonic() - settled_s)
        for at in range(0, len(ready), BATCH):
            self._send(ready[at : at + BATCH])

    def _ready(self, until: float) -> list[_Waiting]:
        with self._lock:
            numbers = [number for number, one in self._waiting.items() if one.since <= until]
            self._sent = max([self._sent, *numbers])
            return [self._waiting.pop(number) for number in numbers]

    def _send(self, keys: Sequence[_Waiting]) -> None:
        for one in keys:
            _span(self._tracer, one.key, one.drafts)
        spans = self._made.get_finished_spans()
        self._made.clear()
        if self._exported(spans):
            return
        self.lost += len(keys)
        if not self._said:
            self._said = True
            log.warning("The collector at %s takes no spans; keys are not told it.", self._address)

    def _exported(self, spans: Sequence[Any]) -> bool:
        try:
            return self._out.export(spans) is SpanExportResult.SUCCESS
        except Exception:  # whatever a collector answers: its keys are lost, the thread is not
            log.debug("The collector at %s:", self._address, exc_info=True)
            return False


def _tracer(to: InMemorySpanExporter, daemon: Served) -> Any:
    told = {
        "service.name": "completiond",
        "service.version": daemon.version,
        "service.instance.id": f"{daemon.pid}-{daemon.started_ms}",
    }
    provider = TracerProvider(resource=Resource.create(told), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(to))
    return provider.get_tracer("completiond", daemon.version)


def _span(tracer: Any, key: Key, drafts: Sequence[Drafted]) -> None:
    """The key's own span, and one for each of its stages."""
    stages = key.stages
    replied = sum(us for stage, us in stages.items() if stage in UNTIL_REPLY)
    began = key.at_ms * 1_000_000 - replied * 1000
    span = tracer.start_span(
        "key", kind=SpanKind.SERVER, start_time=began, attributes=dict(_facts(key, drafts))
    )
    below, at = set_span_in_context(span), began
    for stage, us in stages.items():
        one = tracer.start_span(stage, below, start_time=at)
        at += us * 1000
        one.end(at)
    if key.text_us is not None:
        outside = sum(stages.get(stage, 0) for stage in ("before", "there"))
        span.add_event("first text", timestamp=began + (outside + key.text_us) * 1000)
    if key.drawn_us is not None:
        span.add_event("drawn", timestamp=at + key.drawn_us * 1000)
    if "message" in key.details:
        span.set_status(StatusCode.ERROR, key.why)
    span.end(at)


def _facts(key: Key, drafts: Sequence[Drafted]) -> Iterator[tuple[str, Any]]:
    """Words and numbers only: neither text nor a path."""
    for name in (*WORDS, *COUNTS):
        if (value := getattr(key, name)) not in ("", None):
            yield f"completiond.{name}", value
    for draft in drafts:
        yield f"completiond.drafted.{draft.source}", draft.drafted
        yield f"completiond.held.{draft.source}", draft.held
