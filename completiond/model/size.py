"""What a model will hold of a device's memory, from its files' headers; no tensor is read.

Knows safetensors headers and the numbers of config.json; knows no budget.
"""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from completiond.model.quantize import Kernel, kv_dtype

WEIGHT_BYTES = {"int8": 1, "bf16": 2, "fp32": 4}
ROW_BYTES = 16
"""Of an int8 weight's row: its scale and its zero point, in double width."""
TABLES = ("embed_tokens.weight", "wte.weight")
"""Names of the embedding: a processor reads its few rows from the mapped file."""


class Size(NamedTuple):
    """Bytes: of all weights as they will lie there, and of one token's keys and values."""

    weights: int
    token: int


def size_of(directory: Path, *, on_cpu: bool, kernel: Kernel) -> Size:
    """The size of the model of `directory` with linear layers in `kernel` (a GPU has bf16)."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    shapes = dict(_shapes(directory))
    if not on_cpu:
        weights = 2 * sum(math.prod(shape) for shape in shapes.values())
    else:
        weights = sum(_on_cpu(name, shape, kernel) for name, shape in shapes.items())
        if config.get("tie_word_embeddings"):  # the head is packed, the table stays beside it
            tables = (shape for name, shape in shapes.items() if name.endswith(TABLES))
            weights += sum(_on_cpu("", shape, kernel) for shape in tables)
    element = kv_dtype(kernel).itemsize if on_cpu else 2
    return Size(weights, _elements_a_token(config) * element)


def _on_cpu(name: str, shape: list[int], kernel: Kernel) -> int:
    if name.endswith(TABLES):
        return 0
    if len(shape) < 2:
        return 4 * math.prod(shape)
    rows = ROW_BYTES * shape[0] if kernel == "int8" else 0
    return WEIGHT_BYTES[kernel] * math.prod(shape) + rows


def _elements_a_token(config: dict[str, Any]) -> int:
    """2 × layers × key heads × width, under the names that families use."""
    layers = config.get("num_hidden_layers") or config.get("n_layer") or 0
    heads = config.get("num_attention_heads") or config.get("n_head") or 1
    hidden = config.get("hidden_size") or config.get("n_embd") or 0
    shared = 1 if config.get("multi_query") else config.get("num_key_value_heads") or heads
    return int(2 * layers * shared * (config.get("head_dim") or hidden // heads))


def _shapes(directory: Path) -> Iterator[tuple[str, list[int]]]:
    for path in sorted(directory.glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            head = json.loads(file.read(length))
        for name, entry in head.items():
            if name != "__metadata__":
                yield name, entry["shape"]
