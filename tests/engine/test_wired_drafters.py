"""The drafters as the engine has them, under each policy: many buffers, trees, one answer.

On a tiny random model in double precision, through the real core. What a pass may do wrong is put
back in by test_losslessness.py; here it is who proposes, who decides and who is beside whom.
"""

from collections.abc import Sequence

import pytest

from completiond.core import GREEDY, CancelToken, Outcome, Prompt, Sampling, Segment
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.costs import Costs
from completiond.drafters.planner import Planner, Policy
from completiond.drafters.policies import FixedK, SimpleRule
from completiond.drafters.recycled import Recycled
from completiond.drafters.small_model import SmallModel
from completiond.drafters.suffix import Suffix
from completiond.engine import speculation
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model.kv_cache import KVCache
from tiny import assert_fresh, random_ids, tiny_runner

TOKENS, ROWS = 18, 64
WARM = Sampling(temperature=0.8, seed=1)
PROMPTS = [tuple(random_ids(20 + 3 * n, seed=n)) for n in range(4)]
COSTS = {1: 20.0, 8: 21.0, 32: 24.0}


class After:
    """Stops at the n-th id."""

    def __init__(self, n: int = 1 << 30) -> None:
        self._left = n

    def step(self, ids: Sequence[int]) -> str | None:
        self._left -= len(ids)
        return "stop" if self._left <= 0 else None


def job(number: int, sampling: Sampling = GREEDY, hint: Sequence[int] = (), **more: object) -> Job:
    ids = PROMPTS[number % len(PROMPTS)]
    parts = (Segment("suffix", 0, 6), Segment("control", 6, 7), Segment("prefix", 7, len(ids)))
    fields: dict[str, object] = {"buffer": f"b{number}", "client": f"c{number % 2}"}
    base = (number, *(fields | more).values(), Prompt(ids, parts), TOKENS)
    return Job(*base, sampling, hint=tuple(hint))  # type: ignore[arg-type]


def core_of(
    policy: Policy,
    drafters: Sequence[Drafter],
    costs: Costs | None = None,
    keep_drafts: bool = False,
) -> ModelCore:
    runner = tiny_runner()
    return ModelCore(
        Decoding(runner, drafters, 15, policy),
        KVCache(runner.kv, 1 << 24),
        PassSize(1e9, ROWS),
        context=256,
        draft_rows=16,
        costs=costs,
        keep_drafts=keep_drafts,
    )


def run(core: ModelCore, jobs: Sequence[Job], stop: int = 1 << 30) -> dict[int, Outcome]:
    for one in jobs:
        core.admit(one, Rules(After(stop), None), CancelToken())
    done: dict[int, Outcome] = {}
    while core.busy:
        done |= {e.job: e.outcome for e in core.step() if isinstance(e, Done)}
        for name in [one.buffer for one in jobs]:
            slot = core.cache.peek(name)
            assert slot is None or slot.shape is core.cache.shape
    return done


def plain(one: Job) -> list[int]:
    return run(core_of(FixedK(0), []), [one])[one.id].ids


def all_drafters(known: dict[str, Sequence[int]]) -> list[Drafter]:
    """All that need no part of the target, as `--speculation` makes them; `known` is fed."""
    suffix = Suffix()
    for client, ids in known.items():
        suffix.feed(client, "file", ids)
    names = speculation.wanted("small_model,lookahead,token_recycling,recycled,suffix,lookup")
    runner = tiny_runner()
    small = SmallModel(tiny_runner(seed=5), 1 << 24)
    cache = KVCache(runner.kv, 1 << 20)
    return speculation.drafters(names, runner, cache, suffix=suffix, small=small)


def policies() -> list[Policy]:
    return [Planner(Costs(COSTS)), Planner(Costs(COSTS, 1.0)), FixedK(15), SimpleRule(8)]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_buffers_in_one_pass_answer_as_each_would_alone_under_every_policy(
    number: int, sampling: Sampling
) -> None:
    """Trees of several drafters for several clients, one of which has a hint that breaks off."""
    alone = [plain(job(n, sampling)) for n in range(4)]
    known = {f"c{n % 2}": [*PROMPTS[n][-3:], *alone[n], *alone[n][4:9], 1] for n in (1, 2)}
    hint = [*alone[3][:5], alone[3][5] ^ 1, *alone[3][6:]]
    core = core_of(policies()[number], all_drafters(known), Costs(COSTS))
    jobs = [job(n, sampling, hint if n == 3 else ()) for n in range(4)]
    for _ in range(2):  # the second time there are answers to draft from
        found = run(core, jobs)
        assert [found[n].ids for n in range(4)] == alone
        for one in jobs:
            slot = core.cache.peek(one.buffer)
            assert slot is not None
            assert_fresh(core.decoding.runner, slot)
    assert core.stats()["accepted"]["suffix"] > 10
    assert core.stats()["drafted"].keys() >= {"suffix", "recycled"}


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_the_drafted_tokens_that_are_kept_of_each_pass_are_those_that_were_counted(
    sampling: Sampling,
) -> None:
    truth = plain(job(0, sampling))
    known = {"c0": [*PROMPTS[0][-3:], *truth[:7], 1, 2, *truth[7:]]}
    core = core_of(FixedK(15), all_drafters(known), keep_drafts=True)
    out = run(core, [job(0, sampling)])[0]
    assert sum(committed for committed, *_ in out.strip) == len(out.ids) == TOKENS
    at = 0
    for committed, drafts, nodes in out.strip:
        ids, at = out.ids[at : at + committed], at + committed
        for source, drafted, held in drafts:
            mine = [kept for _, name, kept in nodes if name == source]
            assert (len(mine), sum(mine)) == (drafted, held)
        kept = [token for token, _, held in nodes if held]
        assert ids[: len(kept)] == kept and len(ids) - len(kept) in (0, 1)
    assert sum(out.accepted.values()) > 3
    assert all(not nodes for *_, nodes in run(core_of(FixedK(15), []), [job(0)])[0].strip)


def test_a_stop_at_every_offset_of_a_tree() -> None:
    truth = plain(job(0))
    decoys = [*PROMPTS[0][-2:], *truth[:4], 1, 2, 3]
    for n in range(1, TOKENS + 1):
        core = core_of(Planner(Costs(COSTS)), all_drafters({"c0": [*decoys, *truth]}))
        assert run(core, [job(0)], stop=n)[0].ids == truth[:n]
        assert run(core, [job(0)])[0].ids == truth


def test_an_unchanged_continuation_takes_one_pass_even_if_hints_never_held_before() -> None:
    truth = plain(job(0))
    planner = Planner(Costs({1: 20.0, 2: 90.0, 32: 400.0}))  # any draft is too dear
    core = core_of(planner, [Recycled()])
    for number in range(4):
        run(core, [job(0, hint=[t ^ 1 for t in truth], buffer=f"x{number}", client="c")])
    found = run(core, [job(0, hint=truth[:-1])])[0]
    assert (found.ids, found.passes) == (truth, 1)


def test_a_planner_that_knows_nobody_yet_decides_from_the_first_pass_on() -> None:
    def drafted(policy: Policy) -> int:
        suffix = Suffix()
        suffix.feed("c0", "file", [*PROMPTS[0][-3:], *plain(job(0))])
        core = core_of(policy, [suffix])
        assert core.decoding.drafting.policy is policy
        return sum(run(core, [job(0)])[0].drafted.values())

    dear = Planner(Costs({rows: 10.0**rows for rows in range(1, 40)}))
    assert not len(dear), "nobody has asked yet"
    assert (drafted(dear), drafted(FixedK(15)) > 0) == (0, True)


def test_the_context_says_what_stops_a_text_and_what_is_to_be_spelled_first() -> None:
    seen: list[DraftContext] = []

    class Looks(Recycled):
        def propose(self, context: DraftContext, budget: int):  # type: ignore[no-untyped-def]
            seen.append(context)
            return super().propose(context, budget)

    core = core_of(FixedK(4), [Looks()])
    prompt = Prompt(PROMPTS[0], (), "ab")
    one = Job(1, "b", "c", prompt, 3, stop={"stop_ids": [7, 9]})
    run(core, [one])
    assert (seen[0].healed, list(seen[0].stop_ids)) == ("ab", [7, 9])


def test_what_a_pass_costs_is_learned_from_passes() -> None:
    costs = Costs({1: 1000.0, 32: 2000.0})
    core = core_of(Planner(costs), [Suffix()], costs)
    for _ in range(3):
        run(core, [job(0)])
    assert costs.ms(1) < 500


def test_names_are_asked_cheap_ones_first_and_off_is_nobody() -> None:
    assert speculation.wanted("small_model, suffix,recycled") == (
        "recycled",
        "suffix",
        "small_model",
    )
    assert speculation.wanted("off") == () and speculation.wanted("auto") == speculation.AUTO
    runner = tiny_runner()
    left = speculation.drafters(
        ("recycled", "early_exit", "small_model"), runner, KVCache(runner.kv, 1 << 20)
    )
    assert [drafter.name for drafter in left] == ["recycled"], "what cannot be had is left out"


def test_a_drafter_that_throws_is_dropped_and_the_answer_is_unchanged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Throws(Recycled):
        name = "throws"

        def propose(self, context: DraftContext, budget: int):  # type: ignore[no-untyped-def]
            raise ValueError("a defect")

    truth = plain(job(0))
    core = core_of(Planner(Costs(COSTS)), [Throws(), Suffix()])
    assert run(core, [job(0)])[0].ids == truth and run(core, [job(0)])[0].ids == truth
    assert len(caplog.records) == 1 and core.stats()["accepted"]["suffix"] > 0


@pytest.mark.parametrize(("name", "kind"), [("simple", SimpleRule), ("fixed", FixedK)])
def test_other_policies_are_there_by_name(name: str, kind: type) -> None:
    assert isinstance(speculation.policy_of(name, Costs(COSTS), 7), kind)
    assert isinstance(speculation.policy_of("auto", Costs(COSTS), 7), Planner)
