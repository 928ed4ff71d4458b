"""Two vocabularies are the same when every id stands for the same text."""

import json
from pathlib import Path

import pytest

from completiond.errors import DraftMismatch, ModelCorrupt
from completiond.model.vocabulary import end_ids, real_size, same_vocabulary, token_texts


def save(path: Path, texts: list[str], added: dict[int, str] | None = None) -> Path:
    tree = {
        "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(texts)}},
        "added_tokens": [{"id": i, "content": text} for i, text in (added or {}).items()],
    }
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def test_equal_vocabularies_share_every_id_added_tokens_included(tmp_path: Path) -> None:
    one = save(tmp_path / "one.json", ["a", "b"], {2: "<eos>"})
    other = save(tmp_path / "other.json", ["a", "b", "<eos>"])
    assert same_vocabulary(one, other) == 3


def test_a_draft_may_lack_the_last_tokens_of_the_target(tmp_path: Path) -> None:
    target = save(tmp_path / "target.json", ["a", "b", "c"], {3: "<fim>"})
    draft = save(tmp_path / "draft.json", ["a", "b", "c"])
    assert same_vocabulary(target, draft) == 3


def test_padding_tokens_do_not_count(tmp_path: Path) -> None:
    target = save(tmp_path / "target.json", ["a", "b", "[PAD2]"])
    draft = save(tmp_path / "draft.json", ["a", "b"], {2: "[PAD2]", 3: "[PAD3]"})
    assert same_vocabulary(target, draft) == 2


@pytest.mark.parametrize(
    ("texts", "added", "first"),
    [
        (["a", "x", "y"], {}, "id 1 is 'b' in the target and 'x' in the draft"),
        (["a", "b", "c"], {1: "<x>"}, "id 1 is 'b' in the target and '<x>' in the draft"),
        (["a", "b", "c", "d"], {}, "id 3 is nothing in the target and 'd' in the draft"),
        ([], {0: "a", 2: "c"}, "id 1 is 'b' in the target and nothing in the draft"),
    ],
)
def test_another_vocabulary_is_refused_with_the_first_id_that_differs(
    tmp_path: Path, texts: list[str], added: dict[int, str], first: str
) -> None:
    target = save(tmp_path / "target.json", ["a", "b", "c"])
    with pytest.raises(DraftMismatch) as caught:
        same_vocabulary(target, save(tmp_path / "draft.json", texts, added))
    assert first in str(caught.value)


def test_an_empty_draft_is_refused(tmp_path: Path) -> None:
    target = save(tmp_path / "target.json", ["a"])
    with pytest.raises(DraftMismatch):
        same_vocabulary(target, save(tmp_path / "draft.json", []))


def test_a_unigram_vocabulary_lists_its_tokens_in_order(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": [["<unk>", 0.0], ["a", -1.5]]}}), "utf-8")
    assert token_texts(path).every == {0: "<unk>", 1: "a"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {}}', '{"model": {"vocab": 3}}'])
def test_a_damaged_tokenizer_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelCorrupt, match="not a tokenizer"):
        token_texts(path)


def test_a_missing_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelCorrupt, match="cannot be read"):
        token_texts(tmp_path / "tokenizer.json")


def test_end_ids_are_the_named_and_the_known_among_control_tokens_only() -> None:
    assert end_ids({7: "<|endoftext|>", 8: "<|im_end|>", 9: "<fim>"}, [8]) == (7, 8)
    assert end_ids({}, [3, 1]) == (1, 3)


def test_real_size_is_the_highest_id_plus_one() -> None:
    assert real_size([0, 5, 2]) == 6 and real_size([]) == 0
