"""Several drafters, one tree: asked as the policy says, told what was kept, sampled ones alone."""

from collections.abc import Mapping, Sequence

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.drafting import OPEN, Drafting
from completiond.drafters.policies import FixedK
from completiond.drafters.recycled import Recycled
from completiond.drafters.tree import cut

CONTEXT = DraftContext("b", "c", [1, 2, 3], 3)


class Says:
    def __init__(self, name: str, draft: Draft) -> None:
        self.name, self.draft = name, draft
        self.asked: list[int] = []
        self.told: list[Step] = []

    def propose(self, context: DraftContext, budget: int) -> Draft:
        self.asked.append(budget)
        return self.draft

    def observe(self, context: DraftContext, step: Step) -> None:
        self.told.append(step)


class Wants:
    """Budgets by source; cuts to a width; keeps what it is told."""

    name = "wants"

    def __init__(self, budgets: Mapping[str, int], width: int = 99) -> None:
        self.budgets, self.width = budgets, width
        self.rows: list[int] = []
        self.spent: list[Mapping[str, float]] = []

    def budget(self, client: str, source: str, most: int, beside: Sequence[Draft] = ()) -> int:
        return min(self.budgets.get(source, 0), most)

    def choose(self, client: str, draft: Draft, rows: int) -> Draft:
        self.rows.append(rows)
        return cut(draft, draft.probs, self.width)

    def observe(self, client: str, step: Step, spent_ms: Mapping[str, float]) -> None:
        self.spent.append(spent_ms)


def test_drafts_are_merged_and_cut_and_everybody_is_told() -> None:
    one, two = Says("a", Draft.chain([1, 2], "a", 0.5)), Says("b", Draft.chain([1, 3], "b", 0.9))
    policy = Wants({"a": 4, "b": 2}, width=2)
    drafting = Drafting([one, two], policy)
    draft = drafting.propose(CONTEXT, 8, rows=5)
    assert draft.ids == (1, 3) and draft.sources == ("a", "b")
    assert (one.asked, two.asked, policy.rows) == ([4], [2], [5])
    step = Step((1, 3, 9), tree=draft)
    drafting.observe(CONTEXT, step)
    assert one.told == two.told == [step]
    assert set(policy.spent[0]) == {"a", "b"} and all(ms >= 0 for ms in policy.spent[0].values())
    assert drafting.names == ["a", "b"]


def test_a_source_that_is_off_is_not_asked_but_told() -> None:
    off, on = Says("off", Draft.chain([1], "off")), Says("on", Draft.chain([2], "on"))
    policy = Wants({"on": 3})
    drafting = Drafting([off, on], policy)
    assert drafting.propose(CONTEXT, 8, 1).ids == (2,)
    drafting.observe(CONTEXT, Step((2,)))
    assert not off.asked and len(off.told) == 1 and set(policy.spent[0]) == {"on"}


def test_a_sampled_draft_is_verified_alone_and_whole_or_not_at_all() -> None:
    sampled = Draft((7, 8), (-1, 0), (0.01, 0.001), ("s", "s"), object())
    alone = Drafting([Says("n", NO_DRAFT), Says("s", sampled)], FixedK(1))
    assert alone.propose(CONTEXT, 8, 1) is sampled
    beside = Drafting([Says("n", Draft.chain([1], "n")), Says("s", sampled)], FixedK(4))
    assert beside.propose(CONTEXT, 8, 1).ids == (1,)


def test_without_a_budget_nobody_is_asked() -> None:
    one = Says("a", Draft.chain([1], "a"))
    drafting = Drafting([one], Wants({"a": 4}))
    assert drafting.propose(CONTEXT, 0, 1) == NO_DRAFT and not one.asked
    assert Drafting([], FixedK(3)).propose(CONTEXT, 8, 1) == NO_DRAFT


def test_passes_that_failed_leave_nothing_behind() -> None:
    drafting = Drafting([Says("a", NO_DRAFT)], FixedK(2))
    for number in range(3 * OPEN):
        drafting.propose(DraftContext(str(number), "c", [1], 1), 4, 1)
    assert len(drafting._spent) == OPEN


def test_a_hint_is_verified_whole_whatever_the_policy_says() -> None:
    """An unchanged continuation takes one pass, also where drafts seldom hold."""
    context = DraftContext("b", "c", [1, 2, 3], 3, hint=tuple(range(40)))
    drafting = Drafting([Says("n", Draft.chain([9], "n")), Recycled()], FixedK(0))
    assert drafting.propose(context, 8, 1) == NO_DRAFT
    assert drafting.whole(context, 30).ids == tuple(range(30))
    assert Drafting([Says("n", Draft.chain([9], "n"))], FixedK(4)).whole(context, 30) == NO_DRAFT


def test_what_drafting_took_is_told() -> None:
    drafting = Drafting([Says("a", NO_DRAFT)], FixedK(2))
    drafting.propose(CONTEXT, 4, 1)
    assert 0 < drafting.spent_ms < 1000
