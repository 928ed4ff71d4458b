"""A pass on a device: the same answers, and one wait for all its sequences.

`HOST` is emptied, so that rows are drawn as on a device; recordings are those of `tape.py`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from drafts import Clairvoyant, RandomTree
from tape import Tape
from test_losslessness import (
    PROMPT,
    SAMPLINGS,
    TOKENS,
    VOCABULARY,
    EvenOnly,
    StopAfter,
    answer,
    drafters_for,
    finish,
    job,
    plain,
)
from torch.utils._python_dispatch import TorchDispatchMode

from completiond.core import CancelToken, Prompt, Sampling
from completiond.drafters.base import Drafter
from completiond.drafters.small_model import SmallModel
from completiond.engine.decode import Decoding
from completiond.engine.job import Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model import drawing
from completiond.model.graphs import GraphRunner
from completiond.model.runner import Runner
from tiny import tiny_runner


@pytest.fixture(autouse=True)
def as_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "HOST", ())


@pytest.fixture(scope="module")
def runner() -> Runner:
    return tiny_runner(vocab=VOCABULARY)


TAPE = Tape()


def graphed(seed: int = 0) -> GraphRunner:
    small = tiny_runner(vocab=VOCABULARY, seed=seed)
    return GraphRunner(small.decoder, small.vocab_size, capture=TAPE)


def core_of(*drafters: Drafter, rows: int = 16) -> ModelCore:
    """A core as on a GPU: recorded passes over a pool."""
    runner = graphed()
    return ModelCore(
        Decoding(runner, drafters, draft_tokens=7),
        runner.cache(1 << 24),
        PassSize(1e9, rows),
        context=256,
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_speculative_on_a_device_equals_plain_on_the_host(
    runner: Runner, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as host:
        host.setattr(drawing, "HOST", ("cpu",))
        truth = plain(runner, job(sampling=sampling))
        masked = plain(runner, job(sampling=sampling), mask=EvenOnly())
    one = job(sampling=sampling, hint=tuple(truth[:9]) + (1, 2, 3))
    assert len(set(truth)) > 4, "a constant answer would prove nothing"
    for name, drafters in drafters_for(runner, one, truth).items():
        assert answer(core_of(*drafters), one) == truth, name
        assert answer(core_of(*drafters), one, mask=EvenOnly()) == masked, name


def test_a_recorded_small_model_drafts_for_a_recorded_target(runner: Runner) -> None:
    before = TAPE.recorded
    for seed in (0, 5):
        core = core_of(SmallModel(graphed(seed), 1 << 22, chunk=5))
        assert answer(core, job()) == plain(runner, job())
        assert core.stats()["passes"] < TOKENS or seed
    assert TAPE.recorded > before + 2


def test_runs_of_different_sampling_in_one_pass_equal_runs_alone(runner: Runner) -> None:
    jobs = [job(i, s, prompt=Prompt(PROMPT[: 5 + 4 * i])) for i, s in enumerate(SAMPLINGS)]
    small = SmallModel(tiny_runner(vocab=VOCABULARY, seed=5), 1 << 24)
    core = core_of(RandomTree(VOCABULARY, 9), small)
    for one in jobs:
        core.admit(one, Rules(StopAfter(1 << 30), None), CancelToken())
    together = finish(core)
    assert [together[i].ids for i in range(len(jobs))] == [plain(runner, one) for one in jobs]


def test_rejection_and_matching_share_a_pass(runner: Runner) -> None:
    """Greedy runs beside one whose draft is scored by q: each as it is alone."""
    warm = Sampling(temperature=1.0, seed=3)
    jobs = [job(0), job(1, warm), job(2)]

    def drafter() -> SmallModel:
        return SmallModel(tiny_runner(vocab=VOCABULARY, seed=5), 1 << 24, rejection=True)

    alone = [answer(core_of(drafter(), rows=24), one) for one in jobs]
    core = core_of(drafter(), rows=72)
    for one in jobs:
        core.admit(one, Rules(StopAfter(1 << 30), None), CancelToken())
    together = finish(core)
    # How far a chain reaches depends on the rows that a pass leaves it, and so do its draws.
    assert [together[i].ids for i in (0, 2)] == [alone[0], alone[2]]
    assert len(together[1].ids) == TOKENS


# One wait


class _Waits(TorchDispatchMode):
    """Counts operations that read from the device or whose shape depends on what is there."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        self.count += name in ("_local_scalar_dense", "nonzero", "masked_select", "equal")
        return func(*args, **(kwargs or {}))


@contextmanager
def waits(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Waits]:
    found = _Waits()
    with monkeypatch.context() as patch, found:
        for name in ("tolist", "cpu", "numpy", "item"):
            patch.setattr(torch.Tensor, name, _counted(found, getattr(torch.Tensor, name)))
        yield found


def _counted(found: _Waits, original: Any) -> Any:
    def call(self: torch.Tensor, *args: Any) -> Any:
        found.count += 1
        return original(self, *args)

    return call


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("runs", [1, 3])
def test_a_pass_waits_once_whatever_it_holds(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, sampling: Sampling, runs: int
) -> None:
    truth = plain(runner, job(sampling=sampling))
    core = core_of(Clairvoyant(truth, wrong=3, tree=True), rows=24)
    for i in range(runs):
        core.admit(job(i, sampling), Rules(StopAfter(1 << 30), EvenOnly()), CancelToken())
    drew = 0
    while core.busy:
        before = core.stats()["tokens"]
        with waits(monkeypatch) as found:
            core.step()
        drawn = core.stats()["tokens"] > before
        assert found.count == drawn, "a chunk of prefill waits for nothing, a draw waits once"
        drew += drawn
    assert drew > 2


def test_a_chain_that_is_scored_by_q_waits_once_with_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small = SmallModel(tiny_runner(vocab=VOCABULARY, seed=5), 1 << 24, rejection=True)
    core = core_of(small, rows=72)
    for i, how in enumerate((Sampling(temperature=1.0, seed=3), Sampling())):
        core.admit(job(i, how), Rules(StopAfter(1 << 30), None), CancelToken())
    judged = 0
    real = Decoding.step.__globals__["Trial"].judge

    def judge(self: Any, *args: Any) -> Any:
        nonlocal judged
        with waits(monkeypatch) as found:
            result = real(self, *args)
        assert found.count == 1
        judged += bool(self._chains)
        return result

    monkeypatch.setattr(Decoding.step.__globals__["Trial"], "judge", judge)
    finish(core)
    assert judged > 2


def test_a_wait_too_many_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with waits(monkeypatch) as found:
        int(torch.ones(3).sum())
        torch.nonzero(torch.ones(3))
        torch.ones(3).tolist()
    assert found.count == 3
