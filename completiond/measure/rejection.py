"""The rejection samplers on a model's own distributions: does what they draw have the target's law?

A chi-square test of first tokens against the target's probabilities, with noise of fixed seeds.
Beside the samplers a wrong one is judged, which must fail: else the test would show nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from completiond.core import Sampling
from completiond.drafters.small_model import INDEPENDENT, SmallModel
from completiond.engine import siblings, verify
from completiond.engine.verify import Rejection
from completiond.measure.lab import Arm, Lab, Question
from completiond.measure.lossless import processed
from completiond.model import sampling as law

DRAWN = Sampling(temperature=1.0, top_k=12)
"""Few tokens, so that each is drawn often enough to be counted."""
FLAT, LATE = 2.0, 0.8
"""Of the stand-in for a draft model: its temperature, and the part of it that is a token ahead. A
draft that is mostly right would hide what a wrong sampler does with the rest."""
DRAWS, GAMMA = 3, 2
"""Tokens drawn behind one row, and in one chain."""
PLACES = 8
"""Tokens of an answer in front of which the laws are looked at."""
STRIDE = 1 << 24
"""Between the seeds of two samplers, so that each is judged by noise of its own."""
EXPECTED = 5.0
"""Least expected count of a cell; rarer tokens share one."""
SUSPECT = 1e-4
"""A sampler whose counts are less likely than this is wrong; noise is fixed, so are the counts."""
ENGINE_RUNS = 8
"""One run of the engine for so many trials of a sampler: a run is two passes."""


class Fit(NamedTuple):
    """How likely counts as far from the law as these are. `wanted`: whether it should fit."""

    name: str
    trials: int
    p_value: float
    wanted: bool = True

    @property
    def fits(self) -> bool:
        return self.p_value >= SUSPECT

    @property
    def holds(self) -> bool:
        return self.fits == self.wanted


class Case(NamedTuple):
    """Target rows [γ+1, K] and draft rows [γ, K] over the K tokens that either may draw."""

    p: Tensor
    q: Tensor


def hardest(lab: Lab, question: Question, truth: Sequence[int]) -> Case:
    """Of the first places of an answer, the one at which target and draft differ most: where a
    draft is mostly right, a wrong sampler draws mostly what the right one does.

    The draft is a poor one: the target flattened, and mostly a token ahead.
    """
    every = replace(DRAWN, top_k=0)
    rows = [processed(lab, question, truth[:at], every) for at in range(min(PLACES, len(truth)))]
    while len(rows) < GAMMA + 1:
        rows.append(rows[-1])
    return max((_case(rows[at : at + GAMMA + 1]) for at in range(len(rows) - GAMMA)), key=_apart)


def _case(rows: Sequence[Tensor]) -> Case:
    kept = torch.cat([row.topk(min(DRAWN.top_k, len(row))).indices for row in rows]).unique()
    logits = torch.stack([row[kept] for row in rows])
    flat = law.probabilities(logits / FLAT)
    return Case(law.probabilities(logits), (1 - LATE) * flat[:-1] + LATE * flat[1:])


def _apart(case: Case) -> float:
    return float((case.p[0] - case.q[0]).abs().sum())


def fits(case: Case, trials: int) -> Iterator[Fit]:
    """Each sampler, and last the wrong one."""
    for number, (name, trial) in enumerate(SAMPLERS.items()):
        yield fit(name, case, range(number * STRIDE, number * STRIDE + trials), trial)
    yield fit(WRONG, case, range(trials), _accepts_all)._replace(wanted=False)


def engine_fit(lab: Lab, question: Question, trials: int) -> Fit | None:
    """The whole engine with the draft model's own draws; None without a draft model."""
    small = next((d for d in lab.drafters if isinstance(d, SmallModel)), None)
    if small is None:
        return None
    lab.draft_all()
    rejecting = SmallModel(small.runner, small.cache.budget, rejection=True)
    arm, short = Arm("rejection", (rejecting,)), question.free().first(2)
    wanted = law.probabilities(processed(lab, short, (), DRAWN))
    counts = torch.zeros_like(wanted)
    for seed in range(max(1, trials // ENGINE_RUNS)):
        ran = lab.run(arm, [short], replace(DRAWN, seed=seed))[0]
        counts[ran.ids[0]] += 1
    return Fit("the engine with the draft model", int(counts.sum()), p_value(counts, wanted))


Trial = Callable[[Case, int], int]


def fit(name: str, case: Case, seeds: range, trial: Trial) -> Fit:
    counts = torch.zeros_like(case.p[0])
    for seed in seeds:
        counts[trial(case, seed)] += 1
    return Fit(name, len(seeds), p_value(counts, case.p[0]))


def p_value(counts: Tensor, wanted: Tensor) -> float:
    """Of Pearson's chi-square; a token that the law excludes makes it 0."""
    if bool((counts[wanted == 0] > 0).any()):
        return 0.0
    expected = wanted * counts.sum()
    common = expected >= EXPECTED
    cells, of = counts[common], expected[common]
    rare, of_rare = counts[~common].sum(), expected[~common].sum()
    if float(of_rare) > 0:
        cells, of = torch.cat([cells, rare[None]]), torch.cat([of, of_rare[None]])
    if len(cells) < 2:
        return 1.0
    distance = ((cells - of) ** 2 / of).sum()
    return float(torch.special.gammaincc(torch.tensor((len(cells) - 1) / 2.0), distance / 2))


def _chain(case: Case, seed: int) -> int:
    ids = torch.stack([_drawn(row, seed, place) for place, row in enumerate(case.q)])
    uniforms = torch.cat([_uniforms(seed, place, 1) for place in range(len(ids))])
    return _first(ids, verify.reject(case.p, case.q, ids, uniforms), seed)


def _draws(case: Case, seed: int) -> int:
    ids = torch.stack([_drawn(case.q[0], seed, place) for place in range(DRAWS)])
    uniforms = _uniforms(seed, 0, DRAWS)
    return _picked(ids, siblings.reject_draws(case.p[0], case.q[0], ids, uniforms), seed)


def _distinct(case: Case, seed: int) -> int:
    """The largest of one noisy row are draws without replacement (Gumbel's top k)."""
    ids = (case.q[0].log() + _noise(len(case.q[0]), seed, 0)).topk(DRAWS).indices
    uniforms = _uniforms(seed, 0, DRAWS)
    return _picked(ids, siblings.reject_distinct(case.p[0], case.q[0], ids, uniforms), seed)


def _accepts_all(case: Case, seed: int) -> int:
    return int(_drawn(case.q[0], seed, 0))


def _first(ids: Tensor, found: Rejection, seed: int) -> int:
    """The first token of a verified chain."""
    return int(ids[0]) if int(found.accepted) else _residual(found, seed)


def _picked(ids: Tensor, found: Rejection, seed: int) -> int:
    kept = int(found.accepted)
    return int(ids[kept]) if kept < len(ids) else _residual(found, seed)


def _residual(found: Rejection, seed: int) -> int:
    return law.draw(found.residual.log(), replace(DRAWN, seed=seed), 0, law.RESIDUAL)


def _drawn(row: Tensor, seed: int, place: int) -> Tensor:
    return (row.log() + _noise(len(row), seed, place)).argmax()


def _noise(size: int, seed: int, place: int) -> Tensor:
    return law.gumbel(seed, place, torch.arange(size), INDEPENDENT)


def _uniforms(seed: int, place: int, count: int) -> Tensor:
    return law.philox(seed, place, torch.arange(count), law.ACCEPT)


SAMPLERS: dict[str, Trial] = {
    "a chain (Leviathan, Chen)": _chain,
    "independent draws (SpecInfer)": _draws,
    "draws without replacement (Sequoia)": _distinct,
}
WRONG = "a sampler with a bug put in"
