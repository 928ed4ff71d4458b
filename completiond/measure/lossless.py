"""Whether answers with drafts equal plain decoding, token by token, on a real model.

Greedy, and at a temperature by shared noise: noise depends on (seed, position) alone, so that the
drafted answer must be the plain one in both. Where two answers part, the target is asked again how
near its two tokens were: rounding can only turn what is all but equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from completiond.core import GREEDY, Sampling
from completiond.measure.lab import PLAIN, Arm, Lab, Question, buffer_name
from completiond.measure.passes import Ran
from completiond.measure.planted import ByBuffer, Clairvoyant, RandomTree
from completiond.model import sampling as law

CHUNK = 256
"""Rows of a pass in which a prompt is computed again."""
ROUNDING = {"int8": 0.0, "fp32": 1e-3}
"""By kernel: how far apart two logits may be that rounding turns. Sums of int8 have none."""
OTHER_ROUNDING = 0.25
"""Of kernels in 16 bits: two steps of a logit between 16 and 32 in bf16."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a run left plain decoding, and what the target thought of the two tokens there.

    `gap` lies between its two best ones, `between` between the two that were taken; logits.
    """

    check: str
    spot: int
    at: int
    gap: float
    between: float
    rounding: bool


@dataclass(slots=True)
class Check:
    """One way of decoding, compared with plain decoding over all spots."""

    name: str
    answers: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    divergences: list[Divergence] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": self.answers,
            "tokens": self.tokens,
            "drafted": self.drafted,
            "accepted": self.accepted,
            "divergences": [
                {
                    "spot": found.spot,
                    "token": found.at,
                    "top2_gap": round(found.gap, 5),
                    "between": round(found.between, 5),
                    "rounding": found.rounding,
                }
                for found in self.divergences
            ],
        }


class Case(NamedTuple):
    """A question, its number, and its plain answer."""

    spot: int
    question: Question
    truth: list[int]


class Audit:
    """`compare` spot by spot; what was found so far is in `checks`."""

    def __init__(self, lab: Lab, buffers: int) -> None:
        lab.draft_all()
        self._lab = lab
        self._buffers = buffers
        self._waiting: dict[Sampling, list[Case]] = {}
        self._longest: Case | None = None
        self.checks: dict[str, Check] = {}

    def compare(self, spot: int, question: Question, sampling: Sampling) -> None:
        """Each drafter alone, all together, a random one, and one that is right until it errs."""
        how = "greedy" if sampling == GREEDY else f"temperature {sampling.temperature:g}"
        case = Case(spot, question, self._lab.run(Arm(PLAIN), [question], sampling)[0].ids)
        if self._longest is None or len(case.truth) > len(self._longest.truth):
            self._longest = case
        for arm in [*self._lab.arms()[1:], *self._planted([case])]:
            # A client of its own for each spot: a policy must not learn to distrust the drafts.
            ran = self._lab.run(arm, [question], sampling, f"{arm.name} {spot}")[0]
            self._judge(f"{how}: {arm.name}", case, ran, sampling)
        waiting = self._waiting.setdefault(sampling, [])
        waiting.append(case)
        if len(waiting) == self._buffers > 1:
            self._together(how, waiting, sampling)
            waiting.clear()

    def example(self) -> tuple[Question, list[int]]:
        """A question that was asked, and its plain answer: the longest one."""
        assert self._longest is not None, "nothing was compared yet"
        return self._longest.question, self._longest.truth

    def _together(self, how: str, cases: Sequence[Case], sampling: Sampling) -> None:
        """Several buffers in the same passes; each answer is its own all the same."""
        for arm in [self._lab.arms()[-1], self._planted(cases)[-1]]:
            runs = self._lab.run(arm, [case.question for case in cases], sampling)
            name = f"{how}: {arm.name}, {len(cases)} buffers at once"
            for case, ran in zip(cases, runs, strict=True):
                self._judge(name, case, ran, sampling)

    def _planted(self, cases: Sequence[Case]) -> list[Arm]:
        vocabulary = self._lab.core.decoding.runner.vocab_size
        knowing = {
            buffer_name(place): Clairvoyant(
                case.truth, wrong=case.spot % 5, tree=True, vocabulary=vocabulary
            )
            for place, case in enumerate(cases)
        }
        stray = RandomTree(vocabulary, cases[0].spot)
        return [Arm(stray.name, (stray,)), Arm(ByBuffer.name, (ByBuffer(knowing),))]

    def _judge(self, name: str, case: Case, ran: Ran, sampling: Sampling) -> None:
        check = self.checks.setdefault(name, Check(name))
        check.answers += 1
        check.tokens += len(ran.ids)
        check.drafted += sum(ran.outcome.drafted.values())
        check.accepted += sum(ran.outcome.accepted.values())
        if ran.ids != case.truth:
            check.divergences.append(self._parted(name, case, ran.ids, sampling))

    def _parted(self, name: str, case: Case, ids: list[int], sampling: Sampling) -> Divergence:
        at = next(
            (n for n, pair in enumerate(zip(case.truth, ids, strict=False)) if pair[0] != pair[1]),
            min(len(case.truth), len(ids)),
        )
        if at == min(len(case.truth), len(ids)):  # one goes on where the other ended
            return Divergence(name, case.spot, at, 0.0, float("inf"), False)
        weighed = weights(self._lab, case.question, case.truth[:at], sampling)
        first, second = weighed.topk(2).values.tolist()
        between = abs(float(weighed[case.truth[at]] - weighed[ids[at]]))
        limit = rounding(self._lab.info) / (sampling.temperature or 1.0)
        return Divergence(name, case.spot, at, first - second, between, between <= limit)


def rounding(info: Mapping[str, Any]) -> float:
    return (
        ROUNDING.get(info["kernel"], OTHER_ROUNDING) if info["device"] == "cpu" else OTHER_ROUNDING
    )


def weights(lab: Lab, question: Question, ids: Sequence[int], sampling: Sampling) -> Tensor:
    """What the next token is the largest of, [V]: the processed logits, noise added above 0."""
    logits = processed(lab, question, ids, sampling)
    if sampling.temperature == 0:
        return logits
    position = len(question.built.prompt.ids) + len(ids)
    every = torch.arange(len(logits))
    return logits + law.gumbel(sampling.seed, position, every, law.DRAW)


def processed(lab: Lab, question: Question, ids: Sequence[int], sampling: Sampling) -> Tensor:
    """The target's processed logits [V] behind a prompt and `ids`, from a slot of the audit's."""
    text = [*question.built.prompt.ids, *ids]
    slot = lab.core.cache.acquire("audit", len(text))
    try:
        for start in range(slot.rewind(text), len(text), CHUNK):
            logits = lab.core.decoding.runner.prefill(slot, text[start : start + CHUNK])
    finally:
        slot.release()
    mask = lab.mask(question)
    allowed = law.index_of(mask.allowed(ids) if mask else None, len(logits))
    return law.process(logits.double().cpu(), sampling, allowed)


def sentences(checks: Sequence[Check]) -> Iterator[str]:
    """What was found, in plain words."""
    answers = sum(check.answers for check in checks)
    tokens = sum(check.tokens for check in checks)
    parted = [found for check in checks for found in check.divergences]
    wrong = [found for found in parted if not found.rounding]
    accepted = sum(check.accepted for check in checks)
    if not answers:
        yield "Nothing was compared."
    elif not parted:
        yield f"Lossless: all {answers} answers ({tokens} tokens) equal plain decoding."
    elif not wrong:
        most = max(found.between for found in parted)
        yield (
            f"Lossless up to rounding: {len(parted)} of {answers} answers leave plain decoding, "
            f"each where the two tokens were within {most:.3g} of one another."
        )
    else:
        first = wrong[0]
        yield (
            f"NOT lossless: {len(wrong)} of {answers} answers leave plain decoding by more than "
            f"rounding, first in `{first.check}` at token {first.at + 1} of spot "
            f"{first.spot + 1}; please report this with the output of --json."
        )
    if answers and accepted:
        yield f"{accepted} drafted tokens were accepted on the way."
    elif answers:
        yield "No drafted token was accepted, so this proves little; give more --prompts."
