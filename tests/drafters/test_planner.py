"""The planner brings as many tokens per second as the best fixed width, never fewer than none."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.chances import MOST_SOURCES, Chances
from completiond.drafters.costs import MOST_POINTS, Costs
from completiond.drafters.planner import CLIENTS, PROBE, PROBING, Planner, Policy
from completiond.drafters.policies import RETRY, WINDOW, FixedK, SimpleRule
from completiond.drafters.tree import tried

STEPPED = {1: 35.0, 2: 45.0, 8: 45.0, 9: 51.0, 16: 51.0, 17: 90.0, 32: 150.0}


def chain(n: int, chance: float, source: str = "s", matched: int = 0) -> Draft:
    made = Draft.chain(range(n), source, chance)
    return Draft(made.ids, made.parents, made.probs, made.sources, None, (matched,) * n)


def step(draft: Draft, accepted: int, rows: int = 1) -> Step:
    """A pass over a chain 0, 1, 2, … that kept the first `accepted` nodes."""
    ids = (*draft.ids[:accepted], 999)
    kept = [t.node for t in tried(draft, ids) if t.kept]
    counts = (_count(draft, range(len(draft))), _count(draft, kept))
    return Step(ids, rows + len(draft), *counts, tree=draft)


def _count(draft: Draft, nodes: "range | list[int]") -> dict[str, int]:
    found: dict[str, int] = {}
    for node in nodes:
        found[draft.sources[node]] = found.get(draft.sources[node], 0) + 1
    return found


# The cost table


def test_costs_are_what_was_measured_and_a_line_between() -> None:
    costs = Costs({1: 10, 3: 20, 5: 20})
    assert [costs.ms(n) for n in (1, 2, 3, 4, 5, 9)] == [10, 15, 20, 20, 20, 20]
    assert Costs({4: 7}).ms(1) == Costs({4: 7}).ms(100) == 7
    assert Costs({1: 10, 2: 12}).ms(4) == 16


def test_the_widest_pass_within_a_time_is_found() -> None:
    costs = Costs({1: 10, 32: 41})
    assert [costs.rows_within(ms) for ms in (5, 10, 20, 41, 1e9)] == [1, 1, 11, 32, 512]


def test_a_branch_costs_what_was_measured_for_one() -> None:
    costs = Costs({1: 10, 8: 12}, fork_ms=2.0)
    assert costs.ms(8, 3) == 18
    for _ in range(50):
        costs.observe(8, 18, 3)
    assert costs.ms(8) == pytest.approx(12) and costs.ms(1) == pytest.approx(10)


def test_a_tree_is_verified_where_branches_are_cheap_and_its_best_path_where_they_are_dear() -> (
    None
):
    tree = Draft((1, 2, 3, 4), (-1, -1, 0, 1), (0.5, 0.4, 0.4, 0.3), ("s",) * 4)
    flat = {1: 20.0, 32: 20.5}
    assert len(Planner(Costs(flat)).choose("c", tree, 1)) == 4
    path = Planner(Costs(flat, fork_ms=20.0)).choose("c", tree, 1)
    assert path.ids == (1, 3) and path.is_chain


def test_a_step_that_was_not_measured_is_learned() -> None:
    costs = Costs({1: 35, 32: 150})
    for _ in range(200):
        for rows in (1, 4, 8, 9):
            costs.observe(rows, STEPPED[1] if rows == 1 else 45.0 if rows <= 8 else 51.0)
    assert [round(costs.ms(n)) for n in (1, 4, 8, 9)] == [35, 45, 45, 51]


def test_a_machine_that_slows_down_slows_all_widths() -> None:
    costs = Costs(STEPPED)
    for _ in range(300):
        costs.observe(8, 90.0)
    assert costs.ms(8) == pytest.approx(90, rel=0.05)
    assert costs.ms(16) > 1.3 * STEPPED[16]


def test_one_disturbed_pass_changes_little() -> None:
    costs = Costs(STEPPED)
    costs.observe(8, 100_000.0)
    assert costs.ms(8) < 1.4 * STEPPED[8]
    costs.observe(8, 0.0)
    costs.observe(10 * MOST_POINTS, 1e4)
    assert len(costs._points) <= MOST_POINTS


# Chances


def test_a_promise_that_is_not_kept_is_corrected_and_one_that_is_stays() -> None:
    chances, draft = Chances(), chain(1, 0.8)
    rng = random.Random(0)
    for _ in range(400):
        chances.observe(draft, (0,) if rng.random() < 0.2 else (5,))
    assert chances.of(draft)[0] == pytest.approx(0.2, abs=0.12)
    assert chances.of(chain(1, 0.4))[0] < chances.of(draft)[0], "its own differences stay"
    assert chances.of(chain(1, 0.8, "other"))[0] == pytest.approx(0.8)
    assert chances.of(chain(1, 0.8, matched=16))[0] == pytest.approx(0.8)


def test_depths_and_lengths_are_told_apart() -> None:
    """An n-gram's acceptance rises with depth, a neural draft's falls."""
    chances, draft = Chances(), chain(4, 0.6)
    for _ in range(100):
        chances.observe(draft, (0, 9))  # the first holds, the second never
    path = chances.of(draft)
    assert path[0] > 0.9 and path[1] / path[0] < 0.2
    assert path[2] / path[1] < 0.4, "what was never tried is as good as what is above it"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 99), st.integers(0, 9)), max_size=80))
def test_chances_are_probabilities_and_bounded(seen: list[tuple[str, int, int]]) -> None:
    chances = Chances()
    for source, matched, accepted in seen:
        draft = chain(6, 0.5, source, matched)
        chances.observe(draft, (*draft.ids[:accepted], 99))
        paths = chances.of(draft)
        assert all(0 < p < 1 for p in paths) and paths == sorted(paths, reverse=True)
    assert len(chances) <= (MOST_SOURCES + 1) * 7 * 5


# The planner


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(5, 200), min_size=1, max_size=12),
    st.floats(0.01, 0.99),
    st.integers(0, 12),
    st.integers(1, 20),
)
def test_no_width_is_chosen_whose_rate_is_below_that_of_none(
    times: list[float], chance: float, n: int, rows: int
) -> None:
    costs = Costs({2 * i + 1: ms for i, ms in enumerate(times)})
    draft = chain(n, chance)
    kept = Planner(costs).choose("c", draft, rows)
    assert kept.ids == draft.ids[: len(kept)]
    tokens = 1 + sum(chance ** (i + 1) for i in range(len(kept)))
    rates = [
        (1 + sum(chance ** (i + 1) for i in range(w))) / costs.ms(rows + w) for w in range(n + 1)
    ]
    got = tokens / costs.ms(rows + len(kept))
    assert got >= rates[0] * (1 - 1e-9) and got >= max(rates) * (1 - 1e-9)


def test_the_step_is_found_where_a_marginal_rule_would_stop_at_one_row() -> None:
    planner = Planner(Costs(STEPPED))
    likely = chain(30, 0.7)
    assert likely.probs[0] / (STEPPED[2] - STEPPED[1]) > 1 / STEPPED[1]
    assert len(planner.choose("c", likely, 1)) == 7
    unlikely = chain(30, 0.2)
    assert unlikely.probs[0] / 10 < 1 / 35, "by the margin the first row does not pay"
    assert len(Planner(Costs(STEPPED)).choose("c", chain(30, 0.25), 1)) in (0, 7)
    assert len(Planner(Costs({1: 10, 2: 11, 16: 11, 17: 30})).choose("c", unlikely, 1)) == 15


def test_a_narrow_gain_does_not_start_drafting_but_keeps_it() -> None:
    costs = Costs({1: 10.0, 2: 14.0})
    drafting, resting = Planner(costs), Planner(costs)
    resting.choose("c", chain(1, 0.1), 1)
    assert len(resting.choose("c", chain(1, 0.41), 1)) == 0
    assert len(drafting.choose("c", chain(1, 0.41), 1)) == 1
    assert len(resting.choose("c", chain(1, 0.6), 1)) == 1
    assert len(resting.choose("c", chain(1, 0.41), 1)) == 1


def test_what_lost_is_tried_again_after_a_while() -> None:
    """Calibrated down to nothing, it would never be verified and never recover."""
    planner, draft = Planner(Costs({1: 10.0, 2: 13.0})), chain(1, 0.9)
    while len(kept := planner.choose("c", draft, 1)):
        planner.observe("c", step(kept, 0), {})
    waits = 0
    while not len(planner.choose("c", draft, 1)):
        waits += 1
        assert waits < 500
    assert waits > 5


def test_a_source_that_costs_more_than_it_brings_is_switched_off_and_tried_again() -> None:
    planner = Planner(Costs(STEPPED))

    def run(passes: int, accepted: int) -> list[int]:
        asked = []
        for _ in range(passes):
            n = planner.budget("c", "dear", 4)
            asked.append(n)
            draft = planner.choose("c", chain(n, 0.9, "dear"), 1) if n else NO_DRAFT
            planner.observe(
                "c", step(draft, min(accepted, len(draft))), {"dear": 60.0} if n else {}
            )
        return asked

    losing = run(100, 1)
    assert losing[0] and not losing[30]
    assert 0 < sum(n > 0 for n in losing[20:]) < 30, "it is probed, seldom"
    off = losing[::-1].index(max(losing)) if max(losing[-PROBE:]) else PROBE
    assert off <= 2 * PROBE
    winning = run(8 * PROBE + 8 * PROBING, 4)
    assert all(winning[-20:]), "and taken back when it wins"
    assert planner.budget("other", "dear", 4) == 4, "by client"


def test_a_cheap_source_that_seldom_has_anything_stays() -> None:
    planner = Planner(Costs(STEPPED))
    for _ in range(300):
        assert planner.budget("c", "lookup", 8) == 8
        planner.observe("c", step(NO_DRAFT, 0), {"lookup": 0.02})


def test_a_source_that_gets_ready_first_is_judged_by_what_it_drafts_then() -> None:
    planner = Planner(Costs(STEPPED))
    plain = planner.costs.ms(1)

    def run(passes: int, accepted: int) -> list[int]:
        asked = []
        for _ in range(passes):
            asked.append(planner.budget("c", "dear", 4))
            draft = chain(4, 0.9, "dear") if accepted else NO_DRAFT
            planner.observe("c", step(draft, accepted), {"dear": plain})
        return asked

    assert all(run(20, 0)), "it reads"
    assert all(run(60, 4)), "and pays for it later"
    assert not all(run(200, 0)), "one that never gets ready is not asked for ever"


def test_a_dear_source_is_not_asked_beside_a_surer_draft() -> None:
    planner = Planner(Costs(STEPPED))
    for _ in range(40):
        n = planner.budget("c", "dear", 4)
        planner.observe("c", step(chain(n, 0.8, "dear"), min(n, 2)), {"dear": 20.0 * n})
    assert planner.budget("c", "dear", 16) > 0
    assert planner.budget("c", "dear", 16, [chain(8, 0.95, "suffix")]) == 0
    assert planner.budget("c", "dear", 16, [chain(2, 0.1, "suffix")]) > 0


def test_a_dear_source_drafts_as_much_as_pays() -> None:
    """Chains of a small model: E = (1 + Σ αⁱ) ÷ (pass + count × cost of a draft)."""
    flat = {1: 10.0, 32: 10.0}

    def asked(alpha: float, token_ms: float) -> int:
        planner, rng = Planner(Costs(flat)), random.Random(1)
        for _ in range(400):
            n = max(1, planner.budget("c", "small", 16))
            accepted = next((i for i in range(n) if rng.random() > alpha), n)
            planner.observe("c", step(chain(n, alpha, "small"), accepted), {"small": n * token_ms})
        return planner.budget("c", "small", 16)

    def best(alpha: float, token_ms: float) -> int:
        def rate(n: int) -> float:
            return sum(alpha**i for i in range(n + 1)) / (10 + n * token_ms)

        return max(range(1, 17), key=rate)

    for alpha, token_ms in ((0.8, 1.0), (0.6, 1.0), (0.9, 3.0)):
        assert abs(asked(alpha, token_ms) - best(alpha, token_ms)) <= 2


def test_a_sampled_draft_is_never_cut() -> None:
    draft = Draft((1, 2), (-1, 0), (0.01, 0.001), ("s", "s"), object())
    for policy in (Planner(Costs(STEPPED)), SimpleRule(), FixedK(1)):
        assert policy.choose("c", draft, 1) is draft


def test_experience_is_bounded_in_clients() -> None:
    for policy in (Planner(Costs(STEPPED)), SimpleRule()):
        for number in range(5 * CLIENTS):
            policy.budget(str(number), "s", 4)
        assert len(policy._clients) == CLIENTS


# Against fixed widths, in a made-up world


def rate_of(policy: Policy, alpha: float, passes: int = 1500) -> float:
    """Tokens per millisecond where chains of 31 hold with `alpha` and say .5, costs are STEPPED."""
    rng, costs = random.Random(7), Costs(STEPPED)
    tokens, ms = 0, 0.0
    for _ in range(passes):
        n = policy.budget("c", "s", 31)
        draft = policy.choose("c", chain(n, 0.5), 1) if n else NO_DRAFT
        holds = next((i for i in range(31) if rng.random() > alpha), 31)
        done = step(draft, min(holds, len(draft)))
        policy.observe("c", done, {"s": 0.05} if n else {})
        tokens += len(done.ids)
        ms += costs.ms(1 + len(draft))
    return tokens / ms


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_the_planner_is_within_three_percent_of_the_best_fixed_width(alpha: float) -> None:
    planned = rate_of(Planner(Costs(STEPPED)), alpha)
    fixed = {k: rate_of(FixedK(k), alpha) for k in (0, 1, 3, 7, 15, 31)}
    assert planned >= 0.97 * max(fixed.values()), (planned, fixed)
    assert planned >= 0.98 * fixed[0]


# The rule of thumb


def passes(rule: SimpleRule, accepted: int, n: int, drafted: int = 8) -> list[int]:
    seen = []
    for _ in range(n):
        k = rule.budget("c", "s", 32)
        seen.append(k)
        draft = rule.choose("c", chain(drafted, 0.5), 1)
        assert len(draft) == min(k, drafted)
        spent: Mapping[str, float] = {}
        rule.observe("c", step(draft, min(len(draft), accepted)), spent)
    return seen


def test_below_a_half_the_length_is_halved_down_to_one() -> None:
    seen = passes(SimpleRule(8), 3, 2 * WINDOW)
    assert seen[:WINDOW] == [8] * WINDOW and seen[WINDOW] == 4


def test_below_three_tenths_nothing_is_drafted_until_it_is_tried_again() -> None:
    seen = passes(SimpleRule(8), 1, WINDOW + RETRY + 1)
    assert seen == [8] * WINDOW + [0] * RETRY + [8]


def test_above_a_half_the_length_grows_back() -> None:
    rule = SimpleRule(8)
    passes(rule, 3, WINDOW)
    assert passes(rule, 8, WINDOW + 1)[-1] == 8


def test_a_fixed_length_stays() -> None:
    rule = FixedK(5)
    rule.observe("c", step(chain(5, 0.5), 0), {})
    assert rule.budget("c", "s", 32) == 5 and rule.budget("c", "s", 2) == 2
    assert len(rule.choose("c", chain(8, 0.5), 1)) == 5 and rule.name == "fixed 5"
