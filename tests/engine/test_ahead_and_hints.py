"""What nobody asked for yet costs nobody anything; a hint that holds is verified in one pass.

Through the real core on a tiny random model.
"""

from collections.abc import Sequence

import pytest

from completiond.core import CancelToken, Outcome, Prompt
from completiond.drafters.base import Drafter
from completiond.drafters.recycled import Recycled
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Event, Failed, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model.kv_cache import KVCache
from completiond.model.runner import Runner
from tiny import reference_logits, tiny_runner

VOCABULARY = 64
PROMPT = tuple((7 * i * i + 3 * i) % VOCABULARY for i in range(21))
AHEAD = -1


class Never:
    def step(self, ids: Sequence[int]) -> str | None:
        return None


@pytest.fixture(scope="module")
def runner() -> Runner:
    return tiny_runner(vocab=VOCABULARY)


def core_of(runner: Runner, *drafters: Drafter, rows: int = 64, budget: int = 1 << 24) -> ModelCore:
    decoding = Decoding(runner, drafters, draft_tokens=7)
    return ModelCore(decoding, KVCache(runner.kv, budget), PassSize(1e9, rows), context=1024)


def admit(core: ModelCore, number: int, **fields: object) -> CancelToken:
    token = CancelToken()
    base: dict[str, object] = {"buffer": f"b{number}", "client": "c", "prompt": Prompt(PROMPT)}
    one = Job(number, **({"max_tokens": 40} | base | fields))  # type: ignore[arg-type]
    core.admit(one, Rules(Never(), None), token)
    return token


def run_out(core: ModelCore) -> dict[int, Outcome]:
    events: list[Event] = []
    while core.busy:
        events += core.step()
    return {event.job: event.outcome for event in events if isinstance(event, Done)}


def answered(core: ModelCore, number: int = 1, **fields: object) -> Outcome:
    admit(core, number, **fields)
    return run_out(core)[number]


def passes(core: ModelCore) -> int:
    count: int = core.stats()["passes"]
    return count


@pytest.mark.parametrize("cached", [False, True])
def test_an_unchanged_continuation_is_verified_in_exactly_one_pass(
    runner: Runner, cached: bool
) -> None:
    truth = answered(core_of(runner), max_tokens=40).ids
    core = core_of(runner, Recycled())
    if cached:
        answered(core, max_tokens=1)
    found = answered(core, 2, buffer="b1", hint=tuple(truth[:-1]))
    assert (found.ids, found.passes, found.accepted) == (truth, 1, {"recycled": 39})
    assert found.prefilled == (1 if cached else len(PROMPT))


def test_a_hint_that_breaks_off_costs_no_more_than_a_pass_and_never_the_answer(
    runner: Runner,
) -> None:
    truth = answered(core_of(runner)).ids
    for good in (0, 3, 20):
        hint = (*truth[:good], truth[good] ^ 1, *truth[good + 1 :])
        found = answered(core_of(runner, Recycled()), hint=hint)
        assert found.ids == truth
        assert found.passes <= len(truth) - good


def test_an_answer_that_was_contradicted_is_drafted_from_where_it_matches_again(
    runner: Runner,
) -> None:
    truth = answered(core_of(runner)).ids
    hint = (truth[0] ^ 1, truth[1] ^ 1, *truth[3:])  # something else, one token shorter
    found = answered(core_of(runner, Recycled()), hint=hint, astray=True)
    assert found.ids == truth and found.accepted["recycled"] > 20
    assert found.passes < len(truth) - 20


def test_a_hint_is_cut_to_the_rows_of_a_pass(runner: Runner) -> None:
    truth = answered(core_of(runner)).ids
    found = answered(core_of(runner, Recycled(), rows=24), hint=tuple(truth))
    # 21 rows of prompt and 3 of hint, then 7 drafts a pass.
    assert (found.ids, found.passes) == (truth, 1 + -(-(40 - 4) // 8))


def test_no_pass_is_given_to_a_run_ahead_while_another_waits_or_runs(runner: Runner) -> None:
    core = core_of(runner)
    admit(core, 1, priority=AHEAD)
    core.step()
    admit(core, 2, max_tokens=5)
    before = core._running[0].outcome.passes
    for _ in range(5):
        core.step()
        assert [s.outcome.passes for s in core._running if s.job.id == 1] == [before]
    assert run_out(core)[1].ids == answered(core_of(runner)).ids


def test_a_real_run_is_delayed_by_no_more_than_the_pass_that_is_under_way(runner: Runner) -> None:
    core = core_of(runner)
    alone = answered(core_of(runner), max_tokens=5).passes
    admit(core, 1, priority=AHEAD)
    core.step()
    before = passes(core)
    admit(core, 2, max_tokens=5)
    while not any(isinstance(e, Done) and e.job == 2 for e in core.step()):
        pass
    assert passes(core) - before == alone


def test_a_run_ahead_that_holds_the_slot_of_a_real_one_is_ended_at_the_next_pass(
    runner: Runner,
) -> None:
    core = core_of(runner)
    admit(core, 1, priority=AHEAD)
    core.step()
    admit(core, 2, buffer="b1", max_tokens=5)
    first, *_ = core.step()
    assert isinstance(first, Done) and (first.job, first.outcome.reason) == (1, "abandoned")
    assert run_out(core)[2].ids == answered(core_of(runner), max_tokens=5).ids


def test_a_run_ahead_gives_its_memory_to_a_real_one(runner: Runner) -> None:
    one_slot = 512 * runner.kv.token_bytes
    core = core_of(runner, budget=one_slot + 1)
    admit(core, 1, priority=AHEAD)
    core.step()
    admit(core, 2, max_tokens=5)
    done = run_out(core)
    assert done[1].reason == "abandoned" and len(done[2].ids) == 5


def test_a_run_ahead_pushes_out_nobodys_idle_slot(runner: Runner) -> None:
    core = core_of(runner, budget=512 * runner.kv.token_bytes + 1)
    answered(core, 1, max_tokens=5)
    admit(core, 2, priority=AHEAD, client="other")
    (event,) = core.step()
    assert isinstance(event, Failed) and event.code == "overloaded" and not core.busy
    assert answered(core, 3, buffer="b1", max_tokens=5).prefilled == 1
    assert core.stats()["kv_evicted"] == 0


def test_a_run_that_has_said_enough_goes_on_for_nobody(runner: Runner) -> None:
    core = core_of(runner)
    token = admit(core, 1)
    core.step()
    token.demote()
    admit(core, 2, max_tokens=5)
    while not any(isinstance(e, Done) for e in core.step()):
        assert [s.outcome.passes for s in core._running if s.job.id == 1] == [1]
    assert run_out(core)[1].ids == answered(core_of(runner)).ids


def test_a_run_ahead_that_waits_starts_no_earlier_than_the_device_is_free(runner: Runner) -> None:
    core = core_of(runner)
    admit(core, 1, max_tokens=5)
    admit(core, 2, priority=AHEAD, max_tokens=5)
    core.step()
    assert [s.job.id for s in core._running] == [1]
    assert set(run_out(core)) == {1, 2}


def test_a_run_ahead_that_a_request_takes_over_is_as_urgent_as_any(runner: Runner) -> None:
    core = core_of(runner)
    token = admit(core, 1, priority=AHEAD)
    core.step()
    token.revive()
    admit(core, 2, buffer="b1")
    admit(core, 3)
    core.step()
    assert {s.job.id: s.outcome.passes for s in core._running} == {1: 2, 3: 1}


def test_a_client_that_waits_gets_the_next_slot_before_one_that_floods(runner: Runner) -> None:
    core = core_of(runner, budget=2 * 512 * runner.kv.token_bytes + 1)
    for number in range(1, 7):
        admit(core, number, client="flood", max_tokens=3)
    core.step()
    admit(core, 9, client="typist", max_tokens=3)
    ended: list[int] = []
    while core.busy:
        ended += [event.job for event in core.step() if isinstance(event, Done)]
    assert sorted(ended) == [1, 2, 3, 4, 5, 6, 9]
    assert ended.index(9) <= 3  # two that held the slots, and one that ended with it


def test_who_was_served_is_remembered_only_for_clients_that_are_here(runner: Runner) -> None:
    core = core_of(runner)
    for number in range(20):
        admit(core, number, client=f"c{number}", max_tokens=2)
        run_out(core)
    core.step()
    assert len(core._served) <= 1


@pytest.mark.parametrize("drafted", [False, True])
def test_how_likely_an_answer_is_is_told_to_who_asks_and_is_the_models_own_figure(
    runner: Runner, drafted: bool
) -> None:
    truth = answered(core_of(runner)).ids
    hint = (*truth[:7], truth[7] ^ 1, *truth[8:]) if drafted else ()
    found = answered(core_of(runner, Recycled()), hint=hint, scored=True)
    logits = reference_logits([*PROMPT, *truth]).log_softmax(-1)
    at = range(len(PROMPT) - 1, len(PROMPT) + len(truth) - 1)
    plain = sum(float(logits[n, token]) for n, token in zip(at, truth, strict=True))
    assert found.ids == truth
    assert found.logprob == pytest.approx(plain, abs=1e-3)
    assert answered(core_of(runner)).logprob == 0.0
