"""bench.py cancel: from an abandonment to a device that is free of the run, through a real daemon.

Each trial asks, waits a random while, cancels, and takes the time to the acknowledgement as the
client sees it. First one client in the prefill of a long prompt, then several clients at once,
some of whose requests are cancelled while they still wait in the queue.
"""

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import Any

from replay_daemon import daemon

from completiond.client import Client
from completiond.errors import NoDaemon
from completiond.protocol import messages as m

REPOSITORY = Path(__file__).resolve().parent.parent
PREFILL_TOKENS = 2000


def add_cancel(commands: Any) -> None:
    parser = commands.add_parser("cancel", help="from a cancel to a free device, by a daemon")
    parser.add_argument("--model", default="qwen2.5-coder-0.5b")
    parser.add_argument("--trials", type=int, default=100, help="of each kind")
    parser.add_argument("--clients", type=int, default=8)
    parser.set_defaults(run=cancel, name="cancel")


def cancel(arguments: Any) -> dict[str, Any]:
    settings = {"completion.prefix_tokens": PREFILL_TOKENS, "model.context": 4096}
    with daemon(arguments.model, settings) as running:
        return asyncio.run(_measure(running.endpoint, arguments))


async def _measure(endpoint: str, arguments: Any) -> dict[str, Any]:
    rng = random.Random(0)
    async with Client(endpoint) as client:
        await _ready(client)
        prefill = [await _trial(client, rng, n, True) for n in range(arguments.trials)]
        before = (await client.status(5)).engine
    share = arguments.trials // arguments.clients + 1
    jobs = [_busy_client(endpoint, seed, share) for seed in range(arguments.clients)]
    crowd = [trial for trials in await asyncio.gather(*jobs) for trial in trials]
    async with Client(endpoint) as client:
        engine = (await client.status(5)).engine
    return {
        "model": arguments.model,
        "prefill": _figures(prefill),
        "crowd": _figures(crowd),
        "passes": engine["passes"] - before["passes"],
        "longest_pass_ms": engine["longest_pass_ms"],
        "pass_rows": engine["pass_rows"],
    }


async def _busy_client(endpoint: str, seed: int, trials: int) -> list[tuple[m.Cancelled, float]]:
    rng = random.Random(seed + 1)
    async with Client(endpoint) as client:
        return [await _trial(client, rng, seed * 1000 + n, n % 2 == 0) for n in range(trials)]


async def _trial(
    client: Client, rng: random.Random, number: int, prefill: bool
) -> tuple[m.Cancelled, float]:
    """The acknowledgement, and the milliseconds until it came."""
    ident = client.next_id()
    text = _text(number if prefill else 0)
    request = m.Complete(ident, f"file{number % 3}.py", number, text, "\n\n\n", max_tokens=200)
    task = asyncio.create_task(client.complete(request, on_cancel=None))
    await asyncio.sleep(rng.uniform(0.005, 0.4))
    started = time.perf_counter()
    client.cancel(ident, "abandoned")
    answer = await client.cancelled(ident, 30)
    took = (time.perf_counter() - started) * 1000
    await task
    return answer, took


def _text(number: int) -> str:
    """Some 2,000 tokens of code that no other trial's prefix shares."""
    lines = [f"value_{number}_{i} = compute({i * 37 % 101}, {number})" for i in range(150)]
    return "\n".join(lines) + "\n"


async def _ready(client: Client) -> None:
    while True:
        try:
            if (await client.hello(5)).state == "ready":
                return
        except NoDaemon:
            pass
        await asyncio.sleep(0.1)


def _figures(trials: list[tuple[m.Cancelled, float]]) -> dict[str, Any]:
    ran = [took for answer, took in trials if answer.was == "running"]
    free = [answer.free_ms for answer, _ in trials if answer.was == "running"]
    queued = [answer.tokens_after for answer, _ in trials if answer.was == "queued"]
    return {
        "trials": len(trials),
        "running": len(ran),
        "ack_ms": {"p50": _at(ran, 0.5), "p99": _at(ran, 0.99), "max": _at(ran, 1)},
        "free_ms": {"p50": _at(free, 0.5), "p99": _at(free, 0.99)},
        "tokens_after": round(
            statistics.mean([a.tokens_after for a, _ in trials if a.was == "running"] or [0]), 1
        ),
        "queued": len(queued),
        "queued_tokens": sum(queued),
    }


def _at(values: list[float], share: float) -> float:
    ordered = sorted(values) or [0.0]
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)
