"""Texts become a client's drafts in small slices; nothing is unbounded, nothing reaches another."""

from collections.abc import Sequence

from completiond.drafters.base import DraftContext
from completiond.drafters.reading import (
    LONGEST_TEXT,
    MOST_PARTS,
    PART,
    SLICE,
    WAITING_CLIENTS,
    WAITING_TEXTS,
    Reading,
)
from completiond.drafters.suffix import Suffix


class Encoder:
    """Bytes; keeps how much it was asked at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, text: str) -> Sequence[int]:
        self.sizes.append(len(text))
        return list(text.encode())


def reading() -> tuple[Reading, Suffix, Encoder]:
    encoder, suffix = Encoder(), Suffix()
    return Reading(encoder, suffix), suffix, encoder


def read_all(reading: Reading) -> int:
    slices = 0
    while reading.busy:
        reading.slice()
        slices += 1
    return slices


def drafted(suffix: Suffix, client: str, text: str) -> str:
    ids = list(text.encode())
    draft = suffix.propose(DraftContext("b", client, ids, len(ids)), 12)
    return bytes(draft.ids).decode()


def test_a_text_is_drafted_from_once_it_is_read() -> None:
    reader, suffix, _ = reading()
    reader.put("me", "f.py", "alpha beta gamma")
    assert drafted(suffix, "me", "alpha be") == ""
    assert read_all(reader) == 1
    assert drafted(suffix, "me", "alpha be") == "ta gamma"


def test_text_of_one_client_never_appears_in_another_s_drafts() -> None:
    reader, suffix, _ = reading()
    reader.put("me", "f.py", "the secret is 1234")
    reader.put("you", "f.py", "the answer is 42")
    read_all(reader)
    assert " 1234" in drafted(suffix, "me", "the secret is")
    assert "1" not in drafted(suffix, "you", "the secret is")


def test_a_client_that_is_forgotten_has_no_text_left_read_or_not() -> None:
    reader, suffix, _ = reading()
    reader.put("me", "f.py", "alpha beta gamma")
    read_all(reader)
    reader.put("me", "g.py", "delta epsilon")
    reader.forget("me")
    assert not reader.busy and drafted(suffix, "me", "alpha be") == ""


def test_no_slice_is_larger_than_a_key_may_wait_for() -> None:
    reader, suffix, encoder = reading()
    reader.put("me", "one line", "x" * 5_000_000)
    reader.put("me", "lines", "some words on a line\n" * 4000)
    read_all(reader)
    assert max(encoder.sizes) <= SLICE and sum(encoder.sizes) <= 2 * LONGEST_TEXT
    corpus = suffix._clients["me"].corpus
    assert max(end - start for start, end in corpus._spans.values()) <= PART + SLICE + 1


def test_a_shorter_version_takes_the_place_of_a_longer_one() -> None:
    reader, suffix, _ = reading()
    old = "".join(f"line {n} of the old text\n" for n in range(400))
    reader.put("me", "f", old)
    read_all(reader)
    assert len(suffix._clients["me"].corpus) > 1
    reader.put("me", "f", "alpha beta")
    read_all(reader)
    assert len(suffix._clients["me"].corpus) == 1
    assert drafted(suffix, "me", "line 3 of") == "" and drafted(suffix, "me", "alph") == "a beta"


def test_a_client_that_floods_keeps_the_newest_and_the_others_get_their_turn() -> None:
    reader, suffix, _ = reading()
    for number in range(10 * WAITING_TEXTS):
        reader.put("flood", f"{number}", "flood " * 1000)
    reader.put("me", "f", "alpha beta")
    reader.slice()
    reader.slice()
    assert drafted(suffix, "me", "alph") == "a beta"
    for number in range(2 * WAITING_CLIENTS):
        reader.put(f"c{number}", "f", "x")
    assert read_all(reader) < WAITING_CLIENTS * WAITING_TEXTS * 6


def test_what_is_no_text_is_left_out_and_an_old_version_with_it() -> None:
    reader, suffix, _ = reading()
    reader.put("me", "f", "alpha beta")
    read_all(reader)
    reader.put("me", "f", "alpha\0beta" * 100)
    read_all(reader)
    assert drafted(suffix, "me", "alph") == "" and MOST_PARTS * PART < 100_000
