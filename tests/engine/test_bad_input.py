"""Speculation at the edges of what may be asked: hot, cold and narrow sampling, no room for drafts.

Through the real core on a tiny model in double precision: the answer is that of plain decoding.
"""

import pytest

from completiond.core import CancelToken, Outcome, Prompt, Sampling
from completiond.drafters.policies import FixedK
from completiond.drafters.suffix import Suffix
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.errors import EngineError
from completiond.model.kv_cache import KVCache
from tiny import random_ids, tiny_runner

CONTEXT = 40
PROMPT = random_ids(24, seed=3)


class Never:
    def step(self, ids: object) -> None:
        return None


def answer(sampling: Sampling, known: list[int], tokens: int, draft: int = 64) -> Outcome:
    """The answer with up to `draft` drafted tokens of a text that says `known`."""
    runner, suffix = tiny_runner(), Suffix()
    suffix.feed("c", "file", [*PROMPT[-3:], *known])
    cache = KVCache(runner.kv, 1 << 24)
    drafters = [suffix] if draft else []
    decoding = Decoding(runner, drafters, draft, FixedK(draft))
    core = ModelCore(decoding, cache, PassSize(1e9, 128), context=CONTEXT, draft_rows=draft + 1)
    job = Job(1, "b", "c", Prompt(tuple(PROMPT)), tokens, sampling)
    core.admit(job, Rules(Never(), None), CancelToken())
    while core.busy:
        for event in core.step():
            if isinstance(event, Done):
                return event.outcome
    raise AssertionError("a run that was admitted ends")


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.0, top_p=0.01, top_k=1),
        Sampling(temperature=2.0),
        Sampling(temperature=10.0, seed=-1),
        Sampling(temperature=1.0, top_p=1e-9),
        Sampling(temperature=2.0, top_p=1e-9, top_k=1 << 20, seed=2**63 - 1),
    ],
)
def test_drafts_change_nothing_at_the_edges_of_sampling(sampling: Sampling) -> None:
    plain = answer(sampling, [], 12, draft=0)
    drafted = answer(sampling, plain.ids, 12)
    assert drafted.ids == plain.ids and drafted.passes < plain.passes
    wrong = [token ^ 1 for token in plain.ids]
    assert answer(sampling, wrong, 12).ids == plain.ids


@pytest.mark.parametrize("tokens", [1, 2, CONTEXT - len(PROMPT)])
def test_more_drafts_than_the_context_has_room_for_are_cut(tokens: int) -> None:
    greedy = Sampling()
    truth = answer(greedy, [], CONTEXT - len(PROMPT), draft=0).ids
    found = answer(greedy, [*truth, *range(64)], tokens)
    assert (found.ids, found.reason) == (truth[:tokens], "length")
    assert sum(found.drafted.values()) <= tokens - 1


def test_an_answer_that_the_context_does_not_hold_is_refused_before_anything_is_drafted() -> None:
    with pytest.raises(EngineError, match="context of 40"):
        answer(Sampling(), [1, 2, 3], CONTEXT - len(PROMPT) + 1)
