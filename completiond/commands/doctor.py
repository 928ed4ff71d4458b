"""`completiond doctor`: what this machine is, what was chosen for it, whether it works, advice."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rich.text import Text

from completiond.commands import options
from completiond.commands.daemon_client import connected
from completiond.commands.machine import gpus, memory, processor
from completiond.commands.models import installed_draft
from completiond.commands.serve import device_line, passes_line
from completiond.commands.terminal import facts, gigabytes, out, waiting
from completiond.config import Config, cache_dir
from completiond.errors import CompletiondError, NoDaemon
from completiond.protocol import messages as m

SAMPLE = (
    "def mean(values):\n    return sum(values) / len(values)\n\n\ndef variance(values):\n",
    "\n",
)
LIKELY = 0.8
"""Accepted share that a good draft rarely exceeds on code."""
KEYSTROKE_MS = 1000.0
"""An answer that takes longer comes after the person has typed on."""


def doctor(
    model: options.Model = None,
    draft: options.Draft = None,
    gpu: options.Gpu = None,
    cpu: options.Cpu = False,
    threads: options.Threads = None,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Look at the machine, load the model, time it, and say in plain words what to do."""
    settings = options.settings(
        config,
        model__name=model,
        model__draft=draft,
        engine__device=options.device(gpu, cpu),
        engine__threads=threads,
        serve__endpoint=endpoint,
        serve__insecure_loopback=insecure_loopback,
    )
    _machine(settings)
    options.need_extra("`completiond doctor`")
    advice = _model(settings)
    for sentence in advice or ["Nothing to advise: this works as it should."]:
        out.print(Text.assemble(("→ ", "bold green"), sentence))


def _machine(config: Config) -> None:
    free, total = memory()
    out.print("[bold]Machine[/]")
    facts(
        [
            ("processor", processor()),
            ("memory", f"{gigabytes(free)} available of {gigabytes(total)}" if total else ""),
            ("GPU", _gpus()),
            ("model cache", str(cache_dir())),
            ("daemon", asyncio.run(_daemon(config))),
        ]
    )


def _gpus() -> str:
    if not options.has_extra():
        return ""
    return "; ".join(gpus()) or "none that torch can use"


async def _daemon(config: Config) -> str:
    """Who answers at the endpoint, or why nobody does."""
    try:
        async with connected(config) as client:
            status: m.Status = await client.status(timeout=5.0)
    except NoDaemon:
        return "none runs (`completiond serve` starts one)"
    except CompletiondError as exc:
        return str(exc)
    return f"{status.model} is {status.state} at {client.endpoint}"


def _model(config: Config) -> list[str]:
    """Load, test and time the model; what to advise."""
    from completiond.commands.local_engine import LocalEngine
    from completiond.commands.self_test import known_fill, template_of
    from completiond.commands.start import start_of
    from completiond.model.checkpoint import ModelFiles

    start = start_of(config)
    template = template_of(config, ModelFiles.of(start.model))

    async def run() -> tuple[Mapping[str, Any], float, str, m.Completion]:
        started = time.monotonic()
        async with LocalEngine(config, start) as engine:
            loaded_s = time.monotonic() - started
            verdict = await known_fill(engine, template)
            return engine.info, loaded_s, verdict, await engine.fill(*SAMPLE, max_tokens=32)

    with waiting(f"Loading and timing {config.model.name}"):
        info, loaded_s, verdict, answer = asyncio.run(run())
    out.print("[bold]Model[/]")
    facts(
        [
            ("name", str(info["model"])),
            ("template", template or "none: the text before the cursor only"),
            ("device", device_line(info)),
            ("speculation", ", ".join(info["drafters"]) or "off"),
            ("loaded in", f"{loaded_s:.1f} s"),
            ("one pass", passes_line(info)),
            ("32 tokens", _timing(answer)),
            ("self-test", verdict),
        ]
    )
    return [*_pace(answer), *_draft(config, info)]


def _timing(answer: m.Completion) -> str:
    made, times = answer.tokens["generated"], answer.timings_ms
    rate = made / times["decode"] * 1e3 if times["decode"] else 0.0
    return f"{made} in {times['total']:.0f} ms; {rate:.0f} tokens/s after the prompt"


def _pace(answer: m.Completion) -> list[str]:
    if answer.timings_ms["total"] <= KEYSTROKE_MS:
        return []
    return [
        "Answers are slow here; a smaller model, fewer completion.max_tokens or a GPU would help."
    ]


def _draft(config: Config, info: Mapping[str, Any]) -> list[str]:
    """Whether a draft model that is installed can pay here, from what passes cost."""
    name = config.model.draft or installed_draft(config.model.name)
    if not name:
        return []
    with waiting(f"Timing {name} as a draft"):
        cost = _pass_ms(replace(config, model=replace(config.model, name=name, draft="")))
    return [draft_advice(name, cost["1"], {int(n): ms for n, ms in info["pass_ms"].items()})]


def draft_advice(name: str, draft_ms: float, target_ms: Mapping[int, float]) -> str:
    """One sentence. A draft token costs c target passes and widens the target's pass a little.

    So a token must be accepted more often than c + extra, or plain passes are cheaper.
    """
    (_, one), (rows, many) = sorted(target_ms.items())
    c = draft_ms / one
    extra = (many - one) / (rows - 1) / one
    needed = c + max(0.0, extra)
    price = f"a pass of {name} costs {c:.0%} of the target's"
    if needed >= LIKELY:
        return (
            f"A draft model does not pay here: {price}, so more than {needed:.0%} of its tokens "
            "would have to be right."
        )
    return (
        f"A draft model can pay here: {price}, so it wins if more than {needed:.0%} of its tokens "
        f"are right; try `completiond serve --draft {name}`."
    )


def _pass_ms(config: Config) -> dict[str, float]:
    from completiond.commands.local_engine import LocalEngine
    from completiond.commands.start import start_of

    start = start_of(config)

    async def run() -> dict[str, float]:
        async with LocalEngine(config, start) as engine:
            found: dict[str, float] = engine.info["pass_ms"]
            return found

    return asyncio.run(run())
