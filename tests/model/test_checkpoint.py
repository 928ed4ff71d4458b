"""A directory of safetensors says what it is, or in one sentence why it cannot be used."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_checkpoint
import tiny_gguf

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.checkpoint import describe


@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        ("gpt_bigcode", {"n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64}),
        ("starcoder2", {}),
        ("llama", {}),
        ("qwen2", {}),
        ("gemma", {"head_dim": 16}),
        ("granite", {}),
    ],
)
def test_a_local_directory_of_each_family_is_described(
    tmp_path: Path, model_type: str, config: dict[str, Any]
) -> None:
    files = describe("m", tiny_checkpoint.saved(tmp_path / "m", model_type, **config))
    assert files.architecture == model_type and files.context == 64
    assert files.vocab_size == tiny_gguf.REAL  # neither [PADn] nor rows beyond the tokenizer
    texts = tiny_gguf.vocabulary()[0]
    assert files.eos_ids == (3, texts.index("<|endoftext|>"), texts.index("<|im_end|>"))


def test_generation_config_may_name_more_ends(tmp_path: Path) -> None:
    directory = tiny_checkpoint.saved(tmp_path / "m")
    (directory / "generation_config.json").write_text('{"eos_token_id": [5, 9999]}')
    assert describe("m", directory).eos_ids[:2] == (3, 5)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.ckpt"])
def test_a_pickle_is_refused(tmp_path: Path, name: str) -> None:
    directory = tiny_checkpoint.saved(tmp_path / "m")
    (directory / "model.safetensors").rename(directory / name)
    with pytest.raises(ModelUnsupported, match="as a pickle, which can run code"):
        describe("m", directory)


@pytest.mark.parametrize(
    ("missing", "error", "says"),
    [
        ("config.json", ModelUnsupported, "has no config.json"),
        ("tokenizer.json", ModelUnsupported, "has no tokenizer.json"),
        ("model.safetensors", ModelUnsupported, "holds no model"),
    ],
)
def test_a_directory_without_a_part_of_the_model(
    tmp_path: Path, missing: str, error: type[Exception], says: str
) -> None:
    directory = tiny_checkpoint.saved(tmp_path / "m")
    (directory / missing).unlink()
    with pytest.raises(error, match=says):
        describe("m", directory)


@pytest.mark.parametrize("length", [0, 4, 8, 50, -1])
def test_safetensors_cut_short_are_found_without_reading_the_tensors(
    tmp_path: Path, length: int
) -> None:
    weights = tiny_checkpoint.saved(tmp_path / "m") / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(ModelCorrupt, match=r"model\.safetensors is"):
        describe("m", tmp_path / "m")


def test_a_missing_shard_is_found(tmp_path: Path) -> None:
    directory = tiny_checkpoint.saved(tmp_path / "m")
    (directory / "model.safetensors").rename(directory / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(ModelCorrupt, match="00002-of-00002"):
        describe("m", directory)
