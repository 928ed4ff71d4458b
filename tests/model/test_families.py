"""Every family that is served, from safetensors on disk, in each kernel, against the library.

The vocabulary is many times the width, as in real models, so that tables are replaced too.
"""

import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from completiond.model import loader
from completiond.model.attention import Segment
from completiond.model.kv_cache import Slot
from completiond.model.library import LibraryDecoder
from completiond.model.loader import load_decoder
from completiond.model.quantize import HalfEmbedding, PackedLinear, kv_dtype
from completiond.model.runner import Runner
from tiny import coarseness, random_ids, tiny_config

VOCAB, WIDTH = 288, 64
CPU = torch.device("cpu")
NAMES = {
    "starcoder": "gpt_bigcode",
    "starcoder2": "starcoder2",
    "codellama": "llama",
    "qwen2.5-coder": "qwen2",
    "deepseek-coder": "llama",
    "codegemma": "gemma",
    "granite": "granite",
    "mistral": "mistral",
}
TIED = ("starcoder", "starcoder2", "codegemma")
TOLERANCE = {"fp32": 1e-5, "bf16": 0.03, "int8": 0.06 * coarseness()}
"""Error of the logits against float32 arithmetic on the same weights, relative to their size."""


@cache
def published(name: str) -> PreTrainedModel:
    """The model as its makers would publish it: bf16 weights, here widened to float32."""
    config = tiny_config(NAMES[name], VOCAB, width=WIDTH)
    config.tie_word_embeddings = name in TIED
    if name == "deepseek-coder":
        config.rope_parameters = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5}
    config.initializer_range = 0.12
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    parameter += 0.1 * torch.randn_like(parameter)
                parameter.copy_(parameter.bfloat16())
    return model.float().eval()


@pytest.fixture(scope="module", params=NAMES)
def saved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    directory = tmp_path_factory.mktemp(request.param)
    deepcopy(published(request.param)).bfloat16().save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text())
    config.pop("layer_types", None)  # of this library's making: published files have none
    (directory / "config.json").write_text(json.dumps(config))
    return request.param, directory


@pytest.fixture(params=["served", "library"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As it is served, by the fused pass where there is one, and by the library's modules."""
    if request.param == "library":
        monkeypatch.setattr(loader, "fusable", lambda directory: None)
    return request.param


@torch.inference_mode()
def plain(name: str, ids: list[int]) -> Tensor:
    return published(name)(torch.tensor([ids]), use_cache=False).logits[0]


def relative(mine: Tensor, theirs: Tensor) -> float:
    return float((mine - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("kernel", TOLERANCE)
def test_a_family_from_disk_gives_the_librarys_logits(saved: tuple[str, Path], kernel: str) -> None:
    name, directory = saved
    decoder = load_decoder(directory, CPU, kernel)
    assert decoder.kernel == kernel and decoder.kv.dtype == kv_dtype(decoder.kernel)
    runner = Runner(decoder, VOCAB)
    text, other = random_ids(30, vocab=VOCAB), random_ids(9, seed=1, vocab=VOCAB)
    slot = Slot(runner.kv)
    first = runner.forward([Segment(slot, text[:20]), Segment(Slot(runner.kv), other, None, (8,))])
    slot.keep(text[:20], range(20))
    second = runner.forward([Segment(slot, text[20:], None, range(10))])
    assert second.logits[0].dtype == torch.float32
    assert relative(first.logits[1][0], plain(name, other)[-1]) < TOLERANCE[kernel]
    assert relative(second.logits[0], plain(name, text)[20:]) < TOLERANCE[kernel]


def test_hidden_states_from_disk_are_the_librarys(saved: tuple[str, Path], way: str) -> None:
    name, directory = saved
    runner, ids = Runner(load_decoder(directory, CPU, "fp32"), VOCAB), random_ids(9, vocab=VOCAB)
    hidden = runner.forward([Segment(Slot(runner.kv), ids)], (0, 1, 2)).hidden
    with torch.inference_mode():
        plain = published(name)(torch.tensor([ids]), use_cache=False, output_hidden_states=True)
    assert sorted(hidden) == [0, 1, 2]
    for layer, states in hidden.items():
        assert relative(states, plain.hidden_states[layer][0]) < TOLERANCE["fp32"]


@pytest.mark.parametrize("kernel", ["int8", "bf16"])
def test_every_large_weight_is_in_the_kernels_form(
    saved: tuple[str, Path], kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "fusable", lambda directory: None)
    decoder = load_decoder(saved[1], CPU, kernel)
    assert isinstance(decoder, LibraryDecoder)
    assert isinstance(decoder.model.get_output_embeddings(), PackedLinear)
    assert isinstance(decoder.model.get_input_embeddings(), HalfEmbedding)
    modules = list(decoder.model.modules())
    assert not [m for m in modules if isinstance(m, torch.nn.Linear)]
    loose = [n for n, p in decoder.model.named_parameters() if p.dim() == 1]
    assert {decoder.model.get_parameter(n).dtype for n in loose} == {torch.float32}


def test_in_int8_a_sequence_is_the_same_to_the_bit_whatever_shares_its_pass(
    saved: tuple[str, Path], way: str
) -> None:
    runner = Runner(load_decoder(saved[1], CPU, "int8"), VOCAB)
    text, tree = random_ids(12, vocab=VOCAB), [-1, -1, 0, 1, 3]
    nodes = random_ids(5, seed=1, vocab=VOCAB)

    def result(*others: int) -> Tensor:
        slot = Slot(runner.kv)
        runner.prefill(slot, text)
        crowd = [
            Segment(Slot(runner.kv), random_ids(n, seed=n, vocab=VOCAB), None, (0,)) for n in others
        ]
        return runner.forward([*crowd, Segment(slot, nodes, tree, range(5))]).logits[-1]

    alone = result()
    for others in [(1,), (40,), (3, 1, 17)]:
        assert torch.equal(result(*others), alone)
