"""GGUF, read once and written as config.json, tokenizer.json and model.safetensors in bf16.

Knows the architectures qwen2 and llama: their tensors' names and shapes. Needs no torch.
Reads tensors through a memory map and writes them row block by row block, so that the memory
needed does not depend on the model. Does not know the cache or where files come from.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import gguf
import numpy as np
import numpy.typing as npt

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.gguf_file import Header, read_header
from completiond.model.gguf_tokenizer import build_tokenizer, control_tokens, real_tokens
from completiond.model.vocabulary import end_ids, real_size

BLOCK = 1 << 23
"""Elements that are dequantized at a time: 32 MiB as fp32."""

Progress = Callable[[int, int, str], None]


class Converted(NamedTuple):
    """What the manifest remembers of a conversion."""

    architecture: str
    vocab_size: int
    eos_ids: tuple[int, ...]
    context: int
    files: dict[str, str]


def convert(source: Path, directory: Path, progress: Progress) -> Converted:
    """Write the model in the GGUF file `source` into the existing, empty `directory`.

    Rows of the vocabulary behind the last real token are left out. `files` is each file's sha256.
    """
    header = read_header(source)
    tokens = real_tokens(header)
    rows = real_size(tokens)
    config = model_config(header, tokens)
    plan = _plan(header, config)
    tokenizer = build_tokenizer(header).to_str()
    files = {
        "config.json": _write(directory / "config.json", json.dumps(config, indent=2)),
        "tokenizer.json": _write(directory / "tokenizer.json", tokenizer),
        "model.safetensors": _write_tensors(
            header, plan, directory / "model.safetensors", progress
        ),
    }
    eos = tuple(config["eos_token_id"])
    return Converted(header.architecture, rows, eos, config["max_position_embeddings"], files)


# The model


def converted_size(source: Path) -> int:
    """Bytes that the conversion of a GGUF file takes on disk, give or take the padding rows."""
    sizes = (int(np.prod(t.shape, dtype=np.int64)) for t in read_header(source).tensors.values())
    return 2 * sum(sizes)


def model_config(header: Header, tokens: dict[int, str]) -> dict[str, Any]:
    """The config.json of transformers, for the architectures whose tensors we can name."""
    kind = header.architecture
    if kind not in ("qwen2", "llama"):
        raise ModelUnsupported(
            f"{header.path} is of architecture `{kind}`; GGUF files of qwen2 and llama can be "
            "converted, others load from their safetensors directory."
        )
    whole = {
        "num_hidden_layers": "block_count",
        "hidden_size": "embedding_length",
        "intermediate_size": "feed_forward_length",
        "num_attention_heads": "attention.head_count",
        "max_position_embeddings": "context_length",
    }
    config: dict[str, Any] = {
        "model_type": kind,
        "architectures": [f"{kind.capitalize()}ForCausalLM"],
        "dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": header.need(f"{kind}.attention.layer_norm_rms_epsilon", float),
        "rope_parameters": _rope(header, kind),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "vocab_size": real_size(tokens),
    }
    config |= {ours: header.need(f"{kind}.{theirs}", int) for ours, theirs in whole.items()}
    if config["num_hidden_layers"] > len(header.tensors):
        raise ModelCorrupt(f"{header.path} has {len(header.tensors)} tensors, which is too few.")
    heads = config["num_attention_heads"]
    if not heads or config["hidden_size"] % heads:
        raise ModelCorrupt(f"{header.path} says {heads} heads for {config['hidden_size']} units.")
    config["num_key_value_heads"] = header.get(f"{kind}.attention.head_count_kv", heads)
    dim = config["hidden_size"] // heads
    config["head_dim"] = header.get(f"{kind}.attention.key_length", dim)
    if kind == "llama":
        config["attention_bias"] = "blk.0.attn_q.bias" in header.tensors
    config |= _token_ids(header, tokens)
    return config


def _token_ids(header: Header, tokens: dict[int, str]) -> dict[str, Any]:
    """Where a text begins and ends; ids that name no real token are dropped."""
    parts = ("bos", "eos", "eot")
    ids = {part: header.get(f"tokenizer.ggml.{part}_token_id", -1) for part in parts}
    named = [ids[part] for part in ("eos", "eot") if ids[part] in tokens]
    return {
        "bos_token_id": ids["bos"] if ids["bos"] in tokens else None,
        "eos_token_id": list(end_ids(control_tokens(header), named)),
    }


def _rope(header: Header, kind: str) -> dict[str, Any]:
    theta = header.get(f"{kind}.rope.freq_base", 10_000.0)
    scaling = header.get(f"{kind}.rope.scaling.type", "none")
    if scaling == "none":
        return {"rope_type": "default", "rope_theta": theta}
    if scaling != "linear":
        raise ModelUnsupported(
            f"{header.path} scales positions as `{scaling}`; only `linear` can be converted."
        )
    factor = header.need(f"{kind}.rope.scaling.factor", float)
    return {"rope_type": "linear", "factor": factor, "rope_theta": theta}


class _Place(NamedTuple):
    """Where an output tensor comes from, its shape, and how many heads to unpermute."""

    source: str
    shape: tuple[int, ...]
    heads: int = 0


def _plan(header: Header, config: dict[str, Any]) -> dict[str, _Place]:
    """Output name to place, checked against the file: nothing missing, left over or misshapen."""
    plan = dict(_expected(config))
    for place in plan.values():
        found = header.tensors.get(place.source)
        rows = found.shape[0] if found else 0
        if found is None or found.shape[1:] != place.shape[1:] or rows < place.shape[0]:
            raise ModelCorrupt(f"{header.path}: tensor `{place.source}` is missing or misshapen.")
    extra = header.tensors.keys() - {place.source for place in plan.values()}
    if extra:
        raise ModelUnsupported(
            f"{header.path} holds `{min(extra)}`, which a plain {config['model_type']} model has "
            "not; use the model's safetensors directory."
        )
    return plan


def _expected(config: dict[str, Any]) -> Iterator[tuple[str, _Place]]:
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    llama = config["model_type"] == "llama"
    biased = "qkvo" if config.get("attention_bias") else "" if llama else "qkv"
    vocab = (config["vocab_size"], hidden)
    yield "model.embed_tokens.weight", _Place("token_embd.weight", vocab)
    yield "model.norm.weight", _Place("output_norm.weight", (hidden,))
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", _Place("output.weight", vocab)
    projections = {
        "self_attn.q": ("attn_q", heads * dim, hidden, heads if llama else 0),
        "self_attn.k": ("attn_k", kv_heads * dim, hidden, kv_heads if llama else 0),
        "self_attn.v": ("attn_v", kv_heads * dim, hidden, 0),
        "self_attn.o": ("attn_output", hidden, heads * dim, 0),
        "mlp.gate": ("ffn_gate", inner, hidden, 0),
        "mlp.up": ("ffn_up", inner, hidden, 0),
        "mlp.down": ("ffn_down", hidden, inner, 0),
    }
    for n in range(config["num_hidden_layers"]):
        ours, theirs = f"model.layers.{n}", f"blk.{n}"
        yield f"{ours}.input_layernorm.weight", _Place(f"{theirs}.attn_norm.weight", (hidden,))
        after = _Place(f"{theirs}.ffn_norm.weight", (hidden,))
        yield f"{ours}.post_attention_layernorm.weight", after
        for name, (part, rows, columns, permuted) in projections.items():
            weight = _Place(f"{theirs}.{part}.weight", (rows, columns), permuted)
            yield f"{ours}.{name}_proj.weight", weight
            if name.startswith("self_attn.") and name[-1] in biased:
                bias = _Place(f"{theirs}.{part}.bias", (rows,), permuted)
                yield f"{ours}.{name}_proj.bias", bias


# Writing


def _write(path: Path, text: str) -> str:
    data = text.encode("utf-8")
    with path.open("wb") as file:
        file.write(data)
        _sync(file)
    return hashlib.sha256(data).hexdigest()


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _write_tensors(header: Header, plan: dict[str, _Place], path: Path, progress: Progress) -> str:
    """The safetensors file by hand, since the library wants every tensor in memory; its sha256."""
    index: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for name, place in plan.items():
        size = 2 * int(np.prod(place.shape, dtype=np.int64))
        index[name] = {"dtype": "BF16", "shape": place.shape, "data_offsets": (total, total + size)}
        total += size
    head = json.dumps(index).encode()
    head += b" " * (-len(head) % 8)
    digest, done = hashlib.sha256(), 0
    data = np.memmap(header.path, np.uint8, "r")
    with path.open("wb") as file:
        for block in (struct.pack("<Q", len(head)), head):
            file.write(block)
            digest.update(block)
        for name, place in plan.items():
            for bf16 in _rows(header, data, place):
                file.write(bf16)
                digest.update(bf16)
                done += len(bf16)
                progress(done, total, f"converting {name}")
        _sync(file)
    return digest.hexdigest()


def _rows(header: Header, data: npt.NDArray[np.uint8], place: _Place) -> Iterator[bytes]:
    """The tensor's rows as bf16 bits, a block at a time."""
    tensor = header.tensors[place.source]
    raw = data[tensor.start : tensor.start + tensor.size].reshape(tensor.shape[0], -1)
    order = _unpermuted(place.shape[0], place.heads)
    step = max(1, BLOCK * tensor.shape[0] // int(np.prod(tensor.shape, dtype=np.int64)))
    for start in range(0, place.shape[0], step):
        try:
            values = gguf.quants.dequantize(raw[order[start : start + step]], tensor.kind)
        except NotImplementedError as exc:
            raise ModelUnsupported(
                f"{header.path} is quantized as {tensor.kind.name}, which cannot be converted."
            ) from exc
        if not np.isfinite(values).all():
            raise ModelCorrupt(f"{header.path}: `{place.source}` holds values that are no numbers.")
        yield _bf16(values).tobytes()


def _unpermuted(rows: int, heads: int) -> npt.NDArray[np.int64]:
    """Which row of the file comes where. llama files interleave the two rotary halves of a head."""
    order = np.arange(rows)
    return order if not heads else order.reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)


def _bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Rounded to nearest, ties to even: the same bits as torch's cast."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
