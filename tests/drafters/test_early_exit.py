"""The first layers draft in the target's own slot and leave it as it was."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch

from completiond.core import GREEDY, NO_DRAFT, CancelToken, Prompt, Sampling
from completiond.drafters.base import DraftContext
from completiond.drafters.early_exit import CHUNK, EarlyExit
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.model import sampling
from completiond.model.attention import Segment
from completiond.model.kv_cache import KVCache, Slot
from completiond.model.library import LibraryDecoder
from completiond.model.runner import Runner
from tiny import assert_fresh, fresh_slot, random_ids, reference, tiny_runner

LAYERS, VOCAB = 3, 64
WARM = Sampling(temperature=0.9, top_k=20, seed=4)


def target() -> Runner:
    return tiny_runner(layers=LAYERS)


def shallow(layers: int) -> Runner:
    """The target's first layers, its last norm and its head, on slots of the target's shape."""
    decoder = target().decoder
    assert isinstance(decoder, LibraryDecoder)
    model = deepcopy(decoder.model)
    model.model.layers = model.model.layers[:layers]  # type: ignore[union-attr, index]
    part = LibraryDecoder(model)
    part.kv = decoder.kv
    return Runner(part, VOCAB)


def own_decoding(ids: Sequence[int], n: int, layers: int, s: Sampling) -> list[int]:
    """What the library's model of so many layers says, without any cache."""
    model, text = deepcopy(reference(layers=LAYERS)), list(ids)
    model.model.layers = model.model.layers[:layers]
    for _ in range(n):
        with torch.inference_mode():
            logits = model(torch.tensor([text]), use_cache=False).logits[0, -1, :VOCAB]
        text.append(sampling.draw(sampling.process(logits, s), s, len(text)))
    return text[len(ids) :]


def context(ids: Sequence[int], s: Sampling = GREEDY) -> DraftContext:
    return DraftContext("b", "c", list(ids), len(ids), sampling=s)


@pytest.mark.parametrize("s", [GREEDY, WARM])
@pytest.mark.parametrize("layers", [1, 2, LAYERS])
@pytest.mark.parametrize("pending", [1, 5])
def test_the_draft_is_the_first_layers_own_decoding(s: Sampling, layers: int, pending: int) -> None:
    ids = random_ids(20)
    part = shallow(layers)
    slot = fresh_slot(part, ids[:-pending])
    draft = EarlyExit(part, lambda _: slot).propose(context(ids, s), 5)
    assert list(draft.ids) == own_decoding(ids, 5, layers, s)
    assert draft.is_chain and draft.q is None and list(draft.probs) == sorted(draft.probs)[::-1]


@pytest.mark.parametrize("budget", [1, 4, 16])
def test_the_slot_is_left_as_it_was_and_the_pass_makes_it_whole(budget: int) -> None:
    runner, ids = target(), random_ids(20)
    slot = fresh_slot(runner, ids[:-1])
    draft = EarlyExit(shallow(1), lambda _: slot).propose(context(ids), budget)
    assert slot.ids == ids[:-1]
    assert_fresh(runner, slot)
    new = [ids[-1], *draft.ids]
    runner.forward([Segment(slot, new, None, range(len(new)))])
    slot.keep(new[:2], range(2))
    assert_fresh(runner, slot)


def test_all_layers_are_always_right() -> None:
    runner, ids = target(), random_ids(12)
    slot = fresh_slot(runner, ids[:-1])
    draft = EarlyExit(runner, lambda _: slot).propose(context(ids, WARM), 6)
    assert list(draft.ids) == own_decoding(ids, 6, LAYERS, WARM)


def test_a_run_without_a_slot_or_in_its_prefill_gets_no_draft() -> None:
    part = shallow(1)
    assert EarlyExit(part, lambda _: None).propose(context([1, 2]), 4) == NO_DRAFT
    slot = Slot(part.kv)
    drafter = EarlyExit(part, lambda _: slot)
    assert drafter.propose(context(random_ids(CHUNK + 1)), 4) == NO_DRAFT
    assert drafter.propose(context([1, 2]), 0) == NO_DRAFT
    assert not slot.ids and not slot.capacity, "nothing was computed"


def test_a_failure_leaves_the_slot_as_it_was() -> None:
    class Fails:
        vocab_size = VOCAB

        def prefill(self, slot: Slot, ids: Sequence[int]) -> torch.Tensor:
            slot.ids.extend(ids)
            raise RuntimeError

    slot = fresh_slot(target(), random_ids(9))
    with pytest.raises(RuntimeError):
        EarlyExit(Fails(), lambda _: slot).propose(context([*slot.ids, 3]), 4)
    assert slot.ids == random_ids(9)


@pytest.mark.parametrize("s", [GREEDY, WARM])
@pytest.mark.parametrize("layers", [1, 2])
def test_answers_are_those_of_plain_decoding(s: Sampling, layers: int) -> None:
    class Never:
        def step(self, ids: Sequence[int]) -> None:
            return None

    def answer(drafts: bool) -> list[int]:
        runner = target()
        cache = KVCache(runner.kv, 1 << 24)
        drafter = EarlyExit(shallow(layers), lambda name: cache._slots.get(name))
        decoding = Decoding(runner, [drafter] if drafts else [], draft_tokens=5)
        core = ModelCore(decoding, cache, PassSize(1e9, 8), context=256)
        core.admit(
            Job(0, "b", "c", Prompt(tuple(random_ids(21))), 16, s),
            Rules(Never(), None),
            CancelToken(),
        )
        while core.busy:
            for event in core.step():
                if isinstance(event, Done):
                    assert not drafts or sum(event.outcome.drafted.values())
                    return event.outcome.ids
        raise AssertionError("no answer")

    assert answer(True) == answer(False)
