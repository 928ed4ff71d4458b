"""Encoding is exact, control tokens cannot be spoken, and what was encoded is remembered."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import NAMES, added, awkward, real

from completiond.errors import ModelCorrupt, ModelMissing
from completiond.prompt.tokenizer import ByteTokenizer, EncodingCache, StreamDecoder, Tokenizer

SPEECH = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0x3FFFF)
    | st.sampled_from("<|>_fimsePRE▁｜ \n\t"),
    max_size=60,
)


def tiny(**changes: object) -> dict[str, object]:
    """A byte-level tokenizer.json of three letters."""
    spec = {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "added_tokens": [],
    }
    return spec | changes


@pytest.mark.parametrize("name", NAMES)
def test_decoding_gives_the_text_back(name: str) -> None:
    tokenizer = real(name)

    @settings(max_examples=40, deadline=None)
    @given(SPEECH)
    def law(text: str) -> None:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.control.isdisjoint(ids)

    law()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "file", ["fim_tokens_in_source.py", "special_tokens.txt", "naughty_strings.txt", "bom.ts"]
)
def test_names_of_control_tokens_in_a_file_are_text(name: str, file: str) -> None:
    tokenizer, text = real(name), awkward(file)
    ids = tokenizer.encode(text)
    assert tokenizer.control.isdisjoint(ids)
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize("name", NAMES)
def test_every_control_token_of_the_vocabulary_is_text_when_typed(name: str) -> None:
    tokenizer = real(name)
    for token in sorted(tokenizer.control):
        content = tokenizer._added[token].replace("▁", " ")
        assert tokenizer.control.isdisjoint(tokenizer.encode(f"x {content}y")), content


@pytest.mark.parametrize("name", NAMES)
def test_every_id_has_the_bytes_that_it_adds_to_a_text(name: str) -> None:
    tokenizer = real(name)
    assert (
        b"".join(tokenizer.token_bytes(i) for i in tokenizer.encode(" né\t😀"))
        == " né\t😀".encode()
    )
    for odd in (-1, tokenizer.vocab_size + 100, *tokenizer.control):
        assert tokenizer.token_bytes(odd) == b""


def test_padding_does_not_count_as_vocabulary() -> None:
    pads = [added(3, "<end>"), added(4, "[PAD4]"), added(5, "[PAD5]")]
    assert Tokenizer(tiny(added_tokens=pads)).vocab_size == 4


def test_real_vocabularies_have_their_known_sizes() -> None:
    assert real("deepseek-coder").vocab_size == 32_022
    assert real("qwen").vocab_size == 151_665


def test_no_blank_is_put_in_front_and_the_habit_is_reported() -> None:
    for name, habit in (("llama-spm", True), ("starcoder", False)):
        tokenizer = real(name)
        assert tokenizer.prepends_space is habit
        assert tokenizer.token_bytes(tokenizer.encode("x = 1")[0]) == b"x"


def test_the_bar_that_stands_for_a_blank_is_itself_in_a_text() -> None:
    tokenizer = real("llama-spm")
    assert tokenizer.decode(tokenizer.encode("▁a ▁▁ b▁")) == "▁a ▁▁ b▁"


def test_unicode_is_not_normalised() -> None:
    spec = tiny(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}]})
    spec["model"] = {
        "type": "BPE",
        "vocab": {"e": 0, "Ì": 1, "ģ": 2, "Ã": 3, "©": 4},
        "merges": [],
    }
    assert Tokenizer(spec).decode(Tokenizer(spec).encode("e\u0301")) == "e\u0301"


def test_a_plain_added_sentinel_is_control_but_whitespace_and_tags_stay_text() -> None:
    plain = [
        added(3, "<|fim_prefix|>", special=False),
        added(4, "<tool_call>", special=False),
        added(5, "   ", special=False),
        added(6, "<table>", special=False),
    ]
    tokenizer = Tokenizer(tiny(added_tokens=plain))
    assert tokenizer.control == {3, 4}
    assert tokenizer.token_bytes(5) == b"   " and tokenizer.token_bytes(6) == b"<table>"
    assert tokenizer.encode("ab   ab") == [2, 5, 2]


def test_a_sentinel_that_is_only_in_the_models_vocabulary_is_found_and_unspeakable() -> None:
    vocab = {"a": 0, "<": 1, "P": 2, "▁": 3, "▁<": 4, "▁<PRE>": 5, "RE>": 6, "▁<P": 7}
    merges = [["▁", "<"], ["▁<", "P"], ["▁<P", "RE>"]]
    tokenizer = Tokenizer(
        {
            "model": {"type": "BPE", "vocab": vocab, "merges": merges},
            "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            "decoder": {"type": "ByteFallback"},
        }
    )
    assert tokenizer.token_id("▁<PRE>") == 5
    assert tokenizer.control == {5}


def test_a_name_of_ordinary_text_is_no_sentinel() -> None:
    assert Tokenizer(tiny()).token_id("ab") is None
    assert real("qwen").token_id("</s>") is None
    assert real("qwen").token_id("<|fim_prefix|>") == 151_659


def test_bos_is_known_only_where_a_model_has_one() -> None:
    assert real("llama-spm").bos_id == 1
    assert real("deepseek-coder").bos_id == 32_013
    assert real("starcoder").bos_id is None
    assert real("qwen").bos_id is None


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    for tokenizer in (real("starcoder"), ByteTokenizer()):
        assert tokenizer.decode(tokenizer.encode("a\ud83dz")) == "a\ufffdz"


def test_an_encoding_is_the_callers_own() -> None:
    tokenizer = real("starcoder")
    tokenizer.encode("return value").clear()
    assert tokenizer.encode("return value")


def test_the_cache_is_bounded_by_bytes_and_drops_the_least_recently_used() -> None:
    cache = EncodingCache(limit=1_000)
    for text in ("one", "two", "three"):
        cache.put(text, (1, 2))
    cache.get("one")
    cache.put("four", (1, 2))
    assert cache.bytes <= 1_000
    assert cache.get("two") is None and cache.get("one") == (1, 2)
    cache.put("huge" * 1_000, (1,) * 1_000)
    assert cache.bytes <= 1_000


@pytest.mark.parametrize("name", ["starcoder", "llama-spm"])
@given(text=st.text(st.characters(max_codepoint=0x3FFFF), max_size=20))
@settings(max_examples=25, deadline=None)
def test_a_stream_never_shows_half_a_character(name: str, text: str) -> None:
    tokenizer = real(name)
    text = text.encode("utf-8", "replace").decode() + "😀é"
    decoder, parts = StreamDecoder(tokenizer), []
    for token in tokenizer.encode(text):
        parts.append(decoder.feed([token]))
        assert "\ufffd" not in parts[-1] or "\ufffd" in text
    assert "".join(parts) == text and decoder.flush() == ""


def test_a_stream_that_ends_inside_a_character_says_so_at_the_end() -> None:
    decoder = StreamDecoder(ByteTokenizer())
    assert decoder.feed("é".encode()[:1]) == ""
    assert decoder.flush() == "\ufffd"


def test_bytes_and_specials_of_the_byte_tokenizer() -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.encode("é<file_sep>") == list("é<file_sep>".encode())
    assert tokenizer.token_id("<file_sep>") == 262 and tokenizer.token_id("e") is None
    assert tokenizer.decode([104, 262, 105]) == "hi"


def test_a_file_that_is_missing_or_broken_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"tokenizer\.json does not exist"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ModelCorrupt, match="fetch the model again"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "none"}}))
    with pytest.raises(ModelCorrupt, match="cannot be used"):
        Tokenizer.load(tmp_path)


def test_loading_names_the_tokenizer_after_its_directory(tmp_path: Path) -> None:
    (tmp_path / "some-model").mkdir()
    (tmp_path / "some-model" / "tokenizer.json").write_text(json.dumps(tiny()))
    assert Tokenizer.load(tmp_path / "some-model").name == "some-model"
