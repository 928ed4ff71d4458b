"""All rows at once, as on a device, draw what each row draws by itself."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from completiond.core import GREEDY, Sampling
from completiond.model import drawing, sampling
from completiond.model.drawing import Row, Rows, draw_rows

VOCABULARY = 500
CPU = torch.device("cpu")
SAMPLINGS = [
    GREEDY,
    Sampling(temperature=0.7, seed=1),
    Sampling(temperature=1.3, top_k=12, seed=1 << 40),
    Sampling(temperature=1.0, top_p=0.8, seed=-3),
    Sampling(temperature=2.0, top_k=100, top_p=0.5),
]


@pytest.fixture
def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(drawing, "HOST", ())
    yield


def logits_of(rows: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(rows)
    return (3 * torch.randn(rows, VOCABULARY, generator=generator)).to(dtype)


def one_by_one(logits: Tensor, rows: list[Row]) -> list[int]:
    """The law of a row, from sampling.py."""
    return [
        sampling.draw(sampling.process(line, r.sampling, r.allowed), r.sampling, r.position)
        for line, r in zip(logits, rows, strict=True)
    ]


def some(seed: int) -> Tensor:
    ids = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))
    return ids[: 1 + seed % 40].sort().values


@pytest.mark.usefixtures("as_on_a_device")
@pytest.mark.parametrize("masked", [(), (0,), (1, 4, 5), range(9)])
@pytest.mark.parametrize("how", [*([s] for s in SAMPLINGS), SAMPLINGS])
def test_rows_together_draw_what_each_draws_alone(how: list[Sampling], masked: list[int]) -> None:
    for base in (0, 77, 1 << 33):
        rows = [
            Row(how[i % len(how)], base + i, some(i) if i in masked else None) for i in range(9)
        ]
        logits = logits_of(9)
        before = logits.clone()
        drawn = Rows(rows, VOCABULARY, CPU).draw(logits)
        assert drawn.tolist() == one_by_one(logits, rows)
        assert torch.equal(logits, before), "the pass's own buffer was written to"


def test_on_the_host_rows_draw_the_same() -> None:
    rows = [Row(s, 9 + i, some(i) if i % 2 else None) for i, s in enumerate(SAMPLINGS)]
    logits = logits_of(len(rows))
    assert Rows(rows, VOCABULARY, CPU).draw(logits).tolist() == one_by_one(logits, rows)


@pytest.mark.usefixtures("as_on_a_device")
@pytest.mark.parametrize("how", SAMPLINGS[1:])
def test_processed_rows_are_each_row_processed(how: Sampling) -> None:
    rows = [Row(how, i, some(i) if i % 2 else None) for i in range(6)]
    logits = logits_of(6, torch.float64)
    alone = [
        sampling.process(line, how, row.allowed) for line, row in zip(logits, rows, strict=True)
    ]
    assert torch.equal(Rows(rows, VOCABULARY, CPU).processed(logits), torch.stack(alone))


@pytest.mark.usefixtures("as_on_a_device")
def test_greedy_takes_the_first_of_a_tie() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0], [5.0, 5.0, 5.0]])
    assert Rows([Row(GREEDY, 0)] * 2, 3, CPU).draw(logits).tolist() == [1, 0]


@pytest.mark.usefixtures("as_on_a_device")
def test_a_residual_is_drawn_with_its_own_noise_at_a_position_that_only_the_device_knows() -> None:
    how, row = SAMPLINGS[1], logits_of(1)[0]
    for position in range(30):
        got = draw_rows(row[None], how, torch.tensor([position]), sampling.RESIDUAL)
        assert int(got) == sampling.draw(row, how, position, sampling.RESIDUAL)


def test_positions_may_be_a_tensor() -> None:
    ids, places = torch.arange(40), torch.tensor([0, 5, (1 << 33) + 7])
    together = sampling.philox(9, places[:, None], ids, 2)
    for line, place in zip(together, places.tolist(), strict=True):
        assert torch.equal(line, sampling.philox(9, place, ids, 2))
