"""The decoder pass of Llama-shaped models on a processor, with fewer and larger operations.

One product for query, key and value and one for gate and up; float32 between the products. Serves
config types `llama`, `qwen2` and `mistral` with plain rotary positions; other models go through
the library. Reads safetensors directly, so that a start does not wait for a library's import.
"""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.linalg import vector_norm
from torch.nn.functional import embedding, silu

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.footprint import forget_mapped
from completiond.model.attention import Pack
from completiond.model.kv_cache import KVShape
from completiond.model.quantize import Kernel, Packer, Product, kv_dtype

PACKERS = 4
"""Threads that pack weights, at most: each holds a block of them in float32."""
FUSED_TYPES = ("llama", "qwen2", "mistral")


@dataclass(frozen=True, slots=True)
class Layer:
    attention_norm: Tensor  # [H]
    qkv: Product  # [N, H] → [N, (Hq + 2·Hkv)·D]
    qkv_bias: Tensor | None
    out: Product
    feed_norm: Tensor  # [H]
    gate_up: Product  # [N, H] → [N, 2·I]
    down: Product


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of config.json that the pass needs."""

    layers: int
    heads: int
    kv_heads: int
    width: int
    hidden: int
    feed: int
    vocab: int
    eps: float
    theta: float
    window: int | None
    tied: bool

    @property
    def products(self) -> list[tuple[int, int]]:
        """[out, in] of a layer's linear parts: attention's two and the feed-forward's two."""
        inner, all_heads = self.heads * self.width, self.heads + 2 * self.kv_heads
        return [
            (all_heads * self.width, self.hidden),
            (self.hidden, inner),
            (2 * self.feed, self.hidden),
            (self.hidden, self.feed),
        ]


def fusable(directory: Path) -> Shape | None:
    """The shape of a model that this pass computes exactly, or None."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    plain = rope.get("rope_type", rope.get("type", "default")) == "default"
    if config.get("model_type") not in FUSED_TYPES or config.get("hidden_act", "silu") != "silu":
        return None
    extras = ("mlp_bias", "quantization_config", "attention_bias")
    if not plain or any(config.get(key) for key in extras):
        return None
    if set(config.get("layer_types") or ["full_attention"]) != {"full_attention"}:
        return None
    return _shape(config, rope)


def _shape(config: dict[str, Any], rope: dict[str, Any]) -> Shape | None:
    heads = config["num_attention_heads"]
    sliding = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if sliding and config["model_type"] == "qwen2":
        return None  # only some of its layers slide
    return Shape(
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        width=config.get("head_dim") or config["hidden_size"] // heads,
        hidden=config["hidden_size"],
        feed=config["intermediate_size"],
        vocab=config["vocab_size"],
        eps=config.get("rms_norm_eps", 1e-6),
        theta=rope.get("rope_theta") or config.get("rope_theta", 10_000.0),
        window=sliding,
        tied=config.get("tie_word_embeddings", False),
    )


class FusedDecoder:
    """A Decoder over weights that were packed for `kernel`."""

    def __init__(self, directory: Path, shape: Shape, kernel: Kernel, packer: Packer) -> None:
        self.shape = shape
        self.kernel = kernel
        self._packed = packer
        self.layers, self.vocab_size = shape.layers, shape.vocab
        cpu = torch.device("cpu")
        self.kv = KVShape(shape.layers, shape.kv_heads, shape.width, kv_dtype(kernel), cpu)
        read = _Weights(directory)
        table = (shape.vocab, shape.hidden)
        self._table = read("model.embed_tokens.weight", *table)  # mapped: few rows are ever used
        self._norm = read("model.norm.weight", shape.hidden).float()
        with _packers() as packers:
            head = self._table if shape.tied else read("lm_head.weight", *table)
            packed = packers.submit(packer, head)
            layers = range(shape.layers)
            self._layers = list(packers.map(lambda i: self._read_layer(read, i), layers))
            self._head = packed.result()
        powers = torch.arange(0, shape.width, 2, dtype=torch.int64).float() / shape.width
        self._frequencies = 1.0 / shape.theta**powers
        self._eps = torch.tensor(shape.eps)
        read.let_go()

    def first(self, layers: int) -> "FusedDecoder":
        """The same weights, of which a pass runs the first layers and the head alone."""
        part = copy(self)
        part._layers, part.layers = self._layers[:layers], layers
        return part

    def __call__(
        self, ids: Tensor, positions: Tensor, pack: Pack, rows: Tensor, want: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        x = embedding(ids, self._table).float()  # [N, H]
        turn = self._rotation(positions)
        hidden: dict[int, Tensor] = {}
        for index, layer in enumerate(self._layers):
            if index in want:
                hidden[index] = x
            x = self._attend(layer, index, x, turn, pack)
            x = self._feed(layer, x)
        if len(self._layers) in want:  # behind the last layer the library's state is normed
            weighted, by = self._normed(x, self._norm)
            hidden[len(self._layers)] = weighted * by
        if not len(rows):
            return x.new_empty(0, self.vocab_size), hidden
        return self._head(*self._normed(x[rows], self._norm)), hidden

    def _attend(self, layer: Layer, index: int, x: Tensor, turn: Tensor, pack: Pack) -> Tensor:
        s, n = self.shape, len(x)
        qkv = layer.qkv(*self._normed(x, layer.attention_norm), layer.qkv_bias)
        heads = qkv.view(n, s.heads + 2 * s.kv_heads, s.width)
        turned = _rotated(heads[:, : s.heads + s.kv_heads], turn).transpose(0, 1)
        mixed = pack.attend(
            index,
            turned[: s.heads],
            turned[s.heads :],
            heads[:, s.heads + s.kv_heads :].transpose(0, 1),
            scale=1.0,  # the weights of q have it
            window=s.window,
        )
        return layer.out(mixed.view(n, s.heads * s.width), None, x)

    def _feed(self, layer: Layer, x: Tensor) -> Tensor:
        gate, up = layer.gate_up(*self._normed(x, layer.feed_norm)).chunk(2, -1)
        return layer.down(silu(gate).mul_(up), None, x)

    def _normed(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """RMS norm in two factors, [N, H] and [N, 1], for a product that takes them apart."""
        size = vector_norm(x, 2, -1, keepdim=True)
        return x * weight, torch.addcmul(self._eps, size, size, value=1 / x.shape[1]).rsqrt_()

    def _rotation(self, positions: Tensor) -> Tensor:
        """[N, 1, D/2] complex: the rotary embedding's turns."""
        angles = positions[:, None, None].float() * self._frequencies
        return torch.polar(torch.ones_like(angles), angles)

    def _read_layer(self, read: "_Weights", index: int) -> Layer:
        s, name = self.shape, f"model.layers.{index}"
        attention, feed = f"{name}.self_attn", f"{name}.mlp"
        rows = {"q": s.heads * s.width, "k": s.kv_heads * s.width, "v": s.kv_heads * s.width}
        qkv = [read(f"{attention}.{p}_proj.weight", n, s.hidden) for p, n in rows.items()]
        bias = None
        if f"{attention}.q_proj.bias" in read:
            bias = self._joined([read(f"{attention}.{p}_proj.bias", n) for p, n in rows.items()])
        gate_up = [read(f"{feed}.{p}_proj.weight", s.feed, s.hidden) for p in ("gate", "up")]
        norms = [
            read(f"{name}.{p}_layernorm.weight", s.hidden) for p in ("input", "post_attention")
        ]
        return Layer(
            attention_norm=norms[0].float(),
            qkv=self._packed(self._joined(qkv)),
            qkv_bias=bias,
            out=self._packed(read(f"{attention}.o_proj.weight", s.hidden, rows["q"])),
            feed_norm=norms[1].float(),
            gate_up=self._packed(torch.cat(gate_up)),
            down=self._packed(read(f"{feed}.down_proj.weight", s.hidden, s.feed)),
        )

    def _joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Weights or biases of query, key and value in float; the query has attention's scale."""
        q, k, v = (part.float() for part in parts)
        width = self.shape.width
        return torch.cat([_paired(q, width).mul_(width**-0.5), _paired(k, width), v])


def _packers() -> ThreadPoolExecutor:
    """Threads to pack weights in: packing one weight is one thread's work, and lets others run."""
    cores = len(os.sched_getaffinity(0))
    return ThreadPoolExecutor(
        min(PACKERS, cores), "pack", initializer=torch.set_num_threads, initargs=(1,)
    )


def _rotated(x: Tensor, turn: Tensor) -> Tensor:
    """[N, heads, D] turned by position; the parts of a pair lie side by side, see `_paired`."""
    n, heads, width = x.shape
    pairs = torch.view_as_complex(x.view(n, heads, width // 2, 2))
    return torch.view_as_real(pairs * turn).view(n, heads, width)


def _paired(weight: Tensor, width: int) -> Tensor:
    """Rows [heads · width, …] with each head's two halves interleaved: turns then multiply pairs.

    Queries and keys are permuted alike, so that their products stay what they were.
    """
    halves: Tensor = weight.unflatten(0, (-1, 2, width // 2))
    return halves.transpose(1, 2).flatten(0, 2)


class _Weights:
    """Tensors by name from a directory of safetensors, mapped, not read ahead."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file_of: dict[str, Any] = {}
        for path in sorted(directory.glob("*.safetensors")):
            opened: Any = safe_open(path, framework="pt")
            self._file_of |= dict.fromkeys(opened.keys(), opened)
        if not self._file_of:
            raise ModelUnsupported(f"{directory} holds no safetensors; only those are read.")

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def __call__(self, name: str, *shape: int) -> Tensor:
        """The tensor as it is stored. Raises ModelCorrupt if it is missing or of another shape."""
        found = self._file_of[name].get_tensor(name) if name in self._file_of else None
        if found is None or found.shape != shape:
            what = "lack" if found is None else f"have another shape than {list(shape)} for"
            raise ModelCorrupt(
                f"The weights in {self._directory} {what} `{name}`; "
                "remove the model and pull it again."
            )
        tensor: Tensor = found
        return tensor

    def let_go(self) -> None:
        """Weights were packed from the mapped files; what is still used is read again."""
        for name, opened in self._file_of.items():
            mapped = opened.get_tensor(name)
            forget_mapped(mapped.data_ptr(), mapped.nbytes)
