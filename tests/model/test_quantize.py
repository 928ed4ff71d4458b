"""A row's linear layer depends on that row alone, to the bit, and is close to the float one."""

import gc
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from completiond.model.kernels import WAYS
from completiond.model.quantize import (
    KERNELS,
    HalfEmbedding,
    PackedLinear,
    Packer,
    largest_activation,
    quantize_rows,
    replace_linears,
    turned,
)
from tiny import coarseness

SHAPES = [(896, 896), (1216, 224), (224, 1216), (65, 33), (33, 65), (1, 7), (16, 1), (300, 127)]
"""out × in: the 0.5b's own, narrow versions of its MLP, and sizes that no kernel likes."""
WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(torch.int32), b.view(torch.int32))


def neighbours(n: int, width: int, seed: int) -> Tensor:
    """Rows of all magnitudes, among them zeros, the smallest and the largest floats."""
    sizes = torch.tensor([1.0, 0.0, 1e-30, 1e-6, 1e6, 1e30, 3e37])
    pick = torch.randint(len(sizes), (n, 1), generator=torch.Generator().manual_seed(seed))
    return noise(n, width, seed=seed) * sizes[pick]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_a_row_does_not_depend_on_its_neighbours_or_their_number(
    way: Packer, out: int, width: int
) -> None:
    multiply = way(noise(out, width))
    rows = noise(3, width, seed=1)
    alone = [multiply(row[None])[0] for row in rows]
    for n in WIDTHS:
        x = neighbours(n, width, seed=n)
        for row, want in zip(rows, alone, strict=True):
            for at in {0, n // 2, n - 1}:
                y = x.clone()
                y[at] = row
                assert same_bits(multiply(y)[at], want), f"row {at} of {n}"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("poison", [torch.inf, -torch.inf, torch.nan])
def test_a_row_that_is_not_finite_poisons_no_other(way: Packer, poison: float) -> None:
    multiply = way(noise(65, 33))
    for n in (2, 8, 32):
        x = noise(n, 33, seed=n)
        clean = multiply(x)
        x[1, 5] = poison
        y = multiply(x)
        others = [i for i in range(n) if i != 1]
        assert same_bits(y[others], clean[others])


@pytest.mark.parametrize(("out", "width"), SHAPES)
def test_both_libraries_give_the_same_bits(out: int, width: int) -> None:
    """Each shape has the one that is faster there: an answer must not depend on which."""
    weight, x = noise(out, width), neighbours(19, width, seed=3)
    by = noise(19, 1, seed=4).abs()
    for n in (1, 8, 19):
        first, *others = [make(weight)(x[:n], by[:n]) for make in WAYS.values()]
        assert all(same_bits(first, other) for other in others)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 33), st.integers(0, 1000))
def test_any_shape_is_exact_by_rows(out: int, width: int, n: int, seed: int) -> None:
    for way in WAYS.values():
        multiply = way(noise(out, width, seed=seed))
        x = neighbours(n, width, seed)
        together = multiply(x)
        assert together.shape == (n, out)
        for i in range(n):
            assert same_bits(together[i], multiply(x[i : i + 1])[0])


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("out", "width"), SHAPES)
@pytest.mark.parametrize("size", [1.0, 1e-5, 1e5])
def test_the_error_is_within_the_two_roundings(
    way: Packer, out: int, width: int, size: float
) -> None:
    """|xW - float| ≤ Σ |x| half a weight step + |w| half an activation step, both turned."""
    weight, x = noise(out, width), noise(9, width, seed=1) * size
    multiply = way(weight)
    y, exact = multiply(x), x.double() @ weight.double().T
    weight, x = turned(weight), turned(x)
    weight_step = weight.abs().amax(1).double() / 127
    row_step = x.abs().amax(1).double() / 127
    bound = 0.5 * (
        x.double().abs().sum(1)[:, None] * weight_step
        + row_step[:, None] * weight.double().abs().sum(1)
        + width * 0.5 * row_step[:, None] * weight_step
    )
    error = (y.double() - exact).abs()
    assert (error <= bound * 1.001).all()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_error_is_a_percent_in_practice(way: Packer) -> None:
    weight, x = noise(896, 896), noise(16, 896, seed=1)
    exact = x @ weight.T
    assert (way(weight)(x) - exact).norm() / exact.norm() < 0.015 * coarseness()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_rows_of_zeros_give_zeros_and_rows_of_weights_of_zeros_too(way: Packer) -> None:
    weight = noise(40, 33)
    weight[7] = 0
    y = way(weight)(torch.cat([torch.zeros(1, 33), noise(4, 33)]))
    assert (y[0] == 0).all() and (y[:, 7] == 0).all()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_rows_give_no_rows(way: Packer) -> None:
    assert way(noise(40, 33))(torch.zeros(0, 33)).shape == (0, 40)
    for kernel in KERNELS:
        layer = PackedLinear(noise(40, 33), noise(40), kernel)
        assert layer(torch.zeros(1, 0, 33)).shape == (1, 0, 40)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_row_of_the_largest_floats_stays_finite_where_the_product_is(way: Packer) -> None:
    weight = torch.eye(8)
    x = torch.full((1, 8), 3e38)
    torch.testing.assert_close(way(weight)(x), x, rtol=1e-2, atol=0)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_one_outlying_channel_costs_the_others_little(way: Packer) -> None:
    """Channel 3 is fifty times as large as the others, another one is in the next row."""
    weight, x = noise(256, 128), noise(16, 128, seed=1)
    x[range(16), range(3, 19)] *= 50
    weight[:, 3:19] /= 50  # or the outlier would be all that the product says
    exact, rows = x @ weight.T, x / x.abs().amax(1, keepdim=True)
    most = largest_activation()
    plain = (rows * most).round() / most * x.abs().amax(1, keepdim=True) @ weight.T
    assert (way(weight)(x) - exact).norm() < (plain - exact).norm() / 2


@pytest.mark.parametrize("width", [16, 48, 896])
def test_turning_both_factors_leaves_the_product(width: int) -> None:
    x, weight = noise(5, width).double(), noise(7, width, seed=1).double()
    both = turned(x.float()).double() @ turned(weight.float()).double().T
    torch.testing.assert_close(both, x @ weight.T, rtol=0, atol=1e-4)
    torch.testing.assert_close(turned(turned(x.float())), x.float(), rtol=0, atol=1e-5)
    assert (turned(x.float()) - x).abs().max() > 0.5


@pytest.mark.parametrize("width", [1, 7, 33, 50])
def test_rows_that_blocks_do_not_fill_are_not_turned(width: int) -> None:
    x = noise(3, width)
    assert turned(x) is x


@pytest.mark.parametrize("width", [48, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_quantized_weights_are_within_half_a_step_however_many_blocks(
    dtype: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = noise(100, width).to(dtype)
    original = weight.clone()
    whole = quantize_rows(weight)
    assert torch.equal(weight, original), "the caller's weight was written to"
    monkeypatch.setattr("completiond.model.quantize.BLOCK", 7 * width)
    for one, other in zip(whole, quantize_rows(weight), strict=True):
        assert torch.equal(one, other)
    values, scales = whole
    assert values.dtype == torch.int8 and values.abs().max() == 127
    error = (values.double() * scales[:, None] - turned(weight.float()).double()).abs()
    assert (error <= 0.5001 * scales[:, None]).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_replacements_answer_in_float32_in_the_callers_shape(
    bias: bool, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(33, 65, bias=bias).requires_grad_(False)
    x = noise(2, 5, 33).to(dtype)
    for kernel in KERNELS:
        y = PackedLinear(linear.weight, linear.bias, kernel)(x)
        assert y.shape == (2, 5, 65) and y.dtype == torch.float32
        most = 0.03 * (coarseness() if kernel == "int8" else 1.0)
        torch.testing.assert_close(y, linear(x.float()), rtol=0, atol=most)


class Scaled(nn.Embedding):
    """An embedding that does more than look up, as Gemma's does."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * 3


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(200, 16)
        self.small = nn.Embedding(8, 16)
        self.scaled = Scaled(200, 16)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16, bias=False))
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 200, bias=False)
        self.head.weight = self.table.weight  # tied

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids) + self.small(ids % 8) + self.scaled(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("kernel", ["int8", "bf16"])
def test_every_linear_and_large_embedding_is_replaced_and_the_net_still_means_the_same(
    kernel: str,
) -> None:
    torch.manual_seed(0)
    net = Net().requires_grad_(False)
    ids = torch.arange(30)
    before = net(ids)
    replace_linears(net, kernel)  # type: ignore[arg-type]
    assert not [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert len([m for m in net.modules() if isinstance(m, PackedLinear)]) == 5
    assert isinstance(net.table, HalfEmbedding) and isinstance(net.scaled, HalfEmbedding)
    assert isinstance(net.small, nn.Embedding)
    after = net(ids)
    assert after.dtype == torch.float32
    assert (after - before).norm() / before.norm() < 0.03


def test_fp32_replaces_nothing() -> None:
    net = Net()
    modules = list(net.modules())
    replace_linears(net, "fp32")
    assert list(net.modules()) == modules


@pytest.mark.parametrize("kernel", ["int8", "bf16"])
def test_the_weights_that_were_replaced_are_freed(kernel: str) -> None:
    net = Net()
    weights = [
        weakref.ref(p) for m in net.modules() if isinstance(m, nn.Linear) for p in [m.weight]
    ]
    replace_linears(net, kernel)  # type: ignore[arg-type]
    gc.collect()
    assert [w() for w in weights] == [None] * 5


def test_a_half_embedding_owns_its_memory() -> None:
    table = noise(200, 16).bfloat16()
    embedding = HalfEmbedding(nn.Embedding.from_pretrained(table))
    want = table[[3, 5]].float()
    table.zero_()
    assert torch.equal(embedding(torch.tensor([3, 5])), want)
