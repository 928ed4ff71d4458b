"""Linear layers for a processor: int8 with per-row activations, bf16, fp32.

Per-channel int8 weights; each row of the input is divided by its own largest magnitude, so that a
row's result does not depend on what else is in the pass: int8 products accumulate exactly in int32.
Knows torch's quantized kernels; knows no model.
"""

import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Kernel = Literal["int8", "bf16", "fp32"]
Product = Callable[[Tensor], Tensor]

BLOCK = 1 << 20
"""Weights that are quantized at a time."""
TINY = 1e-12
"""Stands in for the magnitude of a row of zeros."""


def choose_kernel(wanted: str) -> Kernel:
    """The kernel to use here: what was asked for, or int8 with VNNI, bf16 with AVX-512, fp32."""
    if wanted in ("int8", "bf16", "fp32"):
        return wanted  # type: ignore[return-value]
    if torch.cpu._is_vnni_supported():
        return "int8"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "fp32"


def quantize_rows(weight: Tensor, columns: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """[out, in] → int8 values [out, in] and scales [out] double, so that weight ≈ values · scale.

    With `columns` [in], of the weight with its columns multiplied by them.

    In blocks, so that the float copies stay small and their memory is used again.
    """
    values = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight), dtype=torch.float64)
    step = max(1, BLOCK // weight.shape[1])
    for start in range(0, len(weight), step):
        block = weight[start : start + step].to(torch.float32, copy=True)
        if columns is not None:
            block *= columns
        size = block.abs().amax(1).div_(127).clamp_min_(TINY)
        values[start : start + step] = block.div_(size[:, None]).round_()
        scales[start : start + step] = size
    return values, scales


class PackedInt8:
    """A weight [out, in] packed for int8 products, and how to multiply rows by it."""

    def __init__(self, weight: Tensor, columns: Tensor | None = None) -> None:
        values, scales = quantize_rows(weight, columns)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch: quantized tensors will go one day
            quantized = torch._make_per_channel_quantized_tensor(values, scales, zeros, 0)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)

    def __call__(self, x: Tensor) -> Tensor:
        """[N, in] float → [N, out] float, each row on its own."""
        size = x.abs().amax(-1, keepdim=True).clamp_min_(TINY)
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / size, 1 / 127, 128, self._packed
        )
        return product.mul_(size)


class GroupedInt8:
    """A weight whose columns are in groups with scales of their own, rows' and channels'.

    For inputs whose outliers sit in other columns each time: one costs only its own group.
    """

    def __init__(self, weight: Tensor, groups: int) -> None:
        self._parts = [PackedInt8(part.contiguous()) for part in weight.chunk(groups, 1)]

    def __call__(self, x: Tensor) -> Tensor:
        """[N, in] float → [N, out] float; the groups are added in their order."""
        first, *others = x.chunk(len(self._parts), 1)
        y = self._parts[0](first)
        for multiply, part in zip(self._parts[1:], others, strict=True):
            y += multiply(part)
        return y


def product(
    weight: Tensor, kernel: Kernel, columns: Tensor | None = None, *, groups: int = 1
) -> Product:
    """The weight [out, in], packed for `kernel`; for int8 with scales of columns, or in groups."""
    if kernel == "int8" and groups > 1 and weight.shape[1] % groups == 0:
        return GroupedInt8(weight, groups)
    if kernel == "int8":
        return PackedInt8(weight, columns)
    assert columns is None, "there is nothing to balance where nothing is quantized"
    if kernel == "bf16":
        half = weight.to(torch.bfloat16, copy=True)
        return lambda x: linear(x.bfloat16(), half).float()
    full = weight.to(torch.float32, copy=True)
    return lambda x: linear(x, full)


class PackedLinear(nn.Module):
    """Takes the place of an nn.Linear; float32 in and out."""

    def __init__(self, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self._multiply = product(weight, kernel)
        self.bias = None if bias is None else nn.Parameter(bias.float(), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self._multiply(x.reshape(-1, self.in_features).float())
        if self.bias is not None:
            y += self.bias
        return y.view(*x.shape[:-1], self.out_features)


class HalfEmbedding(nn.Module):
    """A bf16 table that answers in float32: half the memory, the same numbers.

    The lookup stays the library's, which may scale what it finds. The weight is copied, so that
    the mapped file it came from can be let go.
    """

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        weight = table.weight.detach().to(torch.bfloat16, copy=True)
        table.weight = nn.Parameter(weight, requires_grad=False)
        self._table = table

    @property
    def weight(self) -> Tensor:
        return self._table.weight

    def forward(self, ids: Tensor) -> Tensor:
        found: Tensor = self._table(ids)
        return found.float()


def replace_linears(module: nn.Module, kernel: Kernel) -> None:
    """Swap every linear layer and embedding below `module`, freeing each weight as it goes."""
    if kernel == "fp32":
        return
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            bias = None if child.bias is None else child.bias.detach()
            setattr(module, name, PackedLinear(child.weight.detach(), bias, kernel))
        elif isinstance(child, nn.Embedding) and child.weight.shape[0] > 4 * child.embedding_dim:
            setattr(module, name, HalfEmbedding(child))
        else:
            replace_linears(child, kernel)
