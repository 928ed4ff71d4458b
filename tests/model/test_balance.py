"""Outliers of a norm are shared with the weights behind it: the product stays, int8 errs less."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import rms_norm
from transformers import AutoModelForCausalLM

from completiond.model.attention import Segment
from completiond.model.balance import ROWS, Trial, column_scales
from completiond.model.fused import FusedDecoder, Shape, _Weights, fusable
from completiond.model.kv_cache import Slot
from completiond.model.quantize import FbgemmInt8, Kernel, packer
from completiond.model.runner import Runner
from tiny import tiny_config

VOCAB, LAYERS = 300, 3


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def outlying(n: int, width: int) -> Tensor:
    """Rows whose channel 3 is fifty times as large as the others."""
    x = noise(n, width, seed=1)
    x[:, 3] *= 50
    return x


def error(y: Tensor, want: Tensor) -> float:
    return float((y - want).norm() / want.norm())


def test_int8_errs_a_third_as_much_on_rows_with_an_outlying_channel() -> None:
    weight, x = noise(256, 128), outlying(16, 128)
    weight[:, 3] /= 50  # or its own column would be all that the product says
    scales = column_scales(x.abs().amax(0), weight)
    plain, balanced = FbgemmInt8(weight)(x), FbgemmInt8(weight, scales)(x / scales)
    want = x @ weight.T
    assert error(balanced, want) < error(plain, want) / 3


def test_what_has_no_outliers_is_left_nearly_as_it_is() -> None:
    weight, x = noise(4096, 128), noise(64, 128, seed=1)
    scales = column_scales(x.abs().amax(0), weight)
    want = x @ weight.T
    plain, balanced = FbgemmInt8(weight)(x), FbgemmInt8(weight, scales)(x / scales)
    assert error(balanced, want) < 1.2 * error(plain, want)


@pytest.mark.parametrize("case", ["zero norm", "zero weight", "infinite"])
def test_scales_are_ones_where_there_is_nothing_to_share(case: str) -> None:
    seen = torch.zeros(8) if case == "zero norm" else torch.ones(8)
    weight = torch.zeros(32, 8) if case == "zero weight" else torch.ones(32, 8)
    if case == "infinite":
        weight[0, 0] = torch.inf
    assert torch.equal(column_scales(seen, weight), torch.ones(8))


def test_a_channel_that_the_trial_did_not_see_gets_a_finite_scale() -> None:
    seen = torch.ones(8)
    seen[2] = 0
    scales = column_scales(seen, torch.ones(32, 8))
    assert torch.isfinite(scales).all()
    assert 0.01 < scales[2] / scales[0] < 1


@pytest.fixture(scope="module", params=["qwen2", "llama"])
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    config = tiny_config(request.param, VOCAB, LAYERS, width=64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).bfloat16()
    model.save_pretrained(path)
    return path


def shape_of(directory: Path) -> Shape:
    shape = fusable(directory)
    assert shape is not None, "this family has a fused pass"
    return shape


def test_the_trial_sees_what_the_pass_itself_computes(directory: Path) -> None:
    shape, read = shape_of(directory), _Weights(directory)
    seen = list(Trial(read, shape).magnitudes())
    assert len(seen) == 2 * LAYERS + 1
    runner = Runner(FusedDecoder(directory, shape, "fp32", packer("fp32")), shape.vocab)
    ids = [(i * 7919 + 11) % VOCAB for i in range(ROWS)]
    hidden = runner.forward([Segment(Slot(runner.kv), ids)], range(LAYERS + 1)).hidden
    for index in range(LAYERS):
        weight = read(f"model.layers.{index}.input_layernorm.weight", 64).float()
        normed = rms_norm(hidden[index], weight.shape, weight, shape.eps)
        assert torch.allclose(seen[2 * index], normed.abs().amax(0), rtol=0.1, atol=0.05)
    last = hidden[LAYERS].abs().amax(0)  # the library's state is normed there
    assert torch.allclose(seen[-1], last, rtol=0.1, atol=0.05)


def test_hidden_states_are_the_librarys_however_the_head_is_balanced(directory: Path) -> None:
    shape = shape_of(directory)
    kernels: tuple[Kernel, ...] = ("fp32", "int8")
    runners = [Runner(FusedDecoder(directory, shape, k, packer(k)), shape.vocab) for k in kernels]
    ids = list(range(5, 25))
    states = [r.forward([Segment(Slot(r.kv), ids)], [LAYERS]).hidden[LAYERS] for r in runners]
    assert error(states[1], states[0]) < 0.12


def test_balance_is_the_same_each_time(directory: Path) -> None:
    shape, read = shape_of(directory), _Weights(directory)
    first, second = (list(Trial(read, shape).magnitudes()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
