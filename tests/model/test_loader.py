"""What cannot be loaded is refused with one sentence, of the right kind, that says what to do."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma2Config, GptOssConfig

from completiond.errors import CompletiondError, DeviceError, ModelCorrupt, ModelUnsupported
from completiond.model import library, loader
from completiond.model.kv_cache import Slot
from completiond.model.library import ATTENTION, LibraryDecoder
from completiond.model.loader import choose_device, load_decoder
from completiond.model.runner import Runner
from tiny import reference

CPU = torch.device("cpu")
SMALL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A whole model, in one file of safetensors."""
    target = tmp_path / "tiny"
    reference("llama", layers=1, dtype=torch.float32).save_pretrained(target)
    return target


@pytest.fixture(params=["served", "library"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the fused pass, which serves this family on a CPU, and by the library's modules."""
    if request.param == "library":
        monkeypatch.setattr(loader, "fusable", lambda directory: None)


def refusal(directory: Path, *kinds: type[CompletiondError]) -> str:
    """The sentence; it names the directory, and is one line."""
    with pytest.raises(CompletiondError) as caught:
        load_decoder(directory, CPU, "fp32")
    assert type(caught.value) in kinds, caught.value
    sentence = str(caught.value)
    assert str(directory) in sentence and "\n" not in sentence
    return sentence


def test_a_whole_directory_loads(directory: Path) -> None:
    decoder = load_decoder(directory, CPU, "fp32")
    assert decoder.kernel == "fp32" and decoder.layers == 1


def test_pickled_weights_are_unsupported(directory: Path) -> None:
    torch.save(load_file(directory / "model.safetensors"), directory / "pytorch_model.bin")
    (directory / "model.safetensors").unlink()
    assert "safetensors" in refusal(directory, ModelUnsupported)


def test_an_unknown_model_type_is_unsupported(directory: Path) -> None:
    edit(directory, model_type="no_such_type")
    assert "no_such_type" in refusal(directory, ModelUnsupported)


def test_a_model_that_does_not_generate_is_unsupported(directory: Path) -> None:
    edit(directory, model_type="clip_vision_model")
    refusal(directory, ModelUnsupported)


def test_code_of_the_checkpoints_own_is_never_run(directory: Path) -> None:
    (directory / "own.py").write_text("raise SystemExit('the code of a checkpoint was run')")
    edit(
        directory,
        model_type="own",
        auto_map={"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"},
    )
    refusal(directory, ModelUnsupported)


def test_a_directory_without_a_configuration_is_unsupported(directory: Path) -> None:
    (directory / "config.json").unlink()
    refusal(directory, ModelUnsupported)


def test_a_configuration_that_is_not_json_is_unsupported(directory: Path) -> None:
    (directory / "config.json").write_text("{")
    refusal(directory, ModelUnsupported)


def edit(directory: Path, **changes: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("part", [0.0, 0.001, 0.5, 0.999])
def test_truncated_weights_are_corrupt(directory: Path, part: float) -> None:
    path = directory / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: int(part * len(data))])
    assert "pull it again" in refusal(directory, ModelCorrupt)


def test_weights_that_are_not_safetensors_are_corrupt(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes(b"<html>not found</html>" * 100)
    refusal(directory, ModelCorrupt)


def test_a_missing_tensor_is_corrupt_and_not_replaced_by_noise(directory: Path) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, path, {"format": "pt"})
    assert "up_proj" in refusal(directory, ModelCorrupt)


def test_a_tensor_of_another_shape_is_corrupt(directory: Path) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    tensors["model.norm.weight"] = torch.zeros(3)
    save_file(tensors, path, {"format": "pt"})
    refusal(directory, ModelCorrupt)


def test_a_missing_shard_is_refused(directory: Path) -> None:
    model = reference("llama", layers=1, dtype=torch.float32)
    (directory / "model.safetensors").unlink()
    model.save_pretrained(directory, max_shard_size="20KB")
    shards = sorted(directory.glob("model-*.safetensors"))
    assert len(shards) > 1
    load_decoder(directory, CPU, "fp32")
    shards[-1].unlink()
    refusal(directory, ModelUnsupported, ModelCorrupt)


def test_attention_that_is_not_ours_to_compute_is_unsupported(tmp_path: Path) -> None:
    capped = Gemma2Config(**SMALL, head_dim=8)
    AutoModelForCausalLM.from_config(capped).save_pretrained(tmp_path)
    with pytest.raises(ModelUnsupported, match=r"gemma2 cap their attention logits"):
        load_decoder(tmp_path, CPU, "fp32")


def test_attention_with_sinks_is_refused_at_the_first_pass() -> None:
    model = AutoModelForCausalLM.from_config(
        GptOssConfig(**SMALL, head_dim=8, num_local_experts=2), attn_implementation=ATTENTION
    )
    runner = Runner(LibraryDecoder(model.eval()), 32)
    with pytest.raises(ModelUnsupported, match=r"s_aux, which is not supported"):
        runner.prefill(Slot(runner.kv), [1, 2])


# Devices


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda:0")


def test_a_gpu_that_is_not_there_is_refused_with_the_number_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(DeviceError, match="no GPU 7: 2 found"):
        choose_device("cuda:7")


@pytest.mark.parametrize("wanted", ["cuda:7", "cuda"])
def test_a_gpu_is_refused_where_there_is_none(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(DeviceError, match="no GPU"):
        choose_device(wanted)


@pytest.mark.parametrize(
    "wanted", ["", "gpu", "banana", "cuda:x", "cuda:-1", "meta", "mps", "xpu:0"]
)
def test_a_device_that_is_not_one_of_ours_is_refused(wanted: str) -> None:
    with pytest.raises(DeviceError, match=r"auto, cpu or cuda:N"):
        choose_device(wanted)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nmore"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
)
def test_no_memory_on_the_device_is_a_device_error(
    error: Exception, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(loader, "FusedDecoder", full)
    monkeypatch.setattr(library, "load_library", full)
    with pytest.raises(DeviceError, match=r"tiny does not fit on cpu .*a smaller model"):
        load_decoder(directory, CPU, "fp32")


def test_a_directory_named_after_memory_is_not_a_lack_of_it(directory: Path) -> None:
    target = directory.rename(directory.with_name("memory"))
    (target / "config.json").unlink()
    refusal(target, ModelUnsupported)
