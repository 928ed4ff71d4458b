"""What is told of an answer's fate: each thing once, told by the editor or seen in its edits."""

import pytest

from completiond.protocol import messages as m
from completiond_lsp.buffers import Ask, Item
from completiond_lsp.documents import Edit, Position
from completiond_lsp.ledger import REMEMBERED, Ledger
from completiond_lsp.typed import Typed

ANSWER = "print(😀, x)\nreturn x"


def ledger() -> tuple[Ledger, list[m.Feedback]]:
    told: list[m.Feedback] = []
    return Ledger(told.append), told


def ask(ident: int = 7, text: str = ANSWER, *others: str) -> Ask:
    candidates = [m.Candidate(each, "stop") for each in (text, *others)]
    return Ask(Typed(10), 10, 1, None, id=ident, candidates=candidates)


def items(asked: Ask) -> list[Item]:
    here = Position(0, 10)
    return [Item(each.text, here, here, "", asked.id, n) for n, each in enumerate(asked.candidates)]


def test_what_is_shown_is_told_once_and_what_nobody_saw_is_not_rejected() -> None:
    kept, told = ledger()
    kept.offered(ask(1), items(ask(1)), seen=False)
    kept.rejected(1)
    assert told == []
    kept.shown(1, ANSWER)
    kept.shown(1, ANSWER)
    kept.rejected(1)
    kept.rejected(1)
    assert [each.event for each in told] == ["shown", "rejected"]


def test_parts_add_up_and_the_same_part_told_and_seen_counts_once() -> None:
    kept, told = ledger()
    asked = ask()
    kept.offered(asked, items(asked), seen=True)
    kept.saw(asked, Edit(10, 0, "print"))
    kept.accepted(7, "print")
    asked.typed.follow(Edit(10, 0, "print"))
    kept.saw(asked, Edit(15, 0, "(😀, x)\r\nreturn x"))
    kept.accepted(7)
    assert [(each.event, each.characters) for each in told] == [
        ("shown", 0),
        ("accepted", 5),
        ("accepted", len(ANSWER)),
    ]


@pytest.mark.parametrize(
    "edit",
    [Edit(10, 0, "p"), Edit(10, 0, "pr0"), Edit(3, 0, "print"), Edit(10, 0, ""), Edit(11, 0, "pr")],
)
def test_a_key_another_text_or_another_place_is_no_acceptance(edit: Edit) -> None:
    kept, told = ledger()
    asked = ask()
    kept.offered(asked, items(asked), seen=False)
    kept.saw(asked, edit)
    assert told == []


def test_a_pair_that_the_editor_closes_is_one_key() -> None:
    kept, told = ledger()
    asked = ask(1, "()")
    kept.offered(asked, items(asked), seen=False)
    kept.saw(asked, Edit(10, 0, "()"))
    assert told == []


def test_the_candidate_is_the_one_whose_text_was_taken() -> None:
    kept, told = ledger()
    asked = ask(1, "first", "second")
    kept.offered(asked, items(asked), seen=False)
    kept.accepted(1, "second")
    kept.saw(asked, Edit(10, 0, "first and more"))
    assert told == [m.Feedback(1, "accepted", 1, 6)]


def test_only_so_many_answers_are_remembered() -> None:
    kept, told = ledger()
    for ident in range(1, REMEMBERED + 2):
        kept.offered(ask(ident), items(ask(ident)), seen=False)
    kept.accepted(1)
    kept.accepted(2)
    assert [each.id for each in told] == [2]
