"""Keys as a collector gets them: over real OTLP, decoded by OpenTelemetry's own messages."""

import asyncio
import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
    pytest.skip("needs the extra otel", allow_module_level=True)

from lsp_editor import Editor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from rows_made import DAEMON, full

from completiond import config
from completiond.commands import options
from completiond.endpoint import default_endpoint
from completiond.errors import CompletiondError, ConfigError
from completiond.record import otel
from completiond.record.otel import Exporter
from completiond.record.rows import Pass, Said, Spelled
from scripted_daemon import daemon

Run = Callable[..., tuple[int, str, str]]
TYPED = "total = len(rows)"


class Collector:
    """What was posted to it."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.resources: list[dict[str, Any]] = []
        self.spans: list[Any] = []

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(values(group.resource))
            self.spans += [span for scope in group.scope_spans for span in scope.spans]

    @property
    def keys(self) -> list[Any]:
        return [span for span in self.spans if not span.parent_span_id]

    def below(self, key: Any) -> list[Any]:
        """Its stages, by when they begin."""
        found = [span for span in self.spans if span.parent_span_id == key.span_id]
        return sorted(found, key=lambda span: span.start_time_unix_nano)


def values(of: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    """A real receiver, and its address."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            found.take(gzip.decompress(body) if zipped else body)
            assert self.path == "/v1/traces"
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield found, f"http://127.0.0.1:{server.server_port}/v1/traces"
        server.shutdown()
        thread.join()


def test_a_key_is_one_span_and_its_stages_are_below_it(collector: tuple[Collector, str]) -> None:
    found, address = collector
    out = Exporter(address, DAEMON)
    out.put(1, full(outcome=""))
    out.put(1, full(text_us=30_100, drawn_us=700))
    out.tick()
    assert not found.spans, "its client may still tell its part"
    out.tick(settled_s=0.0)
    (key,) = found.keys
    assert found.resources[0]["service.name"] == "completiond"
    facts = values(key)
    assert facts["completiond.outcome"] == "shown" and facts["completiond.wrote"] == 6
    assert (facts["completiond.drafted.suffix"], facts["completiond.held.suffix"]) == (12, 5)
    stages = found.below(key)
    assert [one.name for one in stages] == "before there lookup prefill decode back".split()
    assert stages[0].start_time_unix_nano == key.start_time_unix_nano
    assert stages[-1].end_time_unix_nano == key.end_time_unix_nano
    for one, two in zip(stages, stages[1:], strict=False):
        assert one.end_time_unix_nano == two.start_time_unix_nano
    assert key.end_time_unix_nano - key.start_time_unix_nano == 90_850_000
    assert stages[-1].start_time_unix_nano == full().key.at_ms * 1_000_000, "the reply"
    first, drawn = key.events
    assert first.time_unix_nano == stages[2].start_time_unix_nano + 30_100_000
    assert drawn.time_unix_nano == key.end_time_unix_nano + 700_000
    out.put(1, full(outcome="accepted"))
    out.put(2, full(kind="warm"))
    out.tick(settled_s=0.0)
    assert len(found.keys) == 1, "a key is told once, and what was computed in a pause is none"


def test_neither_text_nor_a_path_is_told(collector: tuple[Collector, str]) -> None:
    found, address = collector
    out = Exporter(address, DAEMON)
    said = Said(0, "file:///hidden.py", 0, "hidden", "hidden", ("hidden",))
    strip = (Pass(1, (), (Spelled("hidden", "", True),)),)
    state = full(path="hidden.py", why="failed", details={"message": "hidden"})
    out.put(1, state._replace(passes=strip, text=said))
    out.tick(settled_s=0.0)
    assert found.keys[0].status.code == 2 and b"hidden" not in b"".join(found.bodies)


def test_a_collector_that_is_away_is_said_once_and_costs_only_spans(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(otel, "SEND_S", 0.2)
    with socket.socket() as free:  # bound, and nobody listens
        free.bind(("127.0.0.1", 0))
        out = Exporter(f"http://127.0.0.1:{free.getsockname()[1]}/v1/traces", DAEMON)
        with caplog.at_level(logging.WARNING):
            for number in (1, 2):
                out.put(number, full())
                out.tick(settled_s=0.0)
    assert [record.name for record in caplog.records] == ["completiond.record.otel"]
    assert out.lost == 2 and "takes no spans" in caplog.text


def test_a_library_that_raises_costs_its_spans_and_not_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = Exporter("http://127.0.0.1:9/v1/traces", DAEMON)

    def fails(_: Any) -> None:
        raise RuntimeError("too many redirects")

    monkeypatch.setattr(out._out, "export", fails)
    out.put(1, full())
    out.tick(settled_s=0.0)
    assert out.lost == 1


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "MOST_WAITING", 3)
    out = Exporter("http://127.0.0.1:9/v1/traces", DAEMON)
    for number in range(1, 6):
        out.put(number, full())
    assert (len(out._waiting), out.lost) == (3, 2)


def test_an_address_that_is_none_is_refused_and_so_is_one_without_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert config.Config().record.otlp == "", "off unless it is asked for"
    with pytest.raises(ConfigError, match="address of a collector"):
        config.load({"record.otlp": "localhost:4318"}, environ={})
    options.need_otel()

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(options.importlib.util, "find_spec", missing)
    with pytest.raises(CompletiondError, match=r"completiond\[otel\]"):
        options.need_otel()


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_a_daemon_tells_a_collector_of_each_key_of_an_editor(
    collector: tuple[Collector, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found, address = collector
    monkeypatch.setenv("COMPLETIOND_RECORD_OTLP", address)

    async def typing() -> None:
        async with Editor(endpoint=default_endpoint(), name="vim") as editor:
            editor.open("def f():\n    ")
            for column, char in enumerate(TYPED, 4):
                editor.edit(column, (1, column), (1, column), char)
                await editor.reply(editor.complete(1, column + 1))

    with daemon("--record-text"):
        asyncio.run(typing())
        give_up = time.monotonic() + 20
        while len(found.keys) < len(TYPED) and time.monotonic() < give_up:
            time.sleep(0.05)
    facts = [values(key) for key in found.keys]
    assert len(facts) == len(TYPED)
    assert {one["completiond.kind"] for one in facts} >= {"typed", "model"}
    for key, told in zip(found.keys, facts, strict=True):
        assert told["completiond.editor"] == "vim" and told["completiond.language"] == "python"
        assert found.below(key), "every key has a stage"
    ran = next(key for key in found.keys if values(key)["completiond.kind"] == "model")
    assert len(found.below(ran)) == 11
    assert not any(word in body for body in found.bodies for word in (b"items", b"def f", b"a.py"))
