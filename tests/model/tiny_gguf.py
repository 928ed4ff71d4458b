"""Tiny GGUF files written with the gguf package: random weights, a byte-level vocabulary."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType

HIDDEN, INNER, HEADS, KV_HEADS, LAYERS = 64, 96, 4, 2, 2
PADDING = 6


def byte_alphabet() -> list[str]:
    """GPT-2's 256 letters, in the order of GPT-2's vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in printable] + [chr(256 + n) for n in range(256 - len(printable))]


MERGES = ["d e", "de f", "i n", "Ġ Ġ", "ĠĠ ĠĠ"]
CONTROL = ["<|endoftext|>", "<|im_end|>", "<|fim_prefix|>"]


def vocabulary() -> tuple[list[str], list[int]]:
    """Tokens and their types: letters, merges, an ordinary `</s>`, control tokens, padding."""
    texts = [*byte_alphabet(), *(m.replace(" ", "") for m in MERGES), "</s>"]
    kinds = [1] * len(texts) + [3] * len(CONTROL) + [4] + [5] * PADDING
    texts += [*CONTROL, "<tool_call>"]
    texts += [f"[PAD{len(texts) + n}]" for n in range(PADDING)]
    return texts, kinds


REAL = 256 + len(MERGES) + 1 + len(CONTROL) + 1


def write(
    path: Path,
    arch: str = "qwen2",
    *,
    tied: bool = False,
    drop: tuple[str, ...] = (),
    extra: dict[str, Any] | None = None,
    pre: str = "qwen2",
    seed: int = 0,
    nan: bool = False,
) -> Path:
    """A whole model. `drop` leaves tensors out, `extra` adds string metadata or arrays."""
    writer = gguf.GGUFWriter(path, arch)
    _metadata(writer, pre)
    for key, value in (extra or {}).items():
        if isinstance(value, np.ndarray):
            writer.add_tensor(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_string(key, value)
    random = np.random.default_rng(seed)
    for name, (shape, kind) in tensors(arch, tied).items():
        if name in drop:
            continue
        values = random.standard_normal(shape).astype(np.float32) * 0.2
        if name.endswith("norm.weight"):
            values = values + 1
        if nan and name == "output_norm.weight":
            values[3] = np.nan
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(writer: gguf.GGUFWriter, pre: str) -> None:
    texts, kinds = vocabulary()
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(texts.index("<|im_end|>"))
    writer.add_bos_token_id(texts.index("<|endoftext|>"))


def tensors(arch: str, tied: bool) -> dict[str, tuple[tuple[int, ...], gguf.GGMLQuantizationType]]:
    vocab, kv = len(vocabulary()[0]), KV_HEADS * (HIDDEN // HEADS)
    found: dict[str, tuple[tuple[int, ...], gguf.GGMLQuantizationType]] = {
        "token_embd.weight": ((vocab, HIDDEN), Q.Q5_0),
        "output_norm.weight": ((HIDDEN,), Q.F32),
    }
    if not tied:
        found["output.weight"] = ((vocab, HIDDEN), Q.Q8_0)
    for n in range(LAYERS):
        found[f"blk.{n}.attn_norm.weight"] = ((HIDDEN,), Q.F32)
        found[f"blk.{n}.ffn_norm.weight"] = ((HIDDEN,), Q.F32)
        found[f"blk.{n}.attn_q.weight"] = ((HIDDEN, HIDDEN), Q.Q4_0)
        found[f"blk.{n}.attn_k.weight"] = ((kv, HIDDEN), Q.Q8_0)
        found[f"blk.{n}.attn_v.weight"] = ((kv, HIDDEN), Q.F16)
        found[f"blk.{n}.attn_output.weight"] = ((HIDDEN, HIDDEN), Q.Q4_1)
        found[f"blk.{n}.ffn_gate.weight"] = ((INNER, HIDDEN), Q.Q5_1)
        found[f"blk.{n}.ffn_up.weight"] = ((INNER, HIDDEN), Q.BF16)
        found[f"blk.{n}.ffn_down.weight"] = ((HIDDEN, INNER), Q.Q8_0)
        if arch == "qwen2":
            found[f"blk.{n}.attn_q.bias"] = ((HIDDEN,), Q.F32)
            found[f"blk.{n}.attn_k.bias"] = ((kv,), Q.F32)
            found[f"blk.{n}.attn_v.bias"] = ((kv,), Q.F32)
    return found
