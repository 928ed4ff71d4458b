"""The audit finds nothing where there is nothing, and every bug that is put back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import pytest
import torch
from scipy.stats import chi2
from tiny_checkpoint import saved
from torch import Tensor

from completiond import config
from completiond.core import GREEDY, Draft, Sampling
from completiond.engine import siblings, verify
from completiond.engine.desk import Start
from completiond.engine.verify import Rejection
from completiond.measure import lossless, rejection
from completiond.measure.lab import Arm, Lab
from completiond.measure.lossless import Audit, sentences
from completiond.measure.rejection import (
    SAMPLERS,
    WRONG,
    Case,
    engine_fit,
    fit,
    fits,
    hardest,
    p_value,
)
from completiond.measure.spots import Spot, spots_in
from completiond.model import sampling
from completiond.model.checkpoint import describe

pytestmark = pytest.mark.slow

WARM = Sampling(temperature=0.9, seed=5)
CODE = "".join(f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(12))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A random model and a draft model of other weights, through the real loader."""
    where = tmp_path_factory.mktemp("models")
    for seed, name in enumerate(("target", "draft")):
        torch.manual_seed(seed)
        shape = {"max_position_embeddings": 512, "initializer_range": 0.3}
        saved(where / name, "qwen2", **shape)
    flags = {"engine.device": "cpu", "engine.kernel": "fp32", "engine.threads": 1}
    settings = config.load(flags | {"model.context": 400}, environ={})
    models = [describe(name, where / name).plain() for name in ("target", "draft")]
    return Lab(settings, Start("model", asdict(settings), *models))


@pytest.fixture(scope="module")
def spots(tmp_path_factory: pytest.TempPathFactory) -> list[Spot]:
    path = tmp_path_factory.mktemp("code") / "a.py"
    path.write_text(CODE)
    return spots_in([path], 4)


def audited(lab: Lab, spots: Sequence[Spot], samplings: Sequence[Sampling] = (GREEDY,)) -> Audit:
    audit = Audit(lab, buffers=2)
    for number, spot in enumerate(spots):
        question = lab.question(spot, 12)
        for how in samplings:
            audit.compare(number, question, how)
    return audit


def said(audit: Audit) -> str:
    return next(iter(sentences(list(audit.checks.values()))))


def test_the_engine_is_lossless_alone_together_greedy_and_drawn(
    lab: Lab, spots: list[Spot]
) -> None:
    audit = audited(lab, spots, (GREEDY, WARM))
    assert said(audit).startswith("Lossless: all ")
    names = {name.partition(": ")[2] for name in audit.checks}
    alone = {"recycled", "lookup", "small_model", "auto", "random", "planted"}
    assert alone <= names and "planted, 2 buffers at once" in names
    planted = audit.checks["greedy: planted"]
    assert 0 < planted.accepted < planted.drafted, "guesses held, and guesses did not"
    assert len({ran for check in audit.checks.values() for ran in [check.answers]}) == 1


def keeps_all(ids: Tensor, before: Tensor, drawn: Tensor, above: Tensor) -> Tensor:
    return torch.ones_like(ids, dtype=torch.bool)


def ignores_what_is_above(ids: Tensor, before: Tensor, drawn: Tensor, above: Tensor) -> Tensor:
    return ids == drawn[before]


@pytest.mark.parametrize("bug", [keeps_all, ignores_what_is_above])
def test_a_verifier_with_a_bug_is_not_lossless(
    lab: Lab, spots: list[Spot], bug: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "match", bug)
    audit = audited(lab, spots[:2])
    assert said(audit).startswith("NOT lossless: ")
    first = next(part for check in audit.checks.values() for part in check.divergences)
    assert first.between > 0 and not first.rounding


def test_a_small_gap_is_called_rounding(
    lab: Lab, spots: list[Spot], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "match", keeps_all)
    monkeypatch.setattr(lossless, "rounding", lambda info: 1e6)
    monkeypatch.setattr(Audit, "_planted", lambda self, cases: [Arm("none")])
    monkeypatch.setattr(Lab, "arms", lambda self: [Arm("plain"), Arm("wrong", (Sevens(),))])
    assert said(audited(lab, spots[:1])).startswith("Lossless up to rounding: 1 of 2 answers")


class Sevens:
    name = "sevens"

    def propose(self, context: object, budget: int) -> Draft:
        return Draft.chain([7] * budget, self.name)

    def observe(self, context: object, step: object) -> None:
        pass


def test_weights_explain_the_token_that_was_drawn(lab: Lab, spots: list[Spot]) -> None:
    """At every place the plain token is the largest of what the audit weighs: healed or not."""
    question = lab.question(spots[0], 12)
    for how in (GREEDY, WARM):
        ids = lab.run(Arm("plain"), [question], how)[0].ids
        for at in range(len(ids)):
            assert int(lossless.weights(lab, question, ids[:at], how).argmax()) == ids[at]


def test_nothing_is_claimed_of_nothing() -> None:
    assert list(sentences([])) == ["Nothing was compared."]


# -- the samplers -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def case(lab: Lab, spots: list[Spot]) -> Case:
    question = lab.question(spots[0], 12)
    return hardest(lab, question, lab.run(Arm("plain"), [question])[0].ids)


def test_samplers_have_the_targets_law_and_a_wrong_one_is_caught(case: Case) -> None:
    found = list(fits(case, 600))
    assert [each.name for each in found][-1] == WRONG and len(found) == 4
    assert all(each.holds for each in found), found
    assert not found[-1].fits


def softmaxed(found: Rejection) -> Rejection:
    return Rejection(found.accepted, found.residual.softmax(-1))


def of_the_target(p: Tensor, found: Rejection) -> Rejection:
    return Rejection(found.accepted, p if p.dim() == 1 else p[found.accepted])


def bugs() -> Iterator[tuple[object, str, str, Callable[..., Rejection]]]:
    places = ((verify, "reject"), (siblings, "reject_draws"), (siblings, "reject_distinct"))
    for (module, name), sampler in zip(places, SAMPLERS, strict=True):
        real = getattr(module, name)
        yield module, name, sampler, lambda p, q, i, u, real=real: softmaxed(real(p, q, i, u))
        yield (
            module,
            name,
            sampler,
            lambda p, q, i, u, real=real: of_the_target(p, real(p, q, i, u)),
        )


@pytest.mark.parametrize(("module", "name", "sampler", "bug"), list(bugs()))
def test_a_sampler_with_a_bug_does_not_fit(
    module: object,
    name: str,
    sampler: str,
    bug: Callable[..., Rejection],
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, bug)
    assert not fit(sampler, case, range(2400), SAMPLERS[sampler]).fits


def test_the_engine_draws_by_the_targets_law_with_a_draft_model(
    lab: Lab, spots: list[Spot], monkeypatch: pytest.MonkeyPatch
) -> None:
    question = lab.question(spots[0], 12)
    found = engine_fit(lab, question, 8 * 150)
    assert found is not None and found.trials == 150 and found.holds

    def accepts_all(p: Tensor, q: Tensor, ids: Tensor, uniforms: Tensor) -> Rejection:
        return Rejection(torch.tensor(len(ids)), p[-1])

    monkeypatch.setattr(verify, "reject", accepts_all)
    wrong = engine_fit(lab, question, 8 * 150)
    assert wrong is not None and not wrong.holds


def test_p_value_is_that_of_the_usual_test() -> None:
    wanted = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    counts = torch.tensor([40.0, 38.0, 22.0], dtype=torch.float64)
    expected = wanted * 100
    usual = chi2.sf(float(((counts - expected) ** 2 / expected).sum()), 2)
    assert p_value(counts, wanted) == pytest.approx(usual)
    rare = torch.tensor([0.5, 0.49, 0.006, 0.004], dtype=torch.float64)
    assert p_value(torch.tensor([50.0, 49.0, 1.0, 0.0]).double(), rare) > 0.9
    assert p_value(torch.tensor([1.0, 9.0]).double(), torch.tensor([1.0, 0.0]).double()) == 0.0


def test_draws_without_replacement_are_what_they_are_called(case: Case) -> None:
    """The first of them has q's law, and the second q's without the first."""
    q = case.q[0]
    first = torch.zeros_like(q)
    for seed in range(600):
        noisy = q.log() + sampling.gumbel(seed, 0, torch.arange(len(q)), 3)
        first[noisy.topk(2).indices[0]] += 1
    assert p_value(first, q) > rejection.SUSPECT
