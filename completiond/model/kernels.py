"""Which kernel the linear layers get on a processor: what measures best, remembered.

Measured at the first start of a model of some size, on layers of its shapes, with the threads that
passes have. Knows kernels and times; no models.
"""

import statistics
import time
from collections.abc import Mapping, Sequence

import torch

from completiond.model import processor
from completiond.model.measured import Measured
from completiond.model.quantize import (
    KERNELS,
    FbgemmInt8,
    Kernel,
    OnednnInt8,
    Packer,
    Product,
    packer,
)

ROWS = (1, 8, 16)
"""Rows of the passes that decide: a plain token, verified drafts, a part of a prefill."""
COLD_BYTES = 48 << 20
"""Weights that are read in turn, so that they come from memory as a model's do."""
MOST = 32
"""Layers that are timed at most: small ones are never cold."""
ROUNDS = 5
SCATTER = 1.5
"""Times the best round that half of them may take for what was measured to be remembered."""
COARSE = 1.5
"""Without VNNI int8 has seven bits for an activation: it must be so many times faster."""
Shape = tuple[int, int]
"""[out, in] of a weight."""
Layers = list[tuple[Product, int]]
"""Products, and how many inputs each takes."""
WAYS: dict[str, Packer] = {
    "fbgemm": FbgemmInt8,
    "onednn": OnednnInt8,
}
"""Libraries for int8; both give the same bits, so that the faster one may be taken."""


def choose(wanted: str, out: int, inputs: int) -> Kernel:
    """The kernel that was asked for, or the one that is best for layers [out, inputs] here.

    What other programs disturbed is not believed: int8 then, which loses least anywhere.
    """
    for kernel in KERNELS:
        if wanted == kernel:
            return kernel
    ways: dict[str, Packer] = {kernel: packer(kernel) for kernel in KERNELS}
    times, calm = _times("kernels", [(out, inputs)], ways)
    return best(times, vnni=processor.detect().vnni) if calm else "int8"


def best(times: dict[str, float], *, vnni: bool) -> Kernel:
    """The fastest of `times` (milliseconds by kernel), unless it gives up exactness for little."""
    cost = dict(times)
    if not vnni:
        cost["int8"] *= COARSE
    return min(KERNELS, key=lambda kernel: cost[kernel])


def int8_packer(shapes: Sequence[Shape]) -> Packer:
    """Packs weights for the library that is faster here on layers of these shapes, one by one."""
    times, _ = _times("int8", shapes, WAYS)
    return WAYS[min(times, key=lambda way: times[way])]


def _times(
    what: str, shapes: Sequence[Shape], ways: Mapping[str, Packer]
) -> tuple[dict[str, float], bool]:
    """Milliseconds of each way for these layers, known or measured now, and whether in calm."""
    known, thing = Measured(what), ", ".join(f"{out} x {inputs}" for out, inputs in shapes)
    times, calm = known.get(thing), True
    if set(times) != set(ways):
        rounds = _in_turns({way: _layers(make, shapes) for way, make in ways.items()})
        times = {way: round(sum(map(min, spent)), 3) for way, spent in rounds.items()}
        if calm := _calm(rounds):
            known.put(thing, times)
    return times, calm


def _in_turns(ways: Mapping[str, Layers]) -> dict[str, list[list[float]]]:
    """For each way and each of ROWS the milliseconds of all rounds.

    All ways in each round: a moment in which other programs have the cores costs all alike.
    """
    found: dict[str, list[list[float]]] = {way: [[] for _ in ROWS] for way in ways}
    for at, rows in enumerate(ROWS):
        for _ in range(ROUNDS):
            for way, layers in ways.items():
                found[way][at].append(_round(layers, rows))
    return found


def _calm(rounds: Mapping[str, list[list[float]]]) -> bool:
    """Whether half of the rounds took about as long as the best: else it is measured again."""
    every = [spent for way in rounds.values() for spent in way]
    return all(statistics.median(spent) < SCATTER * min(spent) for spent in every)


def _layers(make: Packer, shapes: Sequence[Shape]) -> Layers:
    layers: Layers = []
    held = 0
    while held < COLD_BYTES and len(layers) < MOST:
        for out, inputs in shapes:
            weight = torch.rand(min(out, COLD_BYTES // inputs), inputs, dtype=torch.bfloat16)
            layers.append((make(weight.sub_(0.5)), inputs))
            held += weight.numel()
    return layers


def _round(layers: Layers, rows: int) -> float:
    given = {inputs: torch.ones(rows, inputs) for _, inputs in layers}
    started = time.perf_counter()
    for layer, inputs in layers:
        layer(given[inputs])
    return (time.perf_counter() - started) * 1000
