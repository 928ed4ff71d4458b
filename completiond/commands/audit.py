"""`completiond audit`: is the answer the model's own, with every drafter, on this machine?"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from completiond.commands import options
from completiond.commands.bench import load
from completiond.commands.counted import Counted
from completiond.commands.serve import device_line
from completiond.commands.terminal import facts, out, say
from completiond.core import GREEDY, Sampling
from completiond.measure.spots import Spot, spots_in

if TYPE_CHECKING:
    from completiond.measure.lab import Lab
    from completiond.measure.lossless import Audit
    from completiond.measure.rejection import Fit


def audit(
    more: options.MoreFiles = None,
    files: options.Files = None,
    model: options.Model = None,
    draft: options.Draft = None,
    prompts: Annotated[
        int, typer.Option("--prompts", "-n", metavar="N", help="Places in the code to complete.")
    ] = 12,
    tokens: options.Tokens = 48,
    buffers: Annotated[
        int, typer.Option(metavar="N", min=1, max=16, help="Buffers that are asked at once.")
    ] = 4,
    temperature: Annotated[
        float, typer.Option(metavar="T", min=0.05, max=2.0, help="Of the drawn answers.")
    ] = 0.8,
    trials: Annotated[
        int, typer.Option(metavar="N", min=200, max=1_000_000, help="Of each rejection sampler.")
    ] = 2000,
    seed: options.Seed = 0,
    as_json: options.EndingJson = False,
    gpu: options.Gpu = None,
    cpu: options.Cpu = False,
    threads: options.Threads = None,
    speculation: options.Speculation = None,
    config: options.ConfigFile = None,
) -> None:
    """Prove on this machine that drafts change no answer: exit code 0 if all are equal.

    Greedy and drawn answers with every drafter, alone and with several buffers at once, against
    plain decoding, token by token; then the rejection samplers against the model's probabilities.
    Works offline; Ctrl-C says what was found so far.
    """
    settings = options.settings(
        config,
        model__name=model,
        model__draft=draft,
        engine__device=options.device(gpu, cpu),
        engine__threads=threads,
        engine__speculation=speculation or "auto",
    )
    chosen = spots_in([*(files or ()), *(more or ())], prompts, seed)
    lab = load(settings, "`completiond audit`")
    from completiond.measure.lossless import Audit

    found, samplers = Audit(lab, buffers), list[Any]()
    whole = _run(lab, found, samplers, chosen, (tokens, temperature, trials))
    sound = _show(lab, found, samplers)
    if as_json:
        typer.echo(json.dumps({"bench": "audit", "whole": whole} | _result(lab, found, samplers)))
    if not whole:
        raise KeyboardInterrupt
    if not sound:
        raise typer.Exit(1)


def _run(
    lab: "Lab",
    found: "Audit",
    samplers: list["Fit"],
    chosen: Sequence[Spot],
    sizes: tuple[int, float, int],
) -> bool:
    """Fill `found` and `samplers`; False if Ctrl-C ended it."""
    from completiond.measure import rejection

    tokens, temperature, trials = sizes
    try:
        with Counted(len(chosen), "Comparing answers") as tick:
            for number, spot in enumerate(chosen):
                question = lab.question(spot, tokens)
                for sampling in (GREEDY, Sampling(temperature=temperature, seed=1)):
                    found.compare(number, question, sampling)
                tick()
        say(f"Counting what the rejection samplers draw, {trials} times each …")
        question, truth = found.example()
        case = rejection.hardest(lab, question, truth)
        samplers += rejection.fits(case, trials)
        engine = rejection.engine_fit(lab, question, trials)
        samplers += [engine] if engine else []
    except KeyboardInterrupt:
        say("Stopped; this is what was found so far.")
        return False
    return True


def _show(lab: "Lab", found: "Audit", samplers: Sequence["Fit"]) -> bool:
    """Tables, then the verdict in plain words; whether all is as it should be."""
    from completiond.measure.lossless import sentences

    info = lab.info
    facts([("model", info["model"]), ("draft", info["draft"]), ("device", device_line(info))])
    checks = list(found.checks.values())
    if checks:
        out.print(_table(checks))
    for place in [part for check in checks for part in check.divergences]:
        say(
            f"{place.check}: spot {place.spot + 1} parts at token {place.at + 1}; the best two "
            f"were {place.gap:.3g} apart, the two taken {place.between:.3g}."
        )
    for sentence in [*sentences(checks), *sampler_sentences(samplers)]:
        out.print(Text(sentence))
    sound = all(part.rounding for check in checks for part in check.divergences)
    return sound and all(fit.holds for fit in samplers)


def _table(checks: Sequence[Any]) -> Table:
    table = Table("check", box=None, header_style="bold")
    for name in ("answers", "equal", "tokens", "drafted", "accepted"):
        table.add_column(name, justify="right")
    for check in checks:
        equal = check.answers - len(check.divergences)
        counts = (check.answers, equal, check.tokens, check.drafted, check.accepted)
        table.add_row(check.name, *map(str, counts))
    return table


def sampler_sentences(samplers: Sequence["Fit"]) -> list[str]:
    """Each sampler's chi-square, in plain words."""
    return [f"Rejection sampling, {fit.name}: {_verdict(fit)}" for fit in samplers]


def _verdict(fit: "Fit") -> str:
    counted = f"{fit.trials} draws, p = {fit.p_value:.2g}"
    if fit.wanted:
        good = f"has the target's law ({counted})."
        return good if fit.holds else f"does NOT have the target's law ({counted}); report this."
    good = f"is caught, as it must be ({counted})."
    return good if fit.holds else f"is not caught ({counted}): give more --trials."


def _result(lab: "Lab", found: "Audit", samplers: Sequence["Fit"]) -> dict[str, Any]:
    named = {key: lab.info[key] for key in ("model", "draft", "device", "kernel")}
    return named | {
        "checks": {name: check.as_json() for name, check in found.checks.items()},
        "samplers": {
            fit.name: {"trials": fit.trials, "p_value": fit.p_value, "as_it_should": fit.holds}
            for fit in samplers
        },
    }
