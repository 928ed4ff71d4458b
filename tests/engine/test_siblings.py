"""Rejection sampling of several draws a row: exactly the target, and every bug put back is seen.

The laws are enumerated: every tree that can be drawn, every way in which its walk can end.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
import torch
from test_verify import distributions, p_value
from torch import Tensor

from completiond.core import Sampling
from completiond.engine import verify
from completiond.engine.siblings import Siblings, reject_distinct, reject_draws, reject_tree
from completiond.engine.verify import Rejection
from completiond.model import sampling
from completiond.model.attention import ancestors

pytestmark = pytest.mark.slow

DISTINCT = {reject_draws: False, reject_distinct: True}


class Shape(NamedTuple):
    """A tree in which every row of a level has the same number of children."""

    parents: tuple[int, ...]
    depth: int

    @classmethod
    def of(cls, widths: Sequence[int]) -> "Shape":
        parents: list[int] = []
        level = [-1]
        for width in widths:
            start = len(parents)
            parents += [parent for parent in level for _ in range(width)]
            level = list(range(start, len(parents)))
        return cls(tuple(parents), len(widths))

    def children(self, row: int) -> list[int]:
        return [node for node, parent in enumerate(self.parents) if parent == row - 1]


class World:
    """p and q behind every path of tokens: different ones, so that a wrong row shows."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self._seed = size, seed

    def p(self, path: tuple[int, ...]) -> Tensor:
        return self._row(path, 1)

    def q(self, path: tuple[int, ...]) -> Tensor:
        return self._row(path, 2)

    def _row(self, path: tuple[int, ...], kind: int) -> Tensor:
        return distributions(1, self.size, hash((self._seed, kind, path)) % 1_000_003)[0]


def drawn(q: Tensor, ids: Sequence[int], distinct: bool) -> float:
    """The chance of drawing `ids` from q one after the other."""
    chance, left = 1.0, q.clone()
    for token in ids:
        chance *= float(left[token] / left.sum()) if left.sum() > 0 else 0.0
        if distinct:
            left[token] = 0
    return chance


def ratios(p: Tensor, q: Tensor, ids: Sequence[int], distinct: bool) -> list[float]:
    """The oracle: with what chance each of `ids` is kept if those before it were not."""
    found = []
    for token in ids:
        found.append(min(1.0, float(p[token] / q[token])))
        left = (p - q).clamp(min=0)
        p = left / left.sum() if left.sum() > 0 else p
        if distinct:
            q = q.clone()
            q[token] = 0
            q = q / q.sum() if q.sum() > 0 else q
    return found


class Rows(NamedTuple):
    p: Tensor
    q: Tensor
    ids: Tensor
    chance: float


def trees(world: World, shape: Shape, distinct: bool) -> Iterator[Rows]:
    """Every tree of the shape that can be drawn."""
    for ids in itertools.product(range(world.size), repeat=len(shape.parents)):
        paths: list[tuple[int, ...]] = [()]
        for token, parent in zip(ids, shape.parents, strict=True):
            paths.append((*paths[parent + 1], token))
        q = [world.q(path) for path in paths]
        chance = 1.0
        for row in range(len(paths)):
            below = [ids[node] for node in shape.children(row)]
            chance *= drawn(q[row], below, distinct)
        if chance > 0:
            p = torch.stack([world.p(path) for path in paths])
            yield Rows(p, torch.stack(q), torch.tensor(ids), chance)


def endings(rows: Rows, shape: Shape, distinct: bool) -> Iterator[tuple[float, dict[int, float]]]:
    """Every way in which a walk can end: its chance, and uniforms that make it so."""

    def below(row: int, chance: float, set_: dict[int, float]) -> Iterator[tuple[float, dict]]:  # type: ignore[type-arg]
        nodes = shape.children(row)
        kept = ratios(rows.p[row], rows.q[row], rows.ids[nodes].tolist(), distinct)
        for node, ratio in zip(nodes, kept, strict=True):
            if ratio > 0:
                yield from below(node + 1, chance * ratio, set_ | {node: ratio / 2})
            chance *= 1 - ratio
            if chance == 0:
                return
            set_ = set_ | {node: (1 + ratio) / 2}
        yield chance, set_

    yield from below(0, 1.0, {})


def tree_law(siblings: Siblings, distinct: bool, world: World, shape: Shape) -> Tensor:
    """The joint law [V, …, V] of the depth + 1 tokens behind the root that one pass leads to."""
    law = torch.zeros((world.size,) * (shape.depth + 1), dtype=torch.float64)
    above = ancestors(shape.parents, len(shape.parents))
    for rows in trees(world, shape, distinct):
        for chance, fixed in endings(rows, shape, distinct):
            uniforms = torch.full((len(shape.parents),), 0.5, dtype=torch.float64)
            for node, uniform in fixed.items():
                uniforms[node] = uniform
            kept, residual = reject_tree(
                rows.p,
                rows.q,
                rows.ids,
                uniforms,
                parents=shape.parents,
                above=above,
                siblings=siblings,
            )
            path = tuple(rows.ids[kept].tolist())
            for token in range(world.size):
                weight = rows.chance * chance * float(residual[token])
                law[(*path, token)] += weight * rest(world, (*path, token), shape.depth)
    return law


def rest(world: World, path: tuple[int, ...], depth: int) -> Tensor:
    """The target's own law behind `path`, as the next passes would draw it."""
    if len(path) > depth:
        return torch.ones((), dtype=torch.float64)
    return torch.stack(
        [chance * rest(world, (*path, token), depth) for token, chance in enumerate(world.p(path))]
    )


def total_variation(
    siblings: Siblings, distinct: bool, size: int, widths: Sequence[int], seed: int = 0
) -> float:
    world, shape = World(size, seed), Shape.of(widths)
    wanted = rest(world, (), shape.depth)
    return float((tree_law(siblings, distinct, world, shape) - wanted).abs().sum() / 2)


SHAPES = [
    (2, (1,)),
    (4, (2,)),
    (4, (3,)),
    (4, (1, 1)),
    (3, (2, 1)),
    (2, (2, 2)),
    (2, (1, 2, 1)),
    (2, (2, 1, 1)),
    (3, (1, 1, 2)),
]


@pytest.mark.parametrize("siblings", [reject_draws, reject_distinct])
@pytest.mark.parametrize(("size", "widths"), SHAPES)
def test_a_verified_tree_is_exactly_the_target(
    siblings: Siblings, size: int, widths: tuple[int, ...]
) -> None:
    assert total_variation(siblings, DISTINCT[siblings], size, widths) < 1e-12


def test_one_draw_a_row_is_the_chain_verifier() -> None:
    p, q = distributions(4, 6, 1), distributions(4, 6, 2)
    parents, above = (-1, 0, 1), ancestors((-1, 0, 1), 3)
    random = torch.Generator().manual_seed(3)
    for _ in range(50):
        ids = torch.randint(6, (3,), generator=random)
        uniforms = torch.rand(3, generator=random, dtype=torch.float64)
        chain = verify.reject(p, q[:3], ids, uniforms)
        for siblings in DISTINCT:
            kept, law = reject_tree(
                p, q, ids, uniforms, parents=parents, above=above, siblings=siblings
            )
            assert int(kept.sum()) == int(chain.accepted)
            torch.testing.assert_close(law, chain.residual)


# -- bugs put back ----------------------------------------------------------------------------


def softmaxed_residual(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    n, residual = reject_draws(p, q, ids, uniforms)
    return Rejection(n, residual.softmax(-1))


def every_draw_meets_the_whole_target(
    p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor
) -> Rejection:
    kept = uniforms * q[ids] < p[ids]
    left = (p - q).clamp_min(0)
    return Rejection((~kept).cumprod(0).sum(), left / left.sum())


def one_residual_for_all(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """The draws are judged rightly, the last token is drawn as if there had been one draw."""
    n, _ = reject_draws(p, q, ids, uniforms)
    left = (p - q).clamp_min(0)
    return Rejection(n, left / left.sum())


def likeliest_first(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """A sampled token may not be looked at before it is judged."""
    order = p[ids].argsort(descending=True, stable=True)
    n, residual = reject_draws(p, q, ids[order], uniforms)
    return Rejection(order[n] if int(n) < len(ids) else n, residual)


def q_stays_whole(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    return reject_draws(p, q, ids, uniforms)


def q_loses_the_token_too_early(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
    """The residual is taken with the q of the next draw instead of this one's."""
    kept = []
    for token, uniform in zip(ids, uniforms, strict=True):
        kept.append(bool(uniform * q[token] < p[token]))
        q = q.index_fill(0, token, 0)
        q = q / q.sum()
        left = (p - q).clamp_min(0)
        p = left / left.sum()
    first = kept.index(True) if True in kept else len(kept)
    return Rejection(torch.tensor(first), p)


BUGS: list[tuple[Siblings, bool]] = [
    (softmaxed_residual, False),
    (every_draw_meets_the_whole_target, False),
    (one_residual_for_all, False),
    (likeliest_first, False),
    (q_stays_whole, True),
    (q_loses_the_token_too_early, True),
    (reject_distinct, False),
]


@pytest.mark.parametrize(("bug", "distinct"), BUGS)
def test_the_exact_law_catches_a_reintroduced_bug(bug: Siblings, distinct: bool) -> None:
    assert max(total_variation(bug, distinct, 4, (2,), seed) for seed in range(4)) > 0.01


def test_the_exact_law_catches_a_node_kept_below_one_that_was_not() -> None:
    """The walk's own bug: a level is judged without the level above it."""
    shape = Shape.of((2, 1))
    world, above = World(3, 0), torch.eye(4, dtype=torch.bool)
    wrong = 0
    for rows in itertools.islice(trees(world, shape, False), 40):
        uniforms = torch.full((4,), 0.5, dtype=torch.float64)
        kept, _ = reject_tree(
            rows.p,
            rows.q,
            rows.ids,
            uniforms,
            parents=shape.parents,
            above=above,
            siblings=reject_draws,
        )
        nodes = torch.nonzero(kept).squeeze(1).tolist()
        wrong += any(shape.parents[n] >= 0 and shape.parents[n] not in nodes for n in nodes)
    assert wrong


# -- statistically ------------------------------------------------------------------------------


def counts(siblings: Siblings, distinct: bool, size: int, trials: int) -> tuple[Tensor, Tensor]:
    """How often each token comes out behind a row with two draws, by the engine's own noise."""
    p, q = (distributions(1, size, seed, peak=1.2)[0] for seed in (17, 19))
    found, places = torch.zeros(size), torch.arange(2)
    for seed in range(trials):
        ids = draws(q, seed, distinct)
        uniforms = sampling.philox(seed, 0, places, sampling.ACCEPT)
        n, residual = siblings(p, q, ids, uniforms)
        sampler = Sampling(temperature=1, seed=seed)
        last = sampling.draw(residual.log(), sampler, 0, sampling.RESIDUAL)
        found[int(ids[n]) if int(n) < 2 else last] += 1
    return found, p


def draws(q: Tensor, seed: int, distinct: bool) -> Tensor:
    """Two tokens: independent ones, or the largest two of one noisy row (Gumbel's top k)."""
    every = torch.arange(len(q))
    if distinct:
        noise = sampling.gumbel(seed, 0, every, 3)
        return (q.log() + noise).topk(2).indices
    noisy = [q.log() + sampling.gumbel(seed, place, every, 3) for place in range(2)]
    return torch.stack([row.argmax() for row in noisy])


@pytest.mark.parametrize("siblings", [reject_draws, reject_distinct])
@pytest.mark.parametrize("size", [8, 50])
def test_several_draws_pass_chi_square(siblings: Siblings, size: int) -> None:
    assert p_value(*counts(siblings, DISTINCT[siblings], size, 600)) > 1e-3


@pytest.mark.parametrize(("bug", "distinct"), BUGS)
def test_chi_square_catches_a_reintroduced_bug(bug: Siblings, distinct: bool) -> None:
    assert p_value(*counts(bug, distinct, 6, 900)) < 1e-3
