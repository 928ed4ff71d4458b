"""The peer of bench.py decode: a llama-server for each of its ways to speculate, same prompt ids.

All are started before anything is timed and idle while others compute. Its own clock is taken:
tokens behind the first over the time behind the prompt; passes are tokens that no draft gave.
"""

import os
from contextlib import ExitStack
from typing import Any

from bench_decode import Made, Run
from replay_llama_server import Server, server

FLAGS = ("-c", "8192", "-b", "1024", "-ub", "1024", "-np", "1")
SETTINGS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "ngram-simple": ("--spec-type", "ngram-simple"),
    "ngram-simple-4": (
        *("--spec-type", "ngram-simple"),
        *("--spec-ngram-simple-size-n", "4", "--spec-ngram-simple-size-m", "16"),
    ),
    "ngram-map-k-4": (
        *("--spec-type", "ngram-map-k"),
        *("--spec-ngram-map-k-size-n", "4", "--spec-ngram-map-k-size-m", "16"),
    ),
    "ngram-mod": ("--spec-type", "ngram-mod"),
    "ngram-mod-8": (
        *("--spec-type", "ngram-mod", "--spec-ngram-mod-n-match", "8"),
        *("--spec-ngram-mod-n-min", "4", "--spec-ngram-mod-n-max", "16"),
    ),
    "ngram-cache": ("--spec-type", "ngram-cache"),
}
"""As they come, and with the short matches that code completion lives on."""


def llama_runs(arguments: Any, open_servers: ExitStack) -> dict[str, Run]:
    """A run by each setting that was asked for, `llama_…`; the servers end with `open_servers`."""
    settings = dict(SETTINGS)
    if arguments.draft_gguf:
        draft = ("--spec-type", "draft-simple", "-md", str(arguments.draft_gguf))
        settings["draft-4"] = (*draft, "--spec-draft-n-max", "4")
    wanted = arguments.llama.split(",") if arguments.llama else list(settings)
    threads = arguments.threads or len(os.sched_getaffinity(0))
    runs: dict[str, Run] = {}
    for name in wanted:
        flags = (*FLAGS, *settings[name])
        there = open_servers.enter_context(
            server(arguments.llama_bin, arguments.gguf, threads, flags)
        )
        runs[f"llama_{name}"] = _run(there, arguments.tokens)
    return runs


def _run(there: Server, tokens: int) -> Run:
    def run(item: Any) -> Made:
        reply = there.complete(item.context.ids, tokens)
        timings = reply["timings"]
        made, accepted = int(timings["predicted_n"]), int(timings.get("draft_n_accepted", 0))
        seconds = max(1e-9, float(timings["predicted_ms"]) / 1000)
        ids = [int(token) for token in reply.get("tokens", ())]
        drafted = int(timings.get("draft_n", 0))
        return Made(ids, (made - 1) / seconds, made - accepted, accepted, drafted)

    return run
