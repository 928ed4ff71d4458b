"""Real vocabularies for the tests: from GGUF headers beside the repository, or the model cache."""

import functools
import json
from pathlib import Path

import pytest

from completiond import config
from completiond.model.gguf_file import read_header
from completiond.model.gguf_tokenizer import build_tokenizer
from completiond.prompt.tokenizer import Tokenizer

DATA = Path(__file__).parents[3] / "shared/data"
NAMES = ("starcoder", "refact", "deepseek-coder", "llama-spm", "codellama", "qwen")
FAMILY_OF = {
    "starcoder": "starcoder2",  # the file is the second generation's vocabulary
    "refact": "starcoder",
    "deepseek-coder": "deepseek-coder",
    "llama-spm": None,
    "codellama": "codellama",
    "qwen": "qwen2.5-coder",
}


@functools.cache
def real(name: str) -> Tokenizer:
    """The vocabulary `name`; the calling test is skipped where it is not on this machine."""
    if name == "qwen":
        directory = config.cache_dir() / "models" / "qwen2.5-coder-0.5b"
        if not (directory / "tokenizer.json").exists():
            pytest.skip(f"no model in {directory}; run `completiond models pull` first")
        return Tokenizer.load(directory)
    source = "llama-spm" if name == "codellama" else name
    file = DATA / "vocab" / f"ggml-vocab-{source}.gguf"
    if not file.exists():
        pytest.skip(f"no vocabulary {file}")
    spec = json.loads(build_tokenizer(read_header(file)).to_str())
    if name == "codellama":
        infill = ("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>")
        spec["added_tokens"] += [added(32_000 + i, token) for i, token in enumerate(infill)]
    return Tokenizer(spec, name=name)


def added(token_id: int, content: str, *, special: bool = True) -> dict[str, object]:
    """An entry of `added_tokens` in a tokenizer.json."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, "special": special, **flags}


def awkward(name: str) -> str:
    file = DATA / "awkward" / name
    if not file.exists():
        pytest.skip(f"no {file}")
    return file.read_bytes().decode("utf-8", "replace")
