"""Linear layers for a processor: int8 with per-row activations, bf16, fp32.

Per-channel int8 weights; each row of the input is divided by its own largest magnitude, so that a
row's result does not depend on what else is in the pass: int8 products accumulate exactly in int32.
Before that, row and weight are turned alike by small Hadamard matrices, which leaves the product as
it was and spreads outliers (QuaRot, Ashkboos et al. 2024, arXiv:2404.00456, by blocks). Knows
torch's quantized kernels; knows no model.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from completiond.model import processor

Kernel = Literal["int8", "bf16", "fp32"]
KERNELS: tuple[Kernel, ...] = ("int8", "bf16", "fp32")


class Product(Protocol):
    """A linear layer without bias, packed."""

    def __call__(self, x: Tensor, by: Tensor | None = None, add: Tensor | None = None) -> Tensor:
        """x [N, in] float → x · weightᵀ [N, out] float, each row times its `by` [N, 1], plus `add`
        [N, out] or [out]."""


Packer = Callable[[Tensor], Product]
"""Makes a product of a weight [out, in]."""
BLOCK = 1 << 18
"""Weights that are quantized at a time."""
TINY = 1e-12
"""Stands in for the magnitude of a row of zeros."""
SPREAD = 16
"""Channels that share an outlier: more keep little more and cost a wide pass more."""


def kv_dtype(kernel: Kernel) -> torch.dtype:
    """What keys and values are stored in: bf16 where the processor multiplies it, else float32."""
    halves = kernel != "fp32" and processor.detect().halves
    return torch.bfloat16 if halves else torch.float32


def hadamard(size: int) -> Tensor:
    """[size, size], symmetric, its own inverse: entries of ±size^-½; `size` is a power of two."""
    matrix = torch.ones(1, 1)
    while len(matrix) < size:
        matrix = torch.cat([torch.cat([matrix, matrix]), torch.cat([matrix, -matrix])], 1)
    return matrix.div_(size**0.5)


_TURN = hadamard(SPREAD)


def turned(x: Tensor) -> Tensor:
    """[N, in] with each SPREAD channels turned; as it is where they do not go into `in`."""
    if x.shape[1] % SPREAD:
        return x
    return (x.reshape(-1, SPREAD) @ _TURN).view(x.shape)


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """[out, in] → int8 values [out, in] and scales [out] double: values · scale ≈ turned(weight).

    In blocks, all of them in the same two buffers: what is allocated anew is cleared page by page.
    """
    values = torch.empty(weight.shape, dtype=torch.int8)
    scales = torch.empty(len(weight), dtype=torch.float64)
    step, width = max(1, BLOCK // weight.shape[1]), weight.shape[1]
    first, second = torch.empty(2, step, width)
    for start in range(0, len(weight), step):
        part = weight[start : start + step]
        block, other = first[: len(part)], second[: len(part)]
        block.copy_(part)
        if not width % SPREAD:
            torch.mm(block.view(-1, SPREAD), _TURN, out=other.view(-1, SPREAD))
            block, other = other, block
        size = torch.abs(block, out=other).amax(1).div_(127).clamp_min_(TINY)
        values[start : start + step] = block.div_(size[:, None]).round_()
        scales[start : start + step] = size
    return values, scales


class FbgemmInt8:
    """A weight [out, in] for fbgemm's int8 product, which quantizes the rows itself."""

    def __init__(self, weight: Tensor) -> None:
        values, scales = quantize_rows(weight)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch: quantized tensors will go one day
            quantized = torch._make_per_channel_quantized_tensor(values, scales, zeros, 0)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._most = largest_activation()

    def __call__(self, x: Tensor, by: Tensor | None = None, add: Tensor | None = None) -> Tensor:
        """[N, in] float → [N, out] float, each row on its own."""
        x = turned(x)
        size = _magnitudes(x)
        product: Tensor = _FBGEMM(x / size, 1 / self._most, self._most + 1, self._packed)
        return _scaled(product, size if by is None else size.mul_(by), add)


class OnednnInt8:
    """The same for onednn's int8 product: dearer at one row, cheaper at many or wide ones."""

    def __init__(self, weight: Tensor) -> None:
        values, scales = quantize_rows(weight)
        self._most = largest_activation()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch: quantized tensors will go one day
            torch.quantize_per_tensor(torch.zeros(1), 1.0, 0, torch.quint8)  # it warns once
        self._packed = torch.ops.onednn.qlinear_prepack(values, None)
        # fbgemm's order of factors, so that both give the same bits.
        self._scales = scales.float() * torch.tensor(1 / self._most)
        self._zeros = torch.zeros(len(scales), dtype=torch.int32)

    def __call__(self, x: Tensor, by: Tensor | None = None, add: Tensor | None = None) -> Tensor:
        """[N, in] float → [N, out] float, each row on its own."""
        x = turned(x)
        size, zero = _magnitudes(x), self._most + 1
        rows = torch.quantize_per_tensor(x / size, 1 / self._most, zero, torch.quint8).int_repr()
        product: Tensor = _ONEDNN(
            rows, 1.0, zero, self._packed, self._scales, self._zeros, *_NOTHING_ELSE
        )
        return _scaled(product, size if by is None else size.mul_(by), add)


_FBGEMM = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default
_ONEDNN = torch.ops.onednn.qlinear_pointwise.default
_NOTHING_ELSE: tuple[Any, ...] = (None, 1.0, 0, torch.float32, "none", [], "")


def _scaled(product: Tensor, size: Tensor, add: Tensor | None) -> Tensor:
    return product.mul_(size) if add is None else torch.addcmul(add, product, size)


def _magnitudes(x: Tensor) -> Tensor:
    return x.abs().amax(-1, keepdim=True).clamp_min_(TINY)


def largest_activation() -> int:
    """The largest value that an activation is rounded to."""
    # Without VNNI two products are added in 16 bits: eight bits of activation overflow there.
    return 127 if processor.detect().vnni else 63


class PlainProduct:
    """A weight in a floating type, for torch's own product."""

    def __init__(self, weight: Tensor, dtype: torch.dtype) -> None:
        self._weight = weight.to(dtype, copy=True)

    def __call__(self, x: Tensor, by: Tensor | None = None, add: Tensor | None = None) -> Tensor:
        scaled = x if by is None else x * by
        y = linear(scaled.to(self._weight.dtype), self._weight).float()
        return y if add is None else y.add_(add)


def packer(kernel: Kernel) -> Packer:
    """Packs weights for `kernel`."""
    if kernel == "int8":
        return FbgemmInt8
    dtype = torch.bfloat16 if kernel == "bf16" else torch.float32
    return lambda weight: PlainProduct(weight, dtype)


class PackedLinear(nn.Module):
    """Takes the place of an nn.Linear; float32 in and out."""

    def __init__(self, weight: Tensor, bias: Tensor | None, kernel: Kernel) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self._multiply = packer(kernel)(weight)
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


@contextmanager
def one_thread() -> Iterator[None]:
    """While weights are packed one by one: threads would only wait for one another."""
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


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
