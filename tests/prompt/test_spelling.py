"""A vocabulary is read once: the cache says the same, and never anything old or broken."""

import json
import os
from pathlib import Path

import pytest

from completiond.errors import ModelMissing
from completiond.prompt import spelling
from completiond.prompt.spelling import Spelling, in_order, spell, spelling_of
from completiond.prompt.tokenizer import ByteTokenizer, Tokenizer


def tokenizer_json(*words: str) -> str:
    vocab = {word: i for i, word in enumerate(["<unk>", *words])}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}
    return json.dumps({"version": "1.0", "model": model, "added_tokens": []})


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model's directory with a vocabulary, and a cache that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "tokenizer.json").write_text(tokenizer_json("b", "a", "ab"))
    return directory


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The tokenizers that were read."""
    found: list[Path] = []
    load = Tokenizer.load

    def counted(path: Path, *, name: str = "") -> Tokenizer:
        found.append(path)
        return load(path, name=name)

    monkeypatch.setattr(spelling.Tokenizer, "load", counted)
    return found


def kept(model: Path) -> Path:
    (found,) = (model.parent / "cache").rglob("vocabularies/*")
    return found


def test_the_bytes_and_their_order_are_the_tokenizers() -> None:
    found = in_order([b"b", b"", b"a", b"ab"])
    assert found.every == [b"b", b"", b"a", b"ab"] and list(found.order) == [2, 3, 0]
    assert found.vocab_size == 4
    assert [found.token_bytes(i) for i in (-1, 0, 1, 4)] == [b"", b"b", b"", b""]


def test_control_tokens_spell_nothing() -> None:
    tokenizer = ByteTokenizer()
    found = spell(tokenizer)
    assert found.vocab_size == tokenizer.vocab_size and len(found.order) == 256
    assert all(found.token_bytes(i) == b"" for i in tokenizer.control)


def test_a_vocabulary_is_read_once(model: Path, reads: list[Path]) -> None:
    first, second = spelling_of(model, "m"), spelling_of(model, "m")
    assert first == second == spell(Tokenizer.load(model)) and isinstance(second, Spelling)
    assert len(reads) == 2  # the first time, and for this comparison


def test_a_vocabulary_that_changed_is_read_again(model: Path) -> None:
    spelling_of(model, "m")
    (model / "tokenizer.json").write_text(tokenizer_json("c"))
    assert spelling_of(model, "m") == spell(Tokenizer.load(model))


def test_one_of_the_same_size_that_is_newer_is_read_again(model: Path) -> None:
    spelling_of(model, "m")
    (model / "tokenizer.json").write_text(tokenizer_json("x", "y", "xy"))
    os.utime(model / "tokenizer.json", ns=(1, 1))
    assert spelling_of(model, "m").every[1:] == [b"x", b"y", b"xy"]


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "turned"])
def test_a_damaged_cache_is_made_anew(model: Path, reads: list[Path], damage: str) -> None:
    right = spelling_of(model, "m")
    whole = kept(model).read_bytes()
    damaged = {"cut": whole[:-3], "empty": b"", "other": b"\xc0", "turned": whole[:-1] + b"?"}
    kept(model).write_bytes(damaged[damage])
    assert spelling_of(model, "m") == right and len(reads) == 2
    assert kept(model).read_bytes() == whole


def test_a_cache_that_cannot_be_written_costs_a_reading(model: Path, reads: list[Path]) -> None:
    (model.parent / "cache").write_text("a file where the directory should be")
    assert spelling_of(model, "m") == spelling_of(model, "m")
    assert len(reads) == 2


def test_a_model_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match="fetch the model again"):
        spelling_of(tmp_path, "m")
