"""A token depends on the logits, the seed, the position and nothing else, and is drawn fairly."""

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from completiond.core import Sampling
from completiond.model.sampling import (
    ACCEPT,
    DRAW,
    RESIDUAL,
    draw,
    philox,
    probabilities,
    process,
)

LOGITS = torch.tensor([1.5, -0.3, 0.0, 2.2, 0.9, -1.0, 1.4, 0.2], dtype=torch.float64)
DRAWS = 2000


def words(counter: tuple[int, int, int, int], key: tuple[int, int]) -> int:
    """The first word of Philox4x32-10 for a counter and key of 32-bit words."""
    seed, position = key[0] | key[1] << 32, counter[1] | counter[2] << 32
    uniform = philox(seed, position, torch.tensor([counter[0]]), counter[3])
    return int(uniform.item() * 2**32 - 0.5)


@pytest.mark.parametrize(
    ("counter", "key", "word"),
    [
        ((0, 0, 0, 0), (0, 0), 0x6627E8D5),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, 0x408F276D),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            0xD16CFE09,
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int, int], key: tuple[int, int], word: int
) -> None:
    assert words(counter, key) == word


def test_uniforms_are_inside_zero_and_one_and_uniform() -> None:
    u = philox(1, 2, torch.arange(100_000))
    assert u.dtype == torch.float64 and 0 < u.min() and u.max() < 1
    assert chisquare(torch.histc(u, 50, 0, 1).numpy()).pvalue > 1e-3


def test_seed_position_and_stream_each_change_the_noise() -> None:
    ids = torch.arange(50)
    noise = [
        philox(seed, position, ids, stream)
        for seed in (0, 1, 1 << 32, -1)
        for position in (0, 1, 1 << 32)
        for stream in (DRAW, ACCEPT, RESIDUAL, 3)
    ]
    assert len({tuple(row.tolist()) for row in noise}) == len(noise)


def test_noise_of_an_id_does_not_depend_on_the_other_ids_or_their_order() -> None:
    everything = philox(7, 11, torch.arange(5000))
    for ids in (torch.tensor([17]), torch.tensor([4999, 0, 17]), torch.randperm(5000)):
        assert torch.equal(philox(7, 11, ids), everything[ids])


SAMPLINGS = [
    Sampling(temperature=1.0),
    Sampling(temperature=0.3),
    Sampling(temperature=4.0),
    Sampling(temperature=1.0, top_k=3),
    Sampling(temperature=1.0, top_p=0.7),
    Sampling(temperature=1.5, top_k=6, top_p=0.8),
]


def textbook(logits: Tensor, s: Sampling) -> Tensor:
    """The distribution by its definition: temperature, then the top k, then the nucleus."""
    order = sorted(range(len(logits)), key=lambda i: -logits[i])
    weights = {i: float(torch.exp(logits[i] / s.temperature)) for i in order[: s.top_k or None]}
    total, before, p = sum(weights.values()), 0.0, torch.zeros(len(logits), dtype=torch.float64)
    for i, weight in weights.items():
        p[i] = weight if before < s.top_p * total else 0.0
        before += weight
    return p / p.sum()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_processed_logits_are_the_textbook_distribution(sampling: Sampling) -> None:
    torch.testing.assert_close(
        probabilities(process(LOGITS, sampling)), textbook(LOGITS, sampling), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("stream", [DRAW, RESIDUAL, 3])
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_draws_follow_the_distribution_over_positions(sampling: Sampling, stream: int) -> None:
    processed = process(LOGITS, sampling)
    assert_fair([draw(processed, sampling, i, stream) for i in range(DRAWS // 2)], processed)


def test_draws_follow_the_distribution_over_seeds() -> None:
    processed = process(LOGITS, SAMPLINGS[0])
    drawn = [draw(processed, Sampling(temperature=1.0, seed=i), 5) for i in range(DRAWS)]
    assert_fair(drawn, processed)


def test_neighbouring_positions_and_streams_are_independent() -> None:
    logits, sampling = torch.zeros(4), Sampling(temperature=1.0, seed=3)
    at = [draw(logits, sampling, i) for i in range(DRAWS + 1)]
    other = [draw(logits, sampling, i, RESIDUAL) for i in range(DRAWS)]
    for second in (at[1:], other):
        pairs = torch.tensor([4 * a + b for a, b in zip(at, second, strict=False)])
        assert chisquare(torch.bincount(pairs, minlength=16).numpy()).pvalue > 1e-3


def assert_fair(drawn: list[int], processed: Tensor) -> None:
    p = probabilities(processed)
    counts = torch.bincount(torch.tensor(drawn), minlength=len(p))
    kept = p > 0
    assert counts[~kept].sum() == 0, "an excluded id was drawn"
    assert chisquare(counts[kept].numpy(), (p[kept] * len(drawn)).numpy()).pvalue > 1e-3


def test_a_draw_does_not_depend_on_ids_that_lose_anyway() -> None:
    sampling = Sampling(temperature=1.0, seed=5)
    logits = torch.randn(200, generator=torch.Generator().manual_seed(0))
    for position in range(50):
        token = draw(logits, sampling, position)
        keep = torch.unique(torch.cat([torch.tensor([token]), torch.randint(200, (20,))]))
        assert draw(process(logits, sampling, keep), sampling, position) == token


def test_a_draw_is_the_same_in_float32_and_float64() -> None:
    sampling = Sampling(temperature=0.8, top_p=0.9)
    logits = torch.randn(300, generator=torch.Generator().manual_seed(0))
    for i in range(100):
        single, double = process(logits, sampling), process(logits.double(), sampling)
        assert draw(single, sampling, i) == draw(double, sampling, i)


def test_greedy_is_argmax_whatever_else_is_set() -> None:
    sampling = Sampling(temperature=0.0, top_k=1, top_p=0.1, seed=9)
    assert torch.equal(process(LOGITS, sampling), LOGITS)
    assert {draw(process(LOGITS, sampling), sampling, i) for i in range(20)} == {3}


def test_greedy_takes_the_first_of_a_tie() -> None:
    assert draw(torch.tensor([0.0, 2.0, 2.0, 2.0]), Sampling(), 0) == 1


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 0.7, 10.0])
def test_a_mask_leaves_the_allowed_ids_and_their_proportions(temperature: float) -> None:
    sampling = Sampling(temperature=temperature)
    allowed = torch.tensor([1, 2, 6])
    processed = process(LOGITS, sampling, allowed)
    p = probabilities(processed)
    assert torch.nonzero(processed > -torch.inf).squeeze(1).tolist() == [1, 2, 6]
    want = (LOGITS[allowed] / (temperature or 1.0)).softmax(0)
    torch.testing.assert_close(p[allowed], want, rtol=0, atol=1e-12)
    assert {draw(processed, sampling, i) for i in range(50)} <= {1, 2, 6}


@pytest.mark.parametrize("top_p", [1e-9, 0.1, 0.5])
def test_top_p_always_keeps_the_first_token(top_p: float) -> None:
    sampling = Sampling(temperature=1.0, top_p=top_p)
    logits = torch.tensor([0.0, 9.0, 1.0])
    assert torch.nonzero(process(logits, sampling) > -torch.inf).squeeze(1).tolist() == [1]


def test_top_p_keeps_the_token_that_crosses_the_line_and_none_behind_it() -> None:
    logits = torch.tensor([0.5, 0.25, 0.15, 0.1], dtype=torch.float64).log()
    for top_p, kept in [(0.49, 1), (0.51, 2), (0.74, 2), (0.76, 3), (0.95, 4)]:
        processed = process(logits, Sampling(temperature=1.0, top_p=top_p))
        assert int((processed > -torch.inf).sum()) == kept


def test_top_p_stops_on_the_line_and_takes_the_first_of_a_tie() -> None:
    processed = process(torch.zeros(4), Sampling(temperature=1.0, top_p=0.5))
    assert torch.nonzero(processed > -torch.inf).squeeze(1).tolist() == [0, 1]


def test_top_p_counts_within_the_top_k() -> None:
    logits = torch.zeros(10, dtype=torch.float64)
    logits[:2] = 1e-3
    processed = process(logits, Sampling(temperature=1.0, top_k=2, top_p=0.6))
    assert torch.nonzero(processed > -torch.inf).squeeze(1).tolist() == [0, 1]


def test_a_tie_at_the_edge_of_top_k_keeps_all_that_tie() -> None:
    processed = process(torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0]), Sampling(temperature=1.0, top_k=2))
    assert torch.nonzero(processed > -torch.inf).squeeze(1).tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize("top_k", [0, 8, 100])
def test_a_top_k_of_zero_or_of_the_vocabulary_keeps_all(top_k: int) -> None:
    kept = process(LOGITS, Sampling(temperature=1.0, top_k=top_k))
    assert torch.equal(kept, LOGITS - LOGITS.max())


def test_a_top_k_larger_than_the_mask_keeps_the_mask() -> None:
    processed = process(LOGITS, Sampling(temperature=1.0, top_k=5), torch.tensor([0, 7]))
    assert torch.nonzero(processed > -torch.inf).squeeze(1).tolist() == [0, 7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_tiny_temperature_is_greedy_and_a_huge_one_is_uniform(dtype: torch.dtype) -> None:
    logits = (LOGITS * 40).to(dtype)
    cold, hot = Sampling(temperature=1e-6, top_p=0.9), Sampling(temperature=1e6)
    assert {draw(process(logits, cold), cold, i) for i in range(50)} == {3}
    assert probabilities(process(logits, cold)).isfinite().all()
    torch.testing.assert_close(
        probabilities(process(logits, hot)), torch.full((8,), 0.125).double(), rtol=1e-3, atol=0
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("coldness", [1e-38, 1e-45, 5e-324])
def test_what_is_nothing_in_the_logits_precision_is_greedy(
    dtype: torch.dtype, coldness: float
) -> None:
    logits = (LOGITS * 40).to(dtype)
    for sampling in (Sampling(temperature=coldness), Sampling(temperature=1.0, top_p=coldness)):
        processed = process(logits, sampling)
        assert not processed.isnan().any()
        assert {draw(processed, sampling, i) for i in range(20)} == {3}


def test_processing_leaves_the_logits_as_they_were() -> None:
    logits = LOGITS.clone()
    process(logits, Sampling(temperature=0.5, top_k=3, top_p=0.5), torch.tensor([1, 2, 3, 4]))
    assert torch.equal(logits, LOGITS)
