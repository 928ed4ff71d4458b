"""Speculative output is the same sequence as plain decoding: every drafter, tree, stop and cancel.

On tiny random models in double precision, through the real core, cache and runner. The last part
puts bugs back in and asserts that the laws notice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import torch
from drafts import Clairvoyant, Quiet, RandomTree

from completiond.core import GREEDY, CancelToken, Outcome, Prompt, Sampling
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.lookup import Lookup
from completiond.drafters.recycled import Recycled
from completiond.drafters.small_model import SmallModel
from completiond.engine import trial, verify
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Failed, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model import attention
from completiond.model.attention import Segment
from completiond.model.kv_cache import KVCache, Slot
from completiond.model.runner import Runner
from completiond.model.sampling import probabilities, process
from tiny import tiny_runner

VOCABULARY = 64
TOKENS = 16
PROMPT = tuple((7 * i * i + 3 * i) % VOCABULARY for i in range(21))
SAMPLINGS = [
    GREEDY,
    Sampling(temperature=0.8, seed=1),
    Sampling(temperature=1.3, top_k=12, seed=2),
    Sampling(temperature=1.0, top_p=0.8, seed=3),
]


@dataclass
class StopAfter:
    """Stops at the n-th id, counted over all calls."""

    n: int
    seen: int = 0

    def step(self, ids: Sequence[int]) -> str | None:
        self.seen += len(ids)
        return "stop" if self.seen >= self.n else None


class EvenOnly:
    """A mask as healing sets it: the first three tokens must be even."""

    def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
        return range(0, VOCABULARY, 2) if len(generated) < 3 else None


class NeverEnds(AssertionError):
    pass


def core_of(runner: Runner, *drafters: Drafter, rows: int = 16) -> ModelCore:
    return ModelCore(
        Decoding(runner, drafters, draft_tokens=7),
        KVCache(runner.kv, 1 << 24),
        PassSize(1e9, rows),
        context=256,
    )


def job(number: int = 0, sampling: Sampling = GREEDY, **fields: object) -> Job:
    base: dict[str, object] = {"buffer": f"b{number}", "client": "c", "prompt": Prompt(PROMPT)}
    return Job(number, max_tokens=TOKENS, sampling=sampling, **(base | fields))  # type: ignore[arg-type]


def finish(core: ModelCore, after: Callable[[], None] = lambda: None) -> dict[int, Outcome]:
    done: dict[int, Outcome] = {}
    for _ in range(300):
        if not core.busy:
            return done
        for event in core.step():
            assert not hasattr(event, "code"), event
            if isinstance(event, Done):
                done[event.job] = event.outcome
        after()
    raise NeverEnds(f"still busy after {core.stats()['passes']} passes")


def answer(
    core: ModelCore, one: Job, stop: int = 1 << 30, mask: EvenOnly | None = None
) -> list[int]:
    core.admit(one, Rules(StopAfter(stop), mask), CancelToken())
    return finish(core)[one.id].ids


def plain(runner: Runner, one: Job, **kwargs: object) -> list[int]:
    return answer(core_of(runner), one, **kwargs)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def runner() -> Runner:
    return tiny_runner(vocab=VOCABULARY)


def drafters_for(runner: Runner, one: Job, truth: list[int]) -> dict[str, list[Drafter]]:
    other = tiny_runner(vocab=VOCABULARY, seed=5)
    return {
        "nothing": [Quiet()],
        "random trees": [RandomTree(VOCABULARY)],
        "lookup": [Lookup()],
        "recycled": [Recycled()],
        "the truth": [Clairvoyant(truth)],
        "the truth, with decoys": [Clairvoyant(truth, tree=True)],
        "always wrong": [Clairvoyant(truth, wrong=0)],
        "wrong from the third": [Clairvoyant(truth, wrong=2)],
        "wrong from the third, with decoys": [Clairvoyant(truth, wrong=2, tree=True)],
        "the same small model": [SmallModel(runner, 1 << 24)],
        "another small model": [SmallModel(other, 1 << 24, chunk=5)],
        "several": [Recycled(), RandomTree(VOCABULARY, 4), Lookup()],
    }


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_speculative_equals_plain_for_every_drafter(runner: Runner, sampling: Sampling) -> None:
    truth = plain(runner, job(sampling=sampling))
    assert len(truth) == TOKENS and len(set(truth)) > 4, "a constant answer would prove nothing"
    one = job(sampling=sampling, hint=tuple(truth[:9]) + (1, 2, 3))
    for name, drafters in drafters_for(runner, one, truth).items():
        assert answer(core_of(runner, *drafters), one) == truth, name


@pytest.mark.parametrize("family", ["starcoder2", "gpt_bigcode", "llama", "gemma", "granite"])
def test_speculative_equals_plain_for_every_family(family: str) -> None:
    """starcoder2 with a window that the prompt and the answer cross."""
    model = tiny_runner(family, vocab=VOCABULARY)
    truth = plain(model, job())
    for tree in (False, True):
        assert answer(core_of(model, Clairvoyant(truth, wrong=3, tree=tree)), job()) == truth
    assert answer(core_of(model, RandomTree(VOCABULARY)), job()) == truth


def test_a_known_continuation_is_verified_in_one_pass(runner: Runner) -> None:
    truth = plain(runner, job())
    core = core_of(runner, Recycled(), rows=64)
    core.admit(job(hint=tuple(truth[:7])), Rules(StopAfter(8), None), CancelToken())
    outcome = finish(core)[0]
    assert outcome.passes == 1 and outcome.ids == truth[:8]
    assert outcome.accepted == {"recycled": 7}


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 64])
def test_prefill_in_chunks_of_any_size_changes_nothing(runner: Runner, rows: int) -> None:
    core = core_of(runner)
    core.size.rows = rows
    assert answer(core, job()) == plain(runner, job())


@pytest.mark.parametrize("tree", [False, True])
def test_a_stop_at_every_offset_inside_an_accepted_block(runner: Runner, tree: bool) -> None:
    truth = plain(runner, job())
    for n in range(1, TOKENS + 1):
        core = core_of(runner, Clairvoyant(truth, tree=tree))
        assert answer(core, job(), stop=n) == truth[:n]
        assert answer(core, job()) == truth, "the slot must be good for the next run"


def test_a_token_limit_at_every_offset(runner: Runner) -> None:
    truth = plain(runner, job())
    for n in range(1, TOKENS + 1):
        core = core_of(runner, Clairvoyant(truth))
        limited = Job(0, "b0", "c", Prompt(PROMPT), n)
        core.admit(limited, Rules(StopAfter(1 << 30), None), CancelToken())
        outcome = finish(core)[0]
        assert outcome.ids == truth[:n] and outcome.reason == "length"


@pytest.mark.parametrize("sampling", SAMPLINGS[:2])
def test_a_mask_constrains_the_target_whatever_is_drafted(
    runner: Runner, sampling: Sampling
) -> None:
    one = job(sampling=sampling)
    truth = plain(runner, one, mask=EvenOnly())
    assert all(token % 2 == 0 for token in truth[:3])
    for name, drafters in drafters_for(runner, one, truth).items():
        assert answer(core_of(runner, *drafters), one, mask=EvenOnly()) == truth, name


@pytest.mark.parametrize("reason", ["abandoned", "superseded"])
def test_a_cancel_at_every_pass_leaves_a_prefix_and_a_good_slot(
    runner: Runner, reason: str
) -> None:
    truth = plain(runner, job())
    for passes in range(8):
        core, token = core_of(runner, Clairvoyant(truth, wrong=1, tree=True), rows=8), CancelToken()
        core.admit(job(), Rules(StopAfter(1 << 30), None), token)
        events = [event for _ in range(passes) for event in core.step()]
        token.cancel(reason)  # type: ignore[arg-type]
        done = finish(core)
        done |= {e.job: e.outcome for e in events if isinstance(e, Done)}
        got = done[0].ids
        assert got == truth[: len(got)]
        assert answer(core, job(1, buffer="b0")) == truth


def test_runs_packed_together_equal_runs_alone(runner: Runner) -> None:
    jobs = [
        job(i, sampling, prompt=Prompt(PROMPT[: 5 + 4 * i])) for i, sampling in enumerate(SAMPLINGS)
    ]
    alone = [plain(runner, one) for one in jobs]
    core = core_of(runner, RandomTree(VOCABULARY, 9))
    for one in jobs:
        core.admit(one, Rules(StopAfter(1 << 30), None), CancelToken())
    together = finish(core)
    assert [together[i].ids for i in range(len(jobs))] == alone


def cache_error(runner: Runner, slot: Slot) -> float:
    """The largest difference between a slot and a fresh prefill of its ids."""
    fresh = Slot(runner.kv)
    runner.prefill(fresh, slot.ids)
    pairs = [
        (ours, theirs)
        for layer in range(runner.kv.layers)
        for ours, theirs in zip(slot.keys_values(layer), fresh.keys_values(layer), strict=True)
    ]
    return max(float((ours - theirs).abs().max()) for ours, theirs in pairs)


@pytest.mark.parametrize("tree", [False, True])
def test_after_every_pass_the_cache_equals_a_fresh_prefill(runner: Runner, tree: bool) -> None:
    truth = plain(runner, job())
    small = SmallModel(tiny_runner(vocab=VOCABULARY, seed=5), 1 << 24)
    for drafter in (Clairvoyant(truth, wrong=2, tree=tree), RandomTree(VOCABULARY), small):
        core = core_of(runner, drafter, rows=9)
        core.admit(job(), Rules(StopAfter(1 << 30), None), CancelToken())
        slot_errors: list[float] = []

        def check(core: ModelCore = core, errors: list[float] = slot_errors) -> None:
            errors.append(cache_error(runner, core.cache._slots["b0"]))

        finish(core, check)
        assert max(slot_errors) < 1e-9
    assert cache_error(small.runner, small.cache._slots["b0"]) < 1e-9


def test_a_queued_run_that_is_cancelled_never_reaches_the_device(runner: Runner) -> None:
    core, token = core_of(runner), CancelToken()
    core.admit(job(), Rules(StopAfter(1 << 30), None), token)
    token.cancel("abandoned")
    outcome = finish(core)[0]
    assert outcome.passes == 0 and outcome.prefilled == 0 and core.stats()["passes"] == 0
    assert outcome.reason == "abandoned"


def test_cancelling_a_queued_run_does_not_disturb_the_running_one(runner: Runner) -> None:
    core, token = core_of(runner, Lookup()), CancelToken()
    core.admit(job(0), Rules(StopAfter(1 << 30), None), CancelToken())
    core.step()
    core.admit(job(1), Rules(StopAfter(1 << 30), None), token)
    token.cancel("abandoned")
    done = finish(core)
    assert done[0].ids == plain(runner, job(0)) and done[1].passes == 0


@pytest.mark.slow
def test_rejection_sampling_through_the_engine_has_the_target_s_law(runner: Runner) -> None:
    """First tokens of many seeds with a draft of another model, against the exact law."""
    trials, sampling = 400, Sampling(temperature=1.0, top_k=6)
    slot = Slot(runner.kv)
    logits = runner.prefill(slot, list(PROMPT))
    law = probabilities(process(logits, sampling))
    small = SmallModel(tiny_runner(vocab=VOCABULARY, seed=5), 1 << 24, rejection=True)
    core = core_of(runner, small, rows=24)  # the prompt and two drafts
    counts = torch.zeros(VOCABULARY)
    for seed in range(trials):
        one = job(sampling=Sampling(temperature=1.0, top_k=6, seed=seed))
        counts[answer(core, one, stop=1)[0]] += 1
    kept = law > 0
    wanted = law[kept] * trials
    assert counts[~kept].sum() == 0
    statistic = float(((counts[kept] - wanted) ** 2 / wanted).sum())
    assert statistic < 25, "χ² with 5 degrees of freedom: p < 1.4e-4"


# -- bugs that were put back in must be noticed ------------------------------------------------


def laws_hold(runner: Runner) -> bool:
    """Whether pathwise equality and the cache invariant hold for a demanding mix of drafts."""
    for sampling in SAMPLINGS[:2]:
        truth = TRUTH[sampling]
        for drafter in (
            Clairvoyant(truth, wrong=3, tree=True),
            Clairvoyant(truth, wrong=2),
            RandomTree(VOCABULARY),
        ):
            core = core_of(runner, drafter, rows=8)
            try:
                if answer(core, job(sampling=sampling)) != truth:
                    return False
            except NeverEnds:
                return False
            if cache_error(runner, core.cache._slots["b0"]) > 1e-9:
                return False
    known = core_of(runner, Clairvoyant(TRUTH[GREEDY]), rows=64)
    answer(known, job())
    return known.stats()["passes"] <= 2  # what is right must also be accepted


@pytest.fixture(scope="module")
def truths(runner: Runner) -> None:
    """The plain answers, computed before any bug is put in."""
    TRUTH.update({s: plain(runner, job(sampling=s)) for s in SAMPLINGS[:2]})


TRUTH: dict[Sampling, list[int]] = {}


@pytest.mark.usefixtures("truths")
def test_the_laws_hold_without_a_bug(runner: Runner) -> None:
    assert laws_hold(runner)


def siblings_see_each_other(self: attention.Pack, segment: Segment) -> list[attention.Piece]:
    return [attention.Piece(0, len(segment.ids), len(segment.slot))]


def a_branch_continues_the_one_before(
    self: attention.Pack, segment: Segment
) -> list[attention.Piece]:
    pieces = REAL_PIECES(self, segment)
    return [piece._replace(past=len(segment.slot) + piece.start) for piece in pieces]


REAL_PIECES = attention.Pack._taken_apart


def orphans_are_accepted(ids, before, drawn, above):  # type: ignore[no-untyped-def]
    return ids == drawn[before]


def the_child_s_own_row(ids, before, drawn, above):  # type: ignore[no-untyped-def]
    return ~(above & (ids != drawn[1:])).any(1)


def keep_the_first_rows(self: Slot, ids: Sequence[int], rows: Sequence[int]) -> None:
    self.ids.extend(ids)


def one_too_far(self: Slot, ids: Sequence[int]) -> int:
    common = next((i for i, (a, b) in enumerate(zip(self.ids, ids, strict=False)) if a != b), None)
    common = min(len(self.ids), len(ids)) if common is None else common + 1
    del self.ids[common:]
    return common


def storage_index(self: attention.Pack) -> list[int]:
    return [len(s.slot) + i for s in self.segments for i in range(len(s.ids))]


REAL_COMMIT = Decoding._commit


def the_bonus_token_counts_as_cached(self: Decoding, plan, kept, logits):  # type: ignore[no-untyped-def]
    step = REAL_COMMIT(self, plan, kept, logits)
    if step.ids:
        plan.sequence.held.ids.append(step.ids[-1])
        plan.sequence.ids.append(step.ids[-1])
    return step


REAL_ROWS = trial._rows


def noise_by_pass(plan, vocabulary):  # type: ignore[no-untyped-def]
    """Draws keyed by how many passes ran instead of by position."""
    shifted = [*plan.context.ids, *([0] * plan.sequence.outcome.passes)]
    context = DraftContext(
        **{f: getattr(plan.context, f) for f in plan.context.__slots__} | {"ids": shifted}
    )
    return REAL_ROWS(plan._replace(context=context), vocabulary)


@pytest.mark.usefixtures("truths")
@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (attention.Pack, "_taken_apart", siblings_see_each_other),
        (attention.Pack, "_taken_apart", a_branch_continues_the_one_before),
        (verify, "match", orphans_are_accepted),
        (verify, "match", the_child_s_own_row),
        (Slot, "keep", keep_the_first_rows),
        (attention.Pack, "positions", property(storage_index)),
        (Decoding, "_commit", the_bonus_token_counts_as_cached),
        (trial, "_rows", noise_by_pass),
    ],
)
def test_a_reintroduced_bug_breaks_the_laws(
    monkeypatch: pytest.MonkeyPatch, runner: Runner, owner: object, name: str, bug: object
) -> None:
    monkeypatch.setattr(owner, name, bug)
    assert not laws_hold(runner)


def test_rewinding_one_token_too_few_is_noticed(
    monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> None:
    truth = plain(runner, job())
    core = core_of(runner)
    answer(core, job(prompt=Prompt((*PROMPT[:9], 1, 2, 3))))
    monkeypatch.setattr(Slot, "rewind", one_too_far)
    assert answer(core, job()) != truth


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("no memory\nat all")])
def test_a_pass_that_fails_ends_its_runs_with_a_reason_and_the_next_one_is_right(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(segments: object) -> None:
        raise error

    core = core_of(runner)
    core.admit(job(1), Rules(StopAfter(1 << 30), None), CancelToken())
    with monkeypatch.context() as patch:
        patch.setattr(runner, "forward", fail)
        events = core.step()
    assert [(type(event), event.job) for event in events] == [(Failed, 1)]
    assert not core.busy and core.stats()["kv_slots"] == 0
    assert answer(core, job(2)) == plain(runner, job(2))


def test_a_run_s_account_adds_up(runner: Runner) -> None:
    truth = plain(runner, job())
    core = core_of(runner, Clairvoyant(truth, wrong=2))
    core.admit(job(), Rules(StopAfter(1 << 30), None), CancelToken())
    out = finish(core)[0]
    assert out.prompt_tokens == len(PROMPT) and out.reused + out.prefilled == len(PROMPT)
    assert len(out.ids) == sum(out.accepted.values()) + out.passes - 1  # one prefill chunk first
