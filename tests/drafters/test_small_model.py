"""A draft is what the draft model would itself say, and its cache is what its ids say."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from completiond.core import GREEDY, Draft, Sampling, TokenMask
from completiond.drafters.base import DraftContext
from completiond.drafters.small_model import INDEPENDENT, SmallModel
from completiond.model import sampling
from completiond.model.kv_cache import GROWTH, Slot
from tiny import assert_fresh, random_ids, reference_logits, tiny_runner

VOCAB = 64
WARM = Sampling(temperature=0.9, top_k=20, top_p=0.9, seed=4)
BUDGET = 1 << 24


class Only:
    """Allows the same ids everywhere, and remembers behind what it was asked."""

    def __init__(self, *ids: int) -> None:
        self.ids = ids
        self.asked: list[tuple[int, ...]] = []

    def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
        self.asked.append(tuple(generated))
        return self.ids


def small(*, chunk: int = 64, rejection: bool = False, budget: int = BUDGET) -> SmallModel:
    return SmallModel(tiny_runner(seed=1, layers=1), budget, chunk=chunk, rejection=rejection)


def own_logits(ids: Sequence[int]) -> torch.Tensor:
    """What the draft model says after `ids`, by the library's plain forward."""
    return reference_logits(ids, seed=1, layers=1)[-1]


def context(
    ids: Sequence[int],
    s: Sampling = GREEDY,
    *,
    prompt: int | None = None,
    mask: TokenMask | None = None,
    buffer: str = "b",
) -> DraftContext:
    return DraftContext(buffer, "c", list(ids), len(ids) if prompt is None else prompt, (), s, mask)


def decoded(ids: Sequence[int], n: int, s: Sampling, stream: int = sampling.DRAW) -> list[int]:
    """Plain decoding by the draft model alone, without any cache."""
    text = list(ids)
    for _ in range(n):
        text.append(sampling.draw(sampling.process(own_logits(text), s), s, len(text), stream))
    return text[len(ids) :]


def slot_of(drafter: SmallModel, buffer: str = "b") -> Slot:
    return drafter.cache._slots[buffer]


# What is drafted


@pytest.mark.parametrize("s", [GREEDY, WARM, Sampling(temperature=1.3, seed=-7)])
@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_chain_is_the_draft_models_own_decoding_with_the_targets_noise(
    s: Sampling, n: int
) -> None:
    ids = random_ids(20)
    draft = small().propose(context(ids, s), n)
    assert list(draft.ids) == decoded(ids, n, s)
    assert draft.is_chain and draft.q is None and set(draft.sources) == {"small_model"}


def test_a_draft_model_that_is_the_target_is_always_right() -> None:
    """Shared noise: at every position the target's own draw is the draft's."""
    drafter, ids = SmallModel(tiny_runner(), BUDGET), random_ids(15)
    draft = drafter.propose(context(ids, WARM), 6)
    for i, token in enumerate(draft.ids):
        text = [*ids, *draft.ids[:i]]
        logits = sampling.process(reference_logits(text)[-1], WARM)
        assert token == sampling.draw(logits, WARM, len(text))


@pytest.mark.parametrize("s", [GREEDY, WARM])
def test_probabilities_are_those_of_the_path(s: Sampling) -> None:
    ids = random_ids(20)
    draft, path = small().propose(context(ids, s), 4), 1.0
    for i, token in enumerate(draft.ids):
        row = sampling.probabilities(sampling.process(own_logits([*ids, *draft.ids[:i]]), s))
        path *= float(row[token])
        assert draft.probs[i] == pytest.approx(path, rel=1e-9)


@pytest.mark.parametrize("budget", [0, -1])
def test_without_a_budget_nothing_is_drafted_or_computed(budget: int) -> None:
    drafter = small()
    assert not len(drafter.propose(context([1, 2, 3]), budget))
    assert len(drafter.cache) == 0


def test_a_mask_restricts_every_token_and_sees_the_generated_ones() -> None:
    mask, ids = Only(3, 9, 40), random_ids(12)
    draft = small().propose(context(ids, WARM, prompt=10, mask=mask), 4)
    assert len(draft) == 4 and set(draft.ids) <= set(mask.ids)
    assert mask.asked == [(*ids[10:], *draft.ids[:i]) for i in range(4)]


# A vocabulary smaller than the target's


def test_a_text_with_an_id_that_the_draft_model_lacks_gets_no_draft() -> None:
    drafter = small()
    assert not len(drafter.propose(context([1, VOCAB, 2]), 4))
    assert len(drafter.propose(context([1, VOCAB - 1, 2]), 4)) == 4


@pytest.mark.parametrize("s", [GREEDY, WARM])
@pytest.mark.parametrize("rejection", [True, False])
def test_a_mask_of_ids_that_the_draft_model_lacks_gets_no_draft(
    s: Sampling, rejection: bool
) -> None:
    drafter = small(rejection=rejection)
    draft = drafter.propose(context([1, 2, 3], s, mask=Only(VOCAB, VOCAB + 9)), 4)
    assert draft == Draft()
    assert not slot_of(drafter).busy


@pytest.mark.parametrize("s", [GREEDY, WARM])
def test_a_chain_ends_where_the_mask_leaves_the_draft_models_vocabulary(s: Sampling) -> None:
    class Leaves(Only):
        def allowed(self, generated: Sequence[int]) -> Sequence[int] | None:
            return (5, 6) if len(generated) < 2 else (VOCAB,)

    drafter = small(rejection=True)
    draft = drafter.propose(context([1, 2, 3], s, mask=Leaves()), 4)
    assert len(draft) == 2 and set(draft.ids) <= {5, 6}
    assert draft.q is None if s is GREEDY else draft.q.shape == (2, VOCAB)
    assert_fresh(drafter.runner, slot_of(drafter))


def test_a_mask_of_which_the_draft_model_has_a_part_restricts_to_that_part() -> None:
    draft = small().propose(context([1, 2, 3], mask=Only(5, 6, VOCAB + 9)), 4)
    assert len(draft) == 4 and set(draft.ids) <= {5, 6}


# Its cache


def test_it_catches_up_by_one_chunk_a_call_and_drafts_nothing_until_then() -> None:
    drafter, ids = small(chunk=8), random_ids(30)
    lengths = []
    for _ in range(3):
        assert not len(drafter.propose(context(ids), 4))
        lengths.append(len(slot_of(drafter)))
        assert_fresh(drafter.runner, slot_of(drafter))
    assert lengths == [8, 16, 24]
    draft = drafter.propose(context(ids), 4)
    assert list(draft.ids) == decoded(ids, 4, GREEDY)
    assert_fresh(drafter.runner, slot_of(drafter))


@pytest.mark.parametrize("s", [GREEDY, WARM])
@pytest.mark.parametrize("accepted", range(6))
def test_after_any_number_of_acceptances_its_cache_is_that_of_the_kept_ids(
    s: Sampling, accepted: int
) -> None:
    """After full acceptance it is one token short: the last draft was never its input."""
    drafter, ids = small(), random_ids(20)
    draft = drafter.propose(context(ids, s), 5)
    assert slot_of(drafter).ids == [*ids, *draft.ids[:-1]]
    bonus = (draft.ids[accepted] + 1) % VOCAB if accepted < 5 else 7
    kept = [*ids, *draft.ids[:accepted], bonus]
    again = drafter.propose(context(kept, s, prompt=20), 3)
    assert list(again.ids) == decoded(kept, 3, s)
    assert slot_of(drafter).ids == [*kept, *again.ids[:-1]]
    assert_fresh(drafter.runner, slot_of(drafter))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 25), st.integers(1, 12), st.integers(1, 4)), max_size=5))
def test_whatever_the_text_becomes_the_draft_is_that_of_a_fresh_model(
    edits: list[tuple[int, int, int]],
) -> None:
    drafter, ids = small(chunk=10), random_ids(10)
    for seed, (back, more, n) in enumerate(edits):
        ids = [*ids[: max(0, len(ids) - back)], *random_ids(more, seed=seed)]
        for _ in range(8):
            draft = drafter.propose(context(ids), n)
            assert_fresh(drafter.runner, slot_of(drafter))
            if len(draft):
                break
        assert list(draft.ids) == decoded(ids, n, GREEDY)


def test_buffers_do_not_share_a_cache() -> None:
    drafter, a, b = small(), random_ids(12), random_ids(9, seed=1)
    for _ in range(2):
        for name, ids in (("a", a), ("b", b)):
            draft = drafter.propose(context(ids, buffer=name), 3)
            assert list(draft.ids) == decoded(ids, 3, GREEDY)
            assert slot_of(drafter, name).ids == [*ids, *draft.ids[:-1]]


def test_its_slots_are_idle_between_calls_and_stay_within_its_budget() -> None:
    one_slot = GROWTH * tiny_runner(seed=1, layers=1).kv.token_bytes
    drafter = small(budget=2 * one_slot)
    for i in range(6):
        assert len(drafter.propose(context([1, 2, 3], buffer=str(i % 3)), 3)) == 3
        assert not slot_of(drafter, str(i % 3)).busy
        assert drafter.cache.bytes <= 2 * one_slot


def test_a_text_that_does_not_fit_its_budget_gets_no_draft() -> None:
    drafter = small(budget=GROWTH * tiny_runner(seed=1, layers=1).kv.token_bytes)
    assert not len(drafter.propose(context(random_ids(GROWTH - 2)), 4))
    assert len(drafter.propose(context(random_ids(GROWTH - 4)), 4)) == 0  # behind: one chunk
    assert not slot_of(drafter).busy


# For the rejection sampler


def test_q_is_the_distribution_that_each_node_was_sampled_from() -> None:
    ids = random_ids(20)
    draft = small(rejection=True).propose(context(ids, WARM), 5)
    assert draft.q.shape == (5, VOCAB) and draft.q.dtype == torch.float64
    torch.testing.assert_close(draft.q.sum(1), torch.ones(5).double(), rtol=0, atol=1e-12)
    for i, token in enumerate(draft.ids):
        logits = sampling.process(own_logits([*ids, *draft.ids[:i]]), WARM)
        torch.testing.assert_close(draft.q[i], sampling.probabilities(logits), rtol=0, atol=1e-9)
        assert draft.q[i, token] > 0
    assert list(draft.ids) == decoded(ids, 5, WARM, INDEPENDENT)


@pytest.mark.slow
def test_drafts_for_rejection_are_distributed_as_q_and_not_by_the_targets_noise() -> None:
    drafter, ids, counts, same = small(rejection=True), random_ids(20), torch.zeros(VOCAB), 0
    runs = 600
    for seed in range(runs):
        s = Sampling(temperature=1.0, top_k=8, seed=seed)
        draft = drafter.propose(context(ids, s), 1)
        counts[draft.ids[0]] += 1
        same += draft.ids[0] == decoded_once(draft, s, len(ids))
    q = draft.q[0]
    kept = q > 0
    assert counts[~kept].sum() == 0
    assert chisquare(counts[kept].numpy(), (q[kept] * runs).numpy()).pvalue > 1e-3
    by_chance = float((q * q).sum())
    assert same / runs < by_chance + 0.1


def decoded_once(draft: Draft, s: Sampling, position: int) -> int:
    return sampling.draw(draft.q[0].log(), s, position)


def test_greedy_drafts_are_point_masses_and_carry_no_q() -> None:
    ids = random_ids(20)
    draft = small(rejection=True).propose(context(ids), 4)
    assert draft.q is None
    assert list(draft.ids) == decoded(ids, 4, GREEDY)
