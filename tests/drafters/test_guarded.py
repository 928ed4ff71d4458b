"""A drafter that fails is dropped, logged once, and no draft of it reaches a pass again."""

import logging

import pytest

from completiond.core import NO_DRAFT, Draft, Step
from completiond.drafters.base import DraftContext
from completiond.drafters.guarded import Guarded

CONTEXT = DraftContext("b", "c", [1, 2, 3], 3)


class Says:
    name = "says"

    def __init__(self, draft: Draft, *, fails: str = "") -> None:
        self.draft, self.fails, self.asked = draft, fails, 0

    def propose(self, context: DraftContext, budget: int) -> Draft:
        self.asked += 1
        if self.fails == "propose":
            raise ZeroDivisionError
        return self.draft

    def observe(self, context: DraftContext, step: Step) -> None:
        if self.fails == "observe":
            raise KeyError("x")


def test_a_sound_draft_goes_through_untouched() -> None:
    draft = Draft.chain([4, 5], "says")
    guarded = Guarded(Says(draft), 10)
    assert guarded.propose(CONTEXT, 2) is draft and guarded.name == "says"
    guarded.observe(CONTEXT, Step((4,)))
    assert not guarded.dropped


@pytest.mark.parametrize("fails", ["propose", "observe"])
def test_one_that_throws_is_dropped_and_logged_once(
    fails: str, caplog: pytest.LogCaptureFixture
) -> None:
    drafter = Says(NO_DRAFT, fails=fails)
    guarded = Guarded(drafter, 10)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert guarded.propose(CONTEXT, 4) == NO_DRAFT
            guarded.observe(CONTEXT, Step((1,)))
    assert len(caplog.records) == 1 and "says" in caplog.text and guarded.dropped
    assert drafter.asked == 1


@pytest.mark.parametrize(
    "draft",
    [
        Draft((4, 5, 6), (-1, 0, 1), (0.5,) * 3, ("s",) * 3),  # more than asked for
        Draft((4, 5), (1, -1), (0.5,) * 2, ("s",) * 2),  # a child before its parent
        Draft((4,), (0,), (0.5,), ("s",)),  # its own parent
        Draft((4,), (-2,), (0.5,), ("s",)),
        Draft((4, 4), (-1, -1), (0.5,) * 2, ("s",) * 2),  # twins
        Draft((10,), (-1,), (0.5,), ("s",)),  # outside the vocabulary
        Draft((-1,), (-1,), (0.5,), ("s",)),
        Draft((4, 5), (-1,), (0.5,), ("s",)),  # a part is missing
        Draft((4,), (-1,), (0.5,), ("s",), None, (1, 2)),
    ],
)
def test_what_is_no_tree_of_known_ids_never_reaches_the_pass(
    draft: Draft, caplog: pytest.LogCaptureFixture
) -> None:
    guarded = Guarded(Says(draft), 10)
    assert guarded.propose(CONTEXT, 2) == NO_DRAFT and guarded.dropped
    assert len(caplog.records) == 1
