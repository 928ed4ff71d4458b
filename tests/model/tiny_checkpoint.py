"""Model directories as transformers saves them, and the hub's cache of one."""

import hashlib
from pathlib import Path
from typing import Any

import tiny_gguf
import tokenizers
import transformers

HUB_ID = "someone/tiny-coder"


def saved(directory: Path, model_type: str = "qwen2", **config: Any) -> Path:
    """A directory as transformers saves it, with the tiny vocabulary and its padding rows."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    sizes |= {"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64}
    sizes |= {"vocab_size": tiny_gguf.REAL + 10, "eos_token_id": 3}
    made = transformers.AutoConfig.for_model(model_type, **(sizes | config))
    transformers.AutoModelForCausalLM.from_config(made).save_pretrained(directory)
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={text: i for i, text in enumerate(tiny_gguf.vocabulary()[0])}, merges=[]
        )
    )
    tokenizer.add_special_tokens(tiny_gguf.CONTROL)
    tokenizer.save(str(directory / "tokenizer.json"))
    return directory


def snapshot(tmp_path: Path) -> Path:
    """A hub cache with one repository, laid out as the hub client does; its weights' blob."""
    commit, repo = "0" * 40, tmp_path / "hub" / f"models--{HUB_ID.replace('/', '--')}"
    snapshot = saved(repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text(commit)
    (repo / "blobs").mkdir()
    weights = snapshot / "model.safetensors"
    blob = repo / "blobs" / hashlib.sha256(weights.read_bytes()).hexdigest()
    weights.rename(blob)
    weights.symlink_to(blob)
    return blob
