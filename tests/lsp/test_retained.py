"""Laws of what is left of an accepted text, against a document that says it letter by letter."""

import random

from completiond_lsp.documents import Edit
from completiond_lsp.retained import Retained


def test_untouched_text_stays_whatever_is_typed_around_it() -> None:
    kept = Retained(10, "value = 1")
    kept.follow(Edit(0, 0, "above\n"))
    kept.follow(Edit(2, 3, ""))
    kept.follow(Edit(10 + 6 - 3 + 9, 0, " below"))
    assert kept.pieces == [(13, "value = 1")]


def test_random_edits_leave_the_letters_that_they_do_not_remove() -> None:
    draw = random.Random(11)
    for _ in range(300):
        letters = [(char, False) for char in "before"] + [(char, True) for char in "accepted text"]
        letters += [(char, False) for char in "after"]
        kept = Retained(6, "accepted text")
        for _ in range(8):
            start = draw.randrange(len(letters) + 1)
            removed = draw.randrange(min(5, len(letters) - start + 1))
            text = draw.choice(("", "x", "yz"))
            letters[start : start + removed] = [(char, False) for char in text]
            kept.follow(Edit(start, removed, text))
            assert kept.characters == sum(ours for _, ours in letters)
            document = "".join(char for char, _ in letters)
            assert all(document.startswith(piece, at) for at, piece in kept.pieces)


def test_a_formatter_that_replaces_everything_keeps_what_it_wrote_again() -> None:
    kept = Retained(8, "return value")
    kept.follow(Edit(0, 20, "def f():\n    return value\n\nreturn value\n"))
    assert kept.pieces == [(13, "return value")]
    kept.follow(Edit(0, 40, "nothing of it"))
    assert kept.characters == 0


def test_short_pieces_are_not_found_by_chance() -> None:
    kept = Retained(0, "ab")
    kept.follow(Edit(0, 2, "cab ab ab"))
    assert kept.characters == 0
