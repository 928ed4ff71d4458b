"""Which kernel the linear layers get on a processor: what measures best, remembered.

Measured at the first start of a model of some size, on a layer of its shape. Knows kernels and
times; no models.
"""

import time

import torch

from completiond.model import processor
from completiond.model.measured import Measured
from completiond.model.quantize import KERNELS, Kernel, Product, product

ROWS = (1, 8)
"""Rows of the passes that decide: a plain token, and a verified draft."""
COLD_BYTES = 48 << 20
"""Weights that are read in turn, so that they come from memory as a model's do."""
ROUNDS = 3
COARSE = 1.5
"""Without VNNI int8 has seven bits for an activation: it must be so many times faster."""


def choose(wanted: str, out: int, inputs: int) -> Kernel:
    """The kernel that was asked for, or the one that is best for layers [out, inputs] here."""
    for kernel in KERNELS:
        if wanted == kernel:
            return kernel
    known, shape = Measured("kernels"), f"{out} x {inputs}"
    times = known.get(shape)
    if set(times) != set(KERNELS):
        times = {kernel: round(_milliseconds(kernel, out, inputs), 3) for kernel in KERNELS}
        known.put(shape, times)
    return best(times, vnni=processor.detect().vnni)


def best(times: dict[str, float], *, vnni: bool) -> Kernel:
    """The fastest of `times` (milliseconds by kernel), unless it gives up exactness for little."""
    cost = dict(times)
    if not vnni:
        cost["int8"] *= COARSE
    return min(KERNELS, key=lambda kernel: cost[kernel])


def _milliseconds(kernel: Kernel, out: int, inputs: int) -> float:
    """One layer at each of ROWS, in all; the best of some rounds."""
    weight = torch.rand(out, inputs, dtype=torch.bfloat16).sub_(0.5)
    size = weight.numel() * {"int8": 1, "bf16": 2, "fp32": 4}[kernel]
    layers = [product(weight, kernel) for _ in range(max(1, COLD_BYTES // size))]
    return sum(min(_round(layers, rows, inputs) for _ in range(ROUNDS)) for rows in ROWS)


def _round(layers: list[Product], rows: int, inputs: int) -> float:
    x = torch.ones(rows, inputs)
    started = time.perf_counter()
    for layer in layers:
        layer(x)
    return (time.perf_counter() - started) * 1000 / len(layers)
