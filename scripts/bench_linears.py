#!/usr/bin/env python
"""Linear layers and attention's first product, by what torch ships, beside what a pass uses.

Interleaved rounds, the best of each: a machine that is busy slows what runs just then. Also says
whether a row's result is the same to the bit alone and among others, and the same as ours. Weights
take turns, so that none is in a cache. The last line is one JSON object. Needs torch alone.
"""

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from completiond.model.quantize import FbgemmInt8, quantize_rows

SHAPES = ((9728, 896), (896, 4864), (17920, 1536), (1536, 8960))
"""out × in: gate with up, and down, of the 0.5b and the 1.5b."""
ROWS = (1, 4, 8, 16, 32)
WIDE = (128, 256, 512)
"""Rows of a prefill."""
COLUMNS = 1024
HEADS = ((14, 2, 64), (12, 2, 128))
"""Query heads, key heads, width of a head."""
CALLS = 8
"""Per round, kind and number of rows."""
COLD = 96 << 20
"""Weights of a kind that take turns: as in a pass, none is still in a cache when it is read."""

Call = Callable[[Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", choices=["all", "linears", "attention"], default="all")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    found: dict[str, Any] = {"bench": "linears", "threads": arguments.threads}
    with torch.inference_mode():
        if arguments.part != "attention":
            for shape in SHAPES:
                found["x".join(map(str, shape))] = linears(*shape, arguments.rounds)
        if arguments.part != "linears":
            found["scores"] = {str(heads): scores(heads, arguments.rounds) for heads in HEADS}
    print(json.dumps(found))


# -- linears --------------------------------------------------------------------------------------


def linears(out: int, width: int, rounds: int) -> dict[str, Any]:
    weight = torch.randn(out, width) / width**0.5
    copies = 1 + COLD // weight.numel()
    calls = {name: [make(weight) for _ in range(copies)] for name, make in KINDS.items()}
    found: dict[str, Any] = {}
    few = torch.randn(5, width)
    ours = calls["ours fbgemm"][0](few)
    for name, (call, *_) in calls.items():
        same = torch.equal(call(few), ours)
        found[name] = {"row_exact": row_exact(call, width), "same_bits": same}
    for rows in ROWS + WIDE:
        x = torch.randn(rows, width)
        used = {n: c for n, c in calls.items() if rows <= 32 or n not in FEW_ROWS}
        for name, ms in best(used, x, rounds if rows <= 32 else 2).items():
            found[name][str(rows)] = ms
    print(f"{out} x {width}, ms by rows {ROWS + WIDE}")
    for name, by_rows in found.items():
        times = " ".join(f"{by_rows.get(str(r), float('nan')):8.3f}" for r in ROWS + WIDE)
        print(
            f"  {name:16} {times}  {'exact' if by_rows['row_exact'] else 'not exact'}"
            f"{', the same bits' if by_rows['same_bits'] else ''}"
        )
    return found


def best(calls: dict[str, list[Call]], x: Tensor, rounds: int) -> dict[str, float]:
    """Milliseconds, the least of all rounds; kinds take turns, and each kind's copies."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, copies in calls.items():
            for call in itertools.islice(itertools.cycle(copies), max(CALLS, len(copies))):
                started = time.perf_counter()
                call(x)
                least[name] = min(least[name], (time.perf_counter() - started) * 1000)
    return {name: round(ms, 4) for name, ms in least.items()}


def row_exact(call: Call, width: int) -> bool:
    """A row alone, and among neighbours of which one is much larger."""
    row = torch.randn(1, width)
    alone = call(row)[0]
    for rows in ROWS[1:]:
        x = torch.randn(rows, width)
        x[0] *= 30
        x[rows // 2] = row
        if not torch.equal(call(x)[rows // 2], alone):
            return False
    return True


def packed(engine: str) -> Callable[[Tensor], Call]:
    """The product of a pass, packed by one of torch's engines."""

    def make(weight: Tensor) -> Call:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = engine
        call = FbgemmInt8(weight)
        torch.backends.quantized.engine = before
        return call

    return make


def onednn(weight: Tensor) -> Call:
    """onednn's own operator on rows quantized beforehand, with all factors in fbgemm's order.

    Its answers are then fbgemm's to the bit, so that one may take wide passes, the other few rows.
    """
    values, scales = quantize_rows(weight)
    factors = scales.float() * torch.tensor(1 / 127)
    zeros = torch.zeros(len(scales), dtype=torch.int32)
    prepacked = torch.ops.onednn.qlinear_prepack(values, None)
    more = (None, 1.0, 0, torch.float32, "none", [], "")

    def call(x: Tensor) -> Tensor:
        size = x.abs().amax(-1, keepdim=True)
        q = torch.quantize_per_tensor(x / size, 1 / 127, 128, torch.quint8).int_repr()
        multiply = torch.ops.onednn.qlinear_pointwise
        y: Tensor = multiply(q, 1.0, 128, prepacked, factors, zeros, *more)
        return y.mul_(size)

    return call


def int_mm(weight: Tensor) -> Call:
    """torch._int_mm on rows quantized by hand; int32 out."""
    values, scales = quantize_rows(weight)
    turned, columns = values.t(), scales.float()

    def call(x: Tensor) -> Tensor:
        size = x.abs().amax(-1, keepdim=True).div_(127)
        product = torch._int_mm((x / size).round_().to(torch.int8), turned)
        return product.float().mul_(columns).mul_(size)

    return call


def half(weight: Tensor) -> Call:
    stored = weight.bfloat16()
    return lambda x: linear(x.bfloat16(), stored).float()


def half_packed(weight: Tensor) -> Call:
    """bf16 with the weight laid out for onednn beforehand."""
    stored = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), None)
    ops = torch.ops.mkldnn

    def call(x: Tensor) -> Tensor:
        y: Tensor = ops._linear_pointwise(x.bfloat16(), stored, None, "none", [], "")
        return y.float()

    return call


def int4(weight: Tensor) -> Call:
    """Weight-only, groups of 128; a uint8 holds two values of a symmetric int4."""
    out, width = weight.shape
    grouped = weight.view(out, -1, 128)
    scales = grouped.abs().amax(-1).div_(7)
    values = (grouped / scales[..., None]).round_().clamp_(-8, 7).add_(8)
    stored = torch.ops.aten._convert_weight_to_int4pack_for_cpu(
        values.view(out, width).to(torch.int32), 1
    )
    scaled = torch.stack([scales.t(), torch.zeros_like(scales.t())], -1).bfloat16().contiguous()
    multiply = torch.ops.aten._weight_int4pack_mm_for_cpu
    return lambda x: multiply(x.bfloat16(), stored, 128, scaled).float()


KINDS: dict[str, Callable[[Tensor], Call]] = {
    "ours fbgemm": packed("fbgemm"),
    "ours x86": packed("x86"),
    "onednn qlinear": onednn,
    "_int_mm": int_mm,
    "bf16": half,
    "bf16 packed": half_packed,
    "int4 weight only": int4,
}
FEW_ROWS = ("int4 weight only",)
"""Not timed in a prefill: it would take most of the run."""


# -- attention ------------------------------------------------------------------------------------


def scores(heads: tuple[int, int, int], rounds: int) -> dict[str, float]:
    """q·kᵀ of eight rows behind COLUMNS tokens, by the type of the keys."""
    queries, keys, width = heads
    q = torch.randn(keys, queries // keys * 8, width)
    k = torch.randn(keys, COLUMNS, width)
    q8, k8 = (to_int8(tensor) for tensor in (q, k))
    turned = [part.t() for part in k8]
    half_k = k.bfloat16()
    calls: dict[str, Call] = {
        "float32 bmm": lambda x: torch.bmm(x, k.transpose(1, 2)),
        "bf16 bmm": lambda x: torch.bmm(x.bfloat16(), half_k.transpose(1, 2)),
        "int8 _int_mm": lambda x: torch.stack(
            [torch._int_mm(a, b) for a, b in zip(q8, turned, strict=True)]
        ),
    }
    found = best({name: [call] for name, call in calls.items()}, q, 5 * rounds)
    print(f"q·kᵀ {heads}, 8 rows, {COLUMNS} columns, ms: {found}")
    return found


def to_int8(x: Tensor) -> Tensor:
    return (x / x.abs().amax(-1, keepdim=True) * 127).round().to(torch.int8)


if __name__ == "__main__":
    main()
