"""The verifiers are lossless: exactly by enumeration, statistically, and their mutants are not.

Each law is a function that measures a distance; the tests assert that it is nothing for the real
verifier and something for each bug that was put back in.
"""

import itertools
from collections.abc import Callable

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from completiond.core import Draft, Sampling
from completiond.engine import verify
from completiond.engine.verify import Rejection
from completiond.model import sampling
from completiond.model.attention import ancestors

Reject = Callable[[Tensor, Tensor, Tensor, Tensor], Rejection]


def distributions(count: int, size: int, seed: int, peak: float = 2.0) -> Tensor:
    noise = torch.randn(count, size, generator=torch.Generator().manual_seed(seed)).double()
    return (peak * noise).softmax(-1)


# -- rejection sampling, exactly ----------------------------------------------------------------


def chain_law(reject: Reject, p: Tensor, q: Tensor) -> Tensor:
    """The joint law [V, …, V] of the first γ+1 tokens that one verified chain leads to.

    p [γ+1, V] and q [γ, V] depend on the depth only. A token that the chain did not reach is
    drawn from the target's own p, as the next pass would.
    """
    gamma, size = q.shape
    law = torch.zeros((size,) * (gamma + 1), dtype=torch.float64)
    for ids in itertools.product(range(size), repeat=gamma):
        drafted = torch.tensor(ids)
        chance = q[range(gamma), drafted].prod()
        accept = (p[:-1][range(gamma), drafted] / q[range(gamma), drafted]).clamp(max=1)
        for n in range(gamma + 1):
            # Uniforms that accept exactly n: below every ratio before n, above the one at n.
            uniforms = torch.zeros(gamma, dtype=torch.float64)
            weight = chance * accept[:n].prod()
            if n < gamma:
                if accept[n] >= 1:
                    continue
                uniforms[n] = (1 + accept[n]) / 2
                weight = weight * (1 - accept[n])
            result = reject(p, q, drafted, uniforms)
            accepted = int(result.accepted)
            head = torch.zeros((size,) * accepted, dtype=torch.float64)
            head[ids[:accepted]] = 1
            parts = [result.residual, *p[accepted + 1 :]]
            for part in parts:
                head = head[..., None] * part
            law += weight * head
    return law


def total_variation(reject: Reject, size: int, gamma: int, seed: int) -> float:
    p, q = distributions(gamma + 1, size, seed), distributions(gamma, size, seed + 100)
    wanted = torch.ones((), dtype=torch.float64)
    for row in p:
        wanted = wanted[..., None] * row
    return float((chain_law(reject, p, q) - wanted).abs().sum() / 2)


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_rejection_of_a_chain_is_exactly_the_target(size: int, gamma: int) -> None:
    for seed in range(5):
        assert total_variation(verify.reject, size, gamma, seed) < 1e-12


def softmaxed_residual(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    n, residual = verify.reject(p, q, ids, uniforms)
    return Rejection(n, residual.softmax(-1))


def residual_of_the_target(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    n, _ = verify.reject(p, q, ids, uniforms)
    return Rejection(n, p[n])


def ratio_upside_down(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    at = torch.arange(len(ids))
    n = (uniforms * p[at, ids] < q[at, ids]).cumprod(0).sum()
    left = (p[n] - q[n]).clamp_min(0) if n < len(ids) else p[n]
    return Rejection(n, left / left.sum())


def bonus_from_the_row_before(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    n, residual = verify.reject(p, q, ids, uniforms)
    return Rejection(n, p[n - 1] if n == len(ids) else residual)


def accepts_behind_a_rejection(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    at = torch.arange(len(ids))
    n = (uniforms * q[at, ids] < p[at, ids]).sum()
    left = (p[n] - q[n]).clamp_min(0) if n < len(ids) else p[n]
    return Rejection(n, left / left.sum() if left.sum() > 0 else p[n])


@pytest.mark.parametrize(
    "mutant",
    [
        softmaxed_residual,
        residual_of_the_target,
        ratio_upside_down,
        bonus_from_the_row_before,
        accepts_behind_a_rejection,
    ],
)
def test_exact_law_catches_a_reintroduced_bug(mutant: Reject) -> None:
    assert max(total_variation(mutant, 4, 2, seed) for seed in range(5)) > 0.02


# -- rejection sampling, statistically ----------------------------------------------------------


def rejection_counts(reject: Reject, size: int, trials: int, greedy_draft: bool = False) -> Tensor:
    """How often each first token comes out of chains of two, drawn with the engine's own noise."""
    p, q = distributions(3, size, 7, peak=1.5), distributions(2, size, 8, peak=1.5)
    counts, here = torch.zeros(size), torch.zeros(1, dtype=torch.long)
    for seed in range(trials):
        sampler = Sampling(temperature=1, seed=seed)
        ids = [
            int(row.argmax()) if greedy_draft else sampling.draw(row.log(), sampler, i, 3)
            for i, row in enumerate(q)
        ]
        noise = [sampling.philox(seed, i, here, sampling.ACCEPT) for i in range(2)]
        n, residual = reject(p, q, torch.tensor(ids), torch.cat(noise))
        last = sampling.draw(residual.log(), sampler, int(n), sampling.RESIDUAL)
        counts[ids[0] if n else last] += 1
    return counts


def p_value(counts: Tensor, law: Tensor) -> float:
    wanted = law * counts.sum()
    return float(chi2.sf(((counts - wanted) ** 2 / wanted).sum(), len(law) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("size", [8, 50])
def test_rejection_sampler_passes_chi_square(size: int) -> None:
    law = distributions(3, size, 7, peak=1.5)[0]
    assert p_value(rejection_counts(verify.reject, size, 1000), law) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [softmaxed_residual, residual_of_the_target, ratio_upside_down])
def test_chi_square_catches_a_reintroduced_bug(mutant: Reject) -> None:
    law = distributions(3, 20, 7, peak=1.5)[0]
    assert p_value(rejection_counts(mutant, 20, 1000), law) < 1e-6


@pytest.mark.slow
def test_chi_square_catches_a_greedy_draft_that_is_scored_with_q() -> None:
    law = distributions(3, 20, 7, peak=1.5)[0]
    assert p_value(rejection_counts(verify.reject, 20, 1000, greedy_draft=True), law) < 1e-6


# -- sample, then match --------------------------------------------------------------------------


def walk(draft: Draft, drawn: list[int]) -> list[int]:
    """The oracle: from the root, step to the child that is what the target drew."""
    path, at = [], -1
    while True:
        for i, (token, parent) in enumerate(zip(draft.ids, draft.parents, strict=True)):
            if parent == at and token == drawn[at + 1]:
                path.append(i)
                at = i
                break
        else:
            return path


def all_trees(nodes: int, size: int) -> list[Draft]:
    """Every tree of `nodes` nodes over `size` tokens whose siblings differ."""
    trees = []
    for parents in itertools.product(*(range(-1, i) for i in range(nodes))):
        for ids in itertools.product(range(size), repeat=nodes):
            if len(set(zip(parents, ids, strict=True))) == nodes:
                trees.append(Draft(ids, parents, (0.5,) * nodes, ("t",) * nodes))
    return trees


def match(draft: Draft, drawn: list[int]) -> list[int]:
    before = torch.tensor(draft.parents, dtype=torch.long) + 1
    ids = torch.tensor(draft.ids, dtype=torch.long)
    held = verify.match(ids, before, torch.tensor(drawn), ancestors(draft.parents, len(draft)))
    return torch.nonzero(held).squeeze(1).tolist()


@pytest.mark.parametrize("nodes", [0, 1, 2, 3])
def test_match_walks_every_tree_as_far_as_the_target_goes(nodes: int) -> None:
    for draft in all_trees(nodes, 2):
        for drawn in itertools.product(range(2), repeat=nodes + 1):
            assert match(draft, list(drawn)) == walk(draft, list(drawn))


def test_sample_then_match_is_exactly_the_target_for_every_deterministic_draft() -> None:
    """Enumerated: the law of the emitted tokens under independent draws per node is p's own."""
    size = 3
    for draft in all_trees(2, size)[::3]:
        p = distributions(3, size, 5)  # one row per node, root first
        law: dict[tuple[int, ...], float] = {}
        for drawn in itertools.product(range(size), repeat=3):
            chance = float(p[range(3), list(drawn)].prod())
            path = match(draft, list(drawn))
            last = path[-1] + 1 if path else 0
            emitted = (*(draft.ids[i] for i in path), drawn[last])
            law[emitted] = law.get(emitted, 0.0) + chance
        first = torch.zeros(size, dtype=torch.float64)
        for emitted, chance in law.items():
            first[emitted[0]] += chance
        assert float((first - p[0]).abs().sum() / 2) < 1e-12


def test_fresh_resample_after_a_mismatch_is_not_the_target() -> None:
    """The bug: on a mismatch, drawing again instead of keeping the token that was drawn."""
    size, p = 8, distributions(1, 8, 3)[0]
    guess = int(p.argmax())
    law = torch.zeros(size, dtype=torch.float64)
    for token in range(size):
        law += p[token] * (p if token != guess else torch.eye(size, dtype=torch.float64)[token])
    assert float((law - p).abs().sum() / 2) > 0.05
