"""Each drafter through the real core: the answer is that of plain decoding, drafts are accepted."""

from collections.abc import Sequence

import pytest

from completiond.core import GREEDY, CancelToken, Draft, Prompt, Sampling, Segment, Step
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.guarded import Guarded
from completiond.drafters.lookahead import Lookahead
from completiond.drafters.lookup import Lookup
from completiond.drafters.recycled import Recycled
from completiond.drafters.suffix import Suffix
from completiond.drafters.token_recycling import TokenRecycling
from completiond.drafters.tree import merge
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model.kv_cache import KVCache
from tiny import random_ids, tiny_runner

TOKENS = 20
PROMPT = tuple(random_ids(24))
SEGMENTS = (Segment("suffix", 0, 6), Segment("control", 6, 7), Segment("prefix", 7, 24))
WARM = Sampling(temperature=0.8, seed=1)


class Never:
    def step(self, ids: Sequence[int]) -> str | None:
        return None


class Throws:
    name = "throws"

    def __init__(self, good: int) -> None:
        self.good = good

    def propose(self, context: DraftContext, budget: int) -> Draft:
        self.good -= 1
        if self.good < 0:
            raise ValueError("a defect")
        return Draft.chain([1, 2], self.name)

    def observe(self, context: DraftContext, step: Step) -> None:
        pass


class Together:
    """Several drafters in one tree, as the decode loop has them."""

    name = "together"

    def __init__(self, *drafters: Drafter) -> None:
        self.drafters = drafters

    def propose(self, context: DraftContext, budget: int) -> Draft:
        return merge([d.propose(context, budget) for d in self.drafters], budget)

    def observe(self, context: DraftContext, step: Step) -> None:
        for drafter in self.drafters:
            drafter.observe(context, step)


def answers(
    drafters: Sequence[Drafter], sampling: Sampling, hint: Sequence[int] = (), runs: int = 2
) -> tuple[list[list[int]], dict[str, int]]:
    """The same prompt twice in two buffers, so that the second may draft from the first."""
    runner = tiny_runner()
    core = ModelCore(
        Decoding(runner, drafters, draft_tokens=12),
        KVCache(runner.kv, 1 << 24),
        PassSize(1e9, 16),
        context=len(PROMPT) + TOKENS,  # drafts have no room behind the answer
    )
    done: list[list[int]] = []
    accepted: dict[str, int] = {}
    for number in range(runs):
        job = Job(
            number, f"b{number}", "c", Prompt(PROMPT, SEGMENTS), TOKENS, sampling, hint=tuple(hint)
        )
        core.admit(job, Rules(Never(), None), CancelToken())
        while core.busy:
            for event in core.step():
                if isinstance(event, Done):
                    done.append(event.outcome.ids)
                    for name, count in event.outcome.accepted.items():
                        accepted[name] = accepted.get(name, 0) + count
    return done, accepted


def fed(*texts: Sequence[int]) -> Suffix:
    drafter = Suffix()
    for number, ids in enumerate(texts):
        drafter.feed("c", str(number), ids)
    return drafter


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_every_drafter_leaves_the_answer_as_it_is(sampling: Sampling) -> None:
    truth = answers([], sampling)[0]
    known = [*PROMPT[-4:], *truth[0]]
    wrong = [token ^ (i % 5 == 4) for i, token in enumerate(truth[0])]
    drafting: dict[str, tuple[Drafter, Sequence[int]]] = {
        "suffix": (fed(known, [*PROMPT[-3:], 1, 2, 3]), ()),
        "its last answer": (Suffix(), ()),
        "recycled": (Recycled(), truth[0]),
        "recycled, deviating": (Recycled(), wrong),
        "lookup": (Lookup(), ()),
        "lookahead": (Lookahead(), ()),
        "token recycling": (TokenRecycling(), ()),
        "together": (Together(fed(known, wrong), Lookup(), Recycled()), wrong),
    }
    for name, (drafter, hint) in drafting.items():
        got, accepted = answers([Guarded(drafter, 64)], sampling, hint)
        assert got == truth, name
        if name not in ("lookup", "lookahead", "token recycling"):
            assert sum(accepted.values()) > TOKENS // 3, name


@pytest.mark.parametrize("good", [0, 1, 5])
def test_a_drafter_that_throws_changes_no_answer(
    good: int, caplog: pytest.LogCaptureFixture
) -> None:
    guarded = Guarded(Throws(good), 64)
    assert answers([guarded, Lookup()], GREEDY)[0] == answers([], GREEDY)[0]
    assert guarded.dropped and len(caplog.records) == 1


def test_drafts_longer_than_the_context_that_is_left_are_cut() -> None:
    truth = answers([], GREEDY)[0]
    endless = fed([*PROMPT[-4:], *truth[0], *range(40)])
    assert answers([endless], GREEDY)[0] == truth
