"""The mask lets a run spell the healed text in every way the vocabulary knows, and no other."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import NAMES, real

from completiond.prompt.healing import HealingMask, VocabularyIndex
from completiond.prompt.spelling import in_order, spell
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer

TEXT = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0x3FFFF), max_size=12)
"""StarCoder has no token for 0xF1, the first byte of the unassigned planes from 4 on."""
INDEXES: dict[str, VocabularyIndex] = {}


def index_of(tokenizer: AnyTokenizer) -> VocabularyIndex:
    if tokenizer.name not in INDEXES:
        INDEXES[tokenizer.name] = VocabularyIndex(spell(tokenizer))
    return INDEXES[tokenizer.name]


def mask_for(tokenizer: AnyTokenizer, healed: str) -> HealingMask:
    return HealingMask(index_of(tokenizer), tokenizer.token_bytes, healed.encode())


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_obeys_starts_with_the_healed_bytes(name: str) -> None:
    tokenizer = real(name)

    @settings(max_examples=25, deadline=None)
    @given(TEXT, st.integers(0, 2**32))
    def law(healed: str, seed: int) -> None:
        mask, chance, run = mask_for(tokenizer, healed), random.Random(seed), list[int]()
        while (allowed := mask.allowed(run)) is not None:
            run.append(chance.choice(allowed))
        assert b"".join(map(tokenizer.token_bytes, run)).startswith(healed.encode())

    law()


@pytest.mark.parametrize("name", ["starcoder", "llama-spm"])
def test_allowed_is_what_a_search_through_all_ids_finds(name: str) -> None:
    tokenizer = real(name)
    for healed in (" ", " numberFormatExce", "é", "\t", "ret", "😀"):
        text = healed.encode()
        spelled = ((i, tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size))
        expected = [i for i, b in spelled if b and (text.startswith(b) or b.startswith(text))]
        assert list(mask_for(tokenizer, healed).allowed([]) or ()) == expected


def test_after_the_healed_part_every_id_may_follow() -> None:
    mask = mask_for(ByteTokenizer(), "ab")
    assert list(mask.allowed([]) or ()) == [97]
    assert list(mask.allowed([97]) or ()) == [98]
    assert mask.allowed([97, 98]) is None
    assert mask.allowed([97, 98, 120]) is None


def test_nothing_is_masked_when_nothing_was_taken_back() -> None:
    assert mask_for(ByteTokenizer(), "").allowed([]) is None


def test_a_run_that_left_the_healed_part_is_free() -> None:
    assert mask_for(ByteTokenizer(), "ab").allowed([120]) is None


def test_control_tokens_are_never_allowed() -> None:
    tokenizer = real("qwen")
    allowed = mask_for(tokenizer, " <").allowed([])
    assert allowed and tokenizer.control.isdisjoint(allowed)


def test_text_that_no_token_continues_masks_nothing() -> None:
    index = VocabularyIndex(in_order([b"a", b"b"]))
    assert HealingMask(index, {0: b"a", 1: b"b"}.__getitem__, b"c").allowed([]) is None


def test_bytes_of_the_highest_value_are_found() -> None:
    index = VocabularyIndex(in_order([b"\xff", b"\xff\xff", b"a"]))
    assert list(index.continuing(b"\xff")) == [0, 1]


def test_the_index_of_a_large_vocabulary_is_quick() -> None:
    tokenizer = real("qwen")
    start = time.perf_counter()
    VocabularyIndex(spell(tokenizer))
    assert time.perf_counter() - start < 2.0  # 0.2 s on two idle cores
