"""A family is read from the vocabulary; one asked for by name must fit or is refused."""

import pytest
from vocabularies import FAMILY_OF, NAMES, real

from completiond.errors import ModelUnsupported
from completiond.prompt.templates import (
    FAMILIES,
    KNOWN_FILL,
    choose,
    comment,
    relative,
    self_test,
)
from completiond.prompt.tokenizer import ByteTokenizer


@pytest.mark.parametrize("name", NAMES)
def test_real_vocabularies_say_their_family(name: str) -> None:
    template = choose(real(name))
    assert (template and template.name) == FAMILY_OF[name]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_vocabulary_with_just_a_familys_tokens_is_that_family(family: object) -> None:
    assert isinstance(family, type(FAMILIES[0]))
    tokens = dict.fromkeys(family.tokens + family.marks)
    assert choose(ByteTokenizer(tuple(tokens))) is family


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_token_of_a_family_ends_a_fill(family: object) -> None:
    assert isinstance(family, type(FAMILIES[0]))
    tokenizer = ByteTokenizer(tuple(dict.fromkeys(family.tokens)))
    expected = {tokenizer.token_id(token) for token in family.sentinels + family.stop}
    assert family.stop_ids(tokenizer) == sorted(i for i in expected if i is not None)


def test_stop_tokens_that_a_vocabulary_lacks_are_left_out() -> None:
    tokenizer = ByteTokenizer(("<fim_prefix>", "<fim_middle>", "<fim_suffix>"))
    template = choose(tokenizer)
    assert template and template.name == "starcoder"
    assert template.stop_ids(tokenizer) == [256, 257, 258]


def test_a_qwen_fill_stops_at_every_known_end() -> None:
    tokenizer = real("qwen")
    template = choose(tokenizer)
    names = ("<|endoftext|>", "<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|im_end|>")
    assert template and {tokenizer.token_id(n) for n in names} <= set(template.stop_ids(tokenizer))


def test_no_fim_tokens_means_prefix_only() -> None:
    assert choose(ByteTokenizer(())) is None
    assert choose(ByteTokenizer(("<fim_prefix>", "<fim_middle>"))) is None
    assert choose(ByteTokenizer(), "none") is None


def test_a_template_that_does_not_fit_is_refused_with_what_to_set() -> None:
    with pytest.raises(ModelUnsupported) as refusal:
        choose(ByteTokenizer(name="my-model"), "deepseek-coder")
    sentence = str(refusal.value)
    assert "my-model" in sentence and "<｜fim▁begin｜>" in sentence and "starcoder2" in sentence
    with pytest.raises(ModelUnsupported, match="`none`: this vocabulary fits no template"):
        choose(ByteTokenizer(()), "codellama")


def test_an_unknown_template_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ModelUnsupported, match=r"no template 'qwen'.*qwen2\.5-coder.*none"):
        choose(ByteTokenizer(), "qwen")


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("src/a b.py", "src/a b.py"),
        ("./src/a.py", "src/a.py"),
        ("src\\a.py", "src/a.py"),
        ("/home/me/secret/a.py", "a.py"),
        ("../other/a.py", "a.py"),
        ("C:\\work\\a.py", "a.py"),
        ("file:///c%3A/work/a.py", "a.py"),
        ("untitled:Untitled-1", "untitled:Untitled-1"),
        ("a\nb.py", "a b.py"),
        ("a%20b.py", "a%20b.py"),
    ],
)
def test_a_prompt_never_shows_an_absolute_path(path: str, shown: str) -> None:
    assert relative(path) == shown


def test_a_path_is_a_comment_of_the_language() -> None:
    assert comment("a.py", "python") == "# a.py"
    assert comment("a.rs", "rust") == "// a.rs"
    assert comment("a.html", "html") == "<!-- a.html -->"


def test_a_known_fill_that_does_not_come_out_warns() -> None:
    asked: list[tuple[str, str]] = []

    def good(prefix: str, suffix: str) -> str:
        asked.append((prefix, suffix))
        return " + second"

    assert self_test(good) is None
    assert asked == [(KNOWN_FILL.prefix, KNOWN_FILL.suffix)]
    warning = self_test(lambda prefix, suffix: "x" * 500)
    assert warning and "model.template" in warning and len(warning) < 300
