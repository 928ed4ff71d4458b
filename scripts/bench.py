#!/usr/bin/env python
"""Measurements, one function per subcommand. The last line of each is one JSON object.

wire    the daemon without a model: round trips, requests a second, memory over many requests
cancel  from a cancel to a device that is free
pass    milliseconds of a pass by rows, start and memory, beside transformers and llama.cpp
gguf    fetch a model's GGUF file, for llama.cpp
decode  plain decoding against transformers' generate, in turns
draft   microseconds a step and bytes of each model-free drafter
simulate  tokens a pass of model-free drafts on human text, without a model
context what gathering context costs, at many files and open buffers
record  the record at a million keys: its size, its questions, what recording a key costs
quality a kernel's answers against another kernel's: agreement, exact matches, divergence
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import bench_cancel
import bench_context
import bench_decode
import bench_draft
import bench_pass
import bench_quality
import bench_record
import bench_simulate
import zmq
from bench_process import anonymous_mib, child_of, cpu_s

from completiond.footprint import LARGE_PAGES, map_blocks_apart
from completiond.protocol import codec
from completiond.protocol import messages as m


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True)
    add_wire(commands)
    bench_cancel.add_cancel(commands)
    bench_pass.add_pass(commands)
    bench_pass.add_gguf(commands)
    bench_decode.add_decode(commands)
    bench_draft.add_draft(commands)
    bench_simulate.add_simulate(commands)
    bench_context.add_context(commands)
    bench_quality.add_quality(commands)
    bench_record.add_record(commands)
    arguments = parser.parse_args()
    if arguments.name not in ("context", "record"):  # computed here as in the engine's process
        if LARGE_PAGES.items() - os.environ.items():
            os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | LARGE_PAGES)
        map_blocks_apart()
    result = arguments.run(arguments)
    print(json.dumps({"bench": arguments.name} | result))


# -- wire -----------------------------------------------------------------------------------------

SCRIPT = {"answers": ["value = 1"], "tokens_per_pass": 64, "prefill_tokens_per_pass": 1 << 20}
"""Two passes a request; the widest passes, so that the engine is not what is measured."""
SERVE = """
import sys
from completiond import config, serving
from completiond.engine.desk import Start
from completiond.engine.door import ProcessEngine
settings = config.load({"serve.endpoint": sys.argv[1], "record.enabled": False}, environ={})
spec = Start("scripted", script=%r)
tell = lambda ready: print(ready.endpoint, flush=True)
serving.run(settings, engine=ProcessEngine(spec), on_ready=tell)
"""


def add_wire(commands: Any) -> None:
    parser = commands.add_parser("wire", help="the daemon without a model")
    parser.add_argument("--requests", type=int, default=200_000, help="for the memory, in all")
    parser.add_argument("--trips", type=int, default=5_000, help="round trips of one client")
    parser.add_argument("--clients", type=int, default=8, help="DEALER sockets of one process")
    parser.add_argument("--before", type=int, default=4096, help="characters before the cursor")
    parser.add_argument("--after", type=int, default=1024, help="characters after the cursor")
    parser.set_defaults(run=wire, name="wire")


def wire(arguments: argparse.Namespace) -> dict[str, Any]:
    """One client alone; several flat out, each with one request at a time; memory before, after."""
    texts = Texts.make(arguments.before, arguments.after)
    with scripted_daemon() as daemon:
        clients = [Client(daemon.endpoint, texts, i) for i in range(arguments.clients)]
        flat_out(clients, 2_000)  # warm: allocators and caches have their size
        before = daemon.memory()
        alone = quantiles(flat_out(clients[:1], arguments.trips)[1])
        report(f"1 client: median {alone['median_ms']} ms, p99 {alone['p99_ms']} ms")
        spent = daemon.cpu_s()
        seconds, times = flat_out(clients, arguments.requests)
        after, spent = daemon.memory(), {k: v - spent[k] for k, v in daemon.cpu_s().items()}
        together = quantiles(times) | {"per_s": round(arguments.requests / seconds)}
        report(f"{len(clients)} clients: {together}")
        report(f"memory MiB before {before}, after {after}")
        for client in clients:
            client.close()
    return {
        "characters": [arguments.before, arguments.after],
        "one_client": alone,
        "clients": f"{arguments.clients} DEALER sockets in one process",
        "many_clients": together,
        "requests": arguments.requests,
        "cpu_us_per_request": {k: round(v / arguments.requests * 1e6) for k, v in spent.items()},
        "rss_anon_mib_before": before,
        "rss_anon_mib_after": after,
    }


class Texts(NamedTuple):
    """A buffer of code-like text around the cursor."""

    before: str
    after: str

    @classmethod
    def make(cls, before: int, after: int) -> "Texts":
        chance = random.Random(1)
        words = ["self", "value", "return", "def", "for", "in", "if", "(x)", "[i]", "=", "+", "1"]
        lines = [" ".join(chance.choices(words, k=8)) for _ in range((before + after) // 16)]
        text = "\n    ".join(lines)
        return cls(text[:before], text[before : before + after])


class Client:
    """A DEALER that has one request on its way, as an editor with one buffer has."""

    def __init__(self, endpoint: str, texts: Texts, number: int) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(endpoint)
        self._texts, self._document = texts, f"{number}.py"
        self._asked = 0
        self._sent = 0.0

    def ask(self) -> None:
        """The next key: the line grows by one character, then another line is begun.

        No earlier answer fits a line of another number, nor does any say what is typed next, so
        that each request reaches the engine.
        """
        self._asked += 1
        typed = f"\n    line_{self._asked // 10}_" + "qwxzjkvyqw"[: self._asked % 10]
        request = m.Complete(
            self._asked, self._document, self._asked, self._texts.before + typed, self._texts.after
        )
        payload = codec.encode(request)
        self._sent = time.perf_counter()
        self.socket.send(payload)

    def answered(self) -> float:
        """Read the reply; seconds since it was asked for."""
        payload = self.socket.recv()
        took = time.perf_counter() - self._sent
        reply = codec.decode_from_daemon(payload)
        if not isinstance(reply, m.Completion) or reply.id != self._asked:
            raise SystemExit(f"asked {self._asked}, got {reply}")
        return took

    def close(self) -> None:
        self.socket.close()


def flat_out(clients: list[Client], requests: int) -> tuple[float, list[float]]:
    """Every client asks again as soon as it is answered; seconds in all, and of each request."""
    poller = zmq.Poller()
    by_socket = {client.socket: client for client in clients}
    for socket in by_socket:
        poller.register(socket, zmq.POLLIN)
    started = time.perf_counter()
    left = requests
    times: list[float] = []
    for client in clients:
        client.ask()
        left -= 1
    while len(times) < requests:
        for socket, _ in poller.poll():
            times.append(by_socket[socket].answered())
            if left > 0:
                by_socket[socket].ask()
                left -= 1
    return time.perf_counter() - started, times


class Daemon(NamedTuple):
    """A daemon of ours and where to ask it."""

    pid: int
    endpoint: str

    def memory(self) -> dict[str, float]:
        """Anonymous memory, MiB, swap included, of the front and of its engine process."""
        return {"front": anonymous_mib(self.pid), "engine": anonymous_mib(child_of(self.pid))}

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far; unlike the rates, it is the same on a busy machine."""
        return {"front": cpu_s(self.pid), "engine": cpu_s(child_of(self.pid)), "clients": cpu_s()}


@contextmanager
def scripted_daemon() -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as directory:
        endpoint = f"ipc://{directory}/d.sock"
        command = [sys.executable, "-c", SERVE % SCRIPT, endpoint]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield Daemon(process.pid, process.stdout.readline().strip())
            finally:
                process.terminate()


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "median_ms": round(statistics.median(ordered) * 1e3, 3),
        "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1e3, 3),
    }


def report(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
