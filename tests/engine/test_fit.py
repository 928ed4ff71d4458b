"""What does not fit gives way in a fixed order, and a person is told in one sentence each."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.engine.fit import CPU_KV, DRAFT_SHARE, Fit, Needs, fit
from completiond.errors import DeviceError
from completiond.model.size import Size

MIB = 1 << 20
GPU = Needs(
    device="cuda:0",
    free=24_000 * MIB,
    working=1000 * MIB,
    target=Size(13_000 * MIB, MIB // 2),
    context=4096,
    graphs=750 * MIB,
    draft=Size(2000 * MIB, 65_536),
)
CPU = Needs("cpu", 8000 * MIB, 256 * MIB, Size(600 * MIB, 24_576), 4096)


def held(needs: Needs, found: Fit) -> int:
    """All bytes that will be taken."""
    total = needs.working + needs.target.weights + needs.graphs + found.kv
    if found.draft:
        assert needs.draft is not None
        total += needs.draft.weights + needs.graphs + found.kv // DRAFT_SHARE
    return total


def test_a_gpu_gives_keys_and_values_all_that_is_left() -> None:
    found = fit(GPU)
    assert found.draft and found.notes == ()
    assert 0 <= GPU.free - held(GPU, found) < 100


def test_a_budget_that_is_set_is_kept_where_it_fits() -> None:
    assert fit(replace(GPU, kv=512 * MIB)) == Fit(True, 512 * MIB, ())
    assert fit(replace(CPU, kv=64 * MIB)) == Fit(False, 64 * MIB, ())


def test_a_processor_gets_what_it_always_got() -> None:
    assert fit(CPU) == Fit(False, CPU_KV, ())
    assert fit(replace(CPU, draft=Size(300 * MIB, 8192))) == Fit(True, CPU_KV, ())


def test_a_context_that_is_longer_than_the_budget_of_a_processor_is_no_reason_to_refuse() -> None:
    assert fit(replace(CPU, context=1 << 20)) == Fit(False, CPU_KV, ())


def test_the_draft_goes_first() -> None:
    found = fit(replace(GPU, free=17_500 * MIB))
    assert not found.draft and found.kv == (17_500 - 13_000 - 1000 - 750) * MIB
    (note,) = found.notes
    assert note.startswith("The draft model is left out") and "17,500 MiB" in note


def test_then_keys_and_values_shrink_to_what_is_left() -> None:
    found = fit(replace(GPU, free=17_500 * MIB, kv=4000 * MIB))
    assert found.kv == 2750 * MIB and not found.draft
    assert "gets 2,750 MiB instead of 4,000 MiB" in found.notes[1]
    tight = fit(replace(CPU, free=1000 * MIB))
    assert tight.kv == 144 * MIB and "instead of 512 MiB" in tight.notes[0]


def test_then_the_model_is_refused_with_what_it_needs_and_what_to_do() -> None:
    with pytest.raises(DeviceError) as caught:
        fit(replace(GPU, free=16_000 * MIB))
    sentence = str(caught.value)
    for part in ("cuda:0", "16,000 MiB are free", "13,000 MiB of weights", "model.context"):
        assert part in sentence
    assert "\n" not in sentence


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 40_000).map(lambda n: n * MIB),
    st.integers(0, 9000).map(lambda n: n * MIB),
    st.booleans(),
    st.sampled_from([GPU, CPU]),
)
def test_what_is_taken_never_exceeds_what_is_free(
    free: int, kv: int, draft: bool, base: Needs
) -> None:
    needs = replace(base, free=free, kv=kv, draft=GPU.draft if draft else None)
    wanted = kv or (CPU_KV if base is CPU else 0)
    least = min(needs.context * needs.target.token, wanted or 1 << 62)
    try:
        found = fit(needs)
    except DeviceError:
        assert needs.working + needs.target.weights + needs.graphs + least > free
        return
    assert held(needs, found) <= free
    assert found.kv >= least
    assert len(found.notes) == (found.draft != draft) + (found.kv < wanted)
