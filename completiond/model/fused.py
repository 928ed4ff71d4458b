"""The decoder pass of Llama-shaped models on a processor, with fewer and larger operations.

One product for query, key and value and one for gate and up; float32 between the products. Serves
config types `llama`, `qwen2` and `mistral` with plain rotary positions; other models go through
the library. Reads safetensors directly, so that a start does not wait for a library's import.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.functional import embedding, rms_norm, silu

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.footprint import forget_mapped
from completiond.model.attention import Pack
from completiond.model.balance import Dimensions, Trial, column_scales
from completiond.model.kv_cache import KVShape
from completiond.model.quantize import Kernel, Product, product

DOWN_GROUPS = 4
"""Of the feed-forward's inner channels, whose outliers move from token to token."""
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
class Shape(Dimensions):
    """The numbers of config.json that the pass needs."""

    window: int | None
    tied: bool


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

    def __init__(self, directory: Path, shape: Shape, kernel: Kernel) -> None:
        self.shape = shape
        self.kernel = kernel
        self.layers, self.vocab_size = shape.layers, shape.vocab
        cpu = torch.device("cpu")
        self.kv = KVShape(shape.layers, shape.kv_heads, shape.width, torch.float32, cpu)
        read = _Weights(directory)
        table = (shape.vocab, shape.hidden)
        self._table = read("model.embed_tokens.weight", *table)  # mapped: few rows are ever used
        seen = list(Trial(read, shape).magnitudes()) if kernel == "int8" else None
        self._layers = [self._read_layer(read, i, seen) for i in range(shape.layers)]
        head = self._table if shape.tied else read("lm_head.weight", *table)
        norm = read("model.norm.weight", shape.hidden)
        self._norm = norm.float()
        self._head_norm, self._head = self._balanced(norm, head, seen[-1] if seen else None)
        powers = torch.arange(0, shape.width, 2, dtype=torch.int64).float() / shape.width
        self._frequencies = 1.0 / shape.theta**powers
        read.let_go()

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
            hidden[len(self._layers)] = self._normed(x, self._norm)
        if not len(rows):
            return x.new_empty(0, self.vocab_size), hidden
        return self._head(self._normed(x[rows], self._head_norm)), hidden

    def _attend(
        self, layer: Layer, index: int, x: Tensor, turn: tuple[Tensor, Tensor], pack: Pack
    ) -> Tensor:
        s, n = self.shape, len(x)
        qkv = layer.qkv(self._normed(x, layer.attention_norm))
        if layer.qkv_bias is not None:
            qkv += layer.qkv_bias
        heads = qkv.view(n, s.heads + 2 * s.kv_heads, s.width).transpose(0, 1)
        turned = _rotate(heads[: s.heads + s.kv_heads], *turn)
        mixed = pack.attend(
            index,
            turned[: s.heads],
            turned[s.heads :],
            heads[s.heads + s.kv_heads :],
            scale=s.width**-0.5,
            window=s.window,
        )
        return x + layer.out(mixed.reshape(n, s.heads * s.width))

    def _feed(self, layer: Layer, x: Tensor) -> Tensor:
        gate, up = layer.gate_up(self._normed(x, layer.feed_norm)).chunk(2, -1)
        return x + layer.down(silu(gate).mul_(up))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return rms_norm(x, weight.shape, weight, self.shape.eps)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin [N, D] of the rotary embedding."""
        angles = positions[:, None].float() * self._frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    def _balanced(
        self, norm: Tensor, weight: Tensor, seen: Tensor | None
    ) -> tuple[Tensor, Product]:
        """A norm's weight and the product behind it; int8 shares the norm's outliers."""
        if seen is None:
            return norm.float(), product(weight, self.kernel)
        scales = column_scales(seen, weight)
        return norm.float() / scales, product(weight, self.kernel, scales)

    def _read_layer(self, read: "_Weights", index: int, seen: Sequence[Tensor] | None) -> Layer:
        s, name = self.shape, f"model.layers.{index}"
        attention, feed = f"{name}.self_attn", f"{name}.mlp"
        rows = {"q": s.heads * s.width, "k": s.kv_heads * s.width, "v": s.kv_heads * s.width}
        qkv = [read(f"{attention}.{p}_proj.weight", n, s.hidden) for p, n in rows.items()]
        biases = [f"{attention}.{p}_proj.bias" for p in rows]
        bias = None
        if biases[0] in read:
            bias = torch.cat([read(b, n) for b, n in zip(biases, rows.values(), strict=True)])
        gate_up = [read(f"{feed}.{p}_proj.weight", s.feed, s.hidden) for p in ("gate", "up")]
        norms = [
            read(f"{name}.{p}_layernorm.weight", s.hidden) for p in ("input", "post_attention")
        ]
        before, behind = seen[2 * index : 2 * index + 2] if seen else (None, None)
        attention_norm, packed_qkv = self._balanced(norms[0], torch.cat(qkv), before)
        feed_norm, packed_gate_up = self._balanced(norms[1], torch.cat(gate_up), behind)
        down = read(f"{feed}.down_proj.weight", s.hidden, s.feed)
        return Layer(
            attention_norm=attention_norm,
            qkv=packed_qkv,
            qkv_bias=None if bias is None else bias.float(),
            out=product(read(f"{attention}.o_proj.weight", s.hidden, rows["q"]), self.kernel),
            feed_norm=feed_norm,
            gate_up=packed_gate_up,
            down=product(down, self.kernel, groups=DOWN_GROUPS),
        )


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """[heads, N, D] turned by position; the two halves of D are the pairs' parts."""
    half = x.shape[-1] // 2
    swapped = torch.cat([-x[..., half:], x[..., :half]], -1)
    return (x * cos).addcmul_(swapped, sin)


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
