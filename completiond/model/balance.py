"""How much of a norm's outliers goes into the weights behind it, so that int8 keeps both well.

A row is quantized by its own largest channel, and a few channels are always large: divided by a
scale there, with the weight's column multiplied by it, they cost the other channels less. The
product stays what it was. The scales come from the weights and from a trial pass of a few ids:
no text is needed, for what is large is so for every text, and the first token most of all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import embedding, linear, rms_norm, scaled_dot_product_attention, silu

from completiond.model import processor

ROWS = 32
"""Ids of the trial pass; four see too little, sixty-four add nothing."""
COMMON = 4096
"""Ids below it are common tokens in every family."""
STRIDE = 16
"""Every so many rows of a weight are looked at for its columns' size."""
FLOOR = 1e-3
"""Of the mean: a channel that the trial pass does not see is not blown up without bound."""


class Reader(Protocol):
    """Tensors of a checkpoint by name."""

    def __call__(self, name: str, *shape: int) -> Tensor: ...
    def __contains__(self, name: str) -> bool: ...


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The numbers of a Llama-shaped model that every pass over it needs."""

    layers: int
    heads: int
    kv_heads: int
    width: int
    hidden: int
    feed: int
    vocab: int
    eps: float
    theta: float


def column_scales(seen: Tensor, weight: Tensor) -> Tensor:
    """seen [in], weight [out, in] → [in]: what a norm is divided by, and the columns multiplied.

    The square root of channel over column: outliers are shared evenly by activation and weight.
    """
    columns = weight[::STRIDE].float().abs().amax(0)
    channels = seen.clamp_min(FLOOR * float(seen.mean()))
    columns = columns.clamp_min(FLOOR * float(columns.mean()))
    ratio = (channels / columns).sqrt()
    usable = torch.isfinite(ratio) & (ratio > 0)
    if not bool(usable.all()):  # a norm or a weight of zeros: there is nothing to share
        return torch.ones_like(seen)
    return ratio / ratio.log().mean().exp()


class Trial:
    """A pass of ROWS ids over the weights as they are stored: no cache, no head, no window."""

    def __init__(self, read: Reader, shape: Dimensions) -> None:
        self._read, self._shape = read, shape
        halves = processor.detect().halves
        self._dtype = torch.bfloat16 if halves else torch.float32

    @torch.inference_mode()
    def magnitudes(self) -> Iterator[Tensor]:
        """[H] of each norm in the order of the pass: two of every layer, and the last one."""
        s = self._shape
        ids = (torch.arange(ROWS) * 7919 + 11) % min(s.vocab, COMMON)
        x = embedding(ids, self._read("model.embed_tokens.weight", s.vocab, s.hidden)).float()
        for name in (f"model.layers.{i}" for i in range(s.layers)):
            normed = self._normed(x, f"{name}.input_layernorm.weight")
            yield normed.abs().amax(0)
            x = x + self._attend(normed, f"{name}.self_attn")
            normed = self._normed(x, f"{name}.post_attention_layernorm.weight")
            yield normed.abs().amax(0)
            x = x + self._feed(normed, f"{name}.mlp")
        yield self._normed(x, "model.norm.weight").abs().amax(0)

    def _normed(self, x: Tensor, name: str) -> Tensor:
        weight = self._read(name, x.shape[1]).float()
        return rms_norm(x, weight.shape, weight, self._shape.eps)

    def _attend(self, x: Tensor, name: str) -> Tensor:
        s = self._shape
        q, k, v = (
            self._product(x, f"{name}.{part}_proj", heads * s.width)
            .view(ROWS, heads, s.width)
            .transpose(0, 1)
            for part, heads in (("q", s.heads), ("k", s.kv_heads), ("v", s.kv_heads))
        )
        q, k = self._turned(q)[None], self._turned(k)[None]
        mixed = scaled_dot_product_attention(q, k, v[None], is_causal=True, enable_gqa=True)
        mixed = mixed[0].transpose(0, 1).reshape(ROWS, s.heads * s.width)
        return self._product(mixed, f"{name}.o_proj", s.hidden)

    def _turned(self, x: Tensor) -> Tensor:
        """[heads, N, D] turned by position; the two halves of D are the pairs' parts."""
        powers = torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]
        angles = torch.arange(ROWS)[:, None] / self._shape.theta**powers
        first, second = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    def _feed(self, x: Tensor, name: str) -> Tensor:
        gate = self._product(x, f"{name}.gate_proj", self._shape.feed)
        up = self._product(x, f"{name}.up_proj", self._shape.feed)
        return self._product(silu(gate).mul_(up), f"{name}.down_proj", self._shape.hidden)

    def _product(self, x: Tensor, name: str, out: int) -> Tensor:
        weight = self._read(f"{name}.weight", out, x.shape[1]).to(self._dtype)
        y = linear(x.to(self._dtype), weight).float()
        bias = f"{name}.bias"
        return y + self._read(bias, out).float() if bias in self._read else y
