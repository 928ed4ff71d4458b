"""Prompts that others have laid out: sentinels are tokens, all else is text; where answers end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vocabularies import FAMILY_OF, awkward, real

from completiond.errors import RequestError
from completiond.prompt.ready import ReadyPrompts, ReadyStop, rule, said, sure
from completiond.prompt.templates import BY_NAME
from completiond.prompt.tokenizer import ByteTokenizer

AS_ZED_SENDS = {
    "starcoder2": "<fim_prefix>{}<fim_suffix>{}<fim_middle>",
    "starcoder": "<fim_prefix>{}<fim_suffix>{}<fim_middle>",
    "qwen2.5-coder": "<|fim_prefix|>{}<|fim_suffix|>{}<|fim_middle|>",
    "deepseek-coder": "<｜fim▁begin｜>{}<｜fim▁hole｜>{}<｜fim▁end｜>",
    "codellama": "<PRE> {} <SUF>{} <MID>",
}
PAIRS = [(name, family) for name, family in FAMILY_OF.items() if family]
BYTES, STARCODER = ByteTokenizer(), BY_NAME["starcoder2"]


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_what_zed_sends_has_the_three_sentinels_and_the_text(name: str, family: str) -> None:
    tokenizer, template = real(name), BY_NAME[family]
    before, after = "def add(first, second):\n    return ", "\n\nprint(add(1, 2))\n"
    prompt = ReadyPrompts(tokenizer, template).read(AS_ZED_SENDS[family].format(before, after))
    ids = [tokenizer.token_id(token) for token in template.sentinels]
    bos = [tokenizer.token_id(template.bos)] if template.bos else []
    lead = " " if family == "codellama" else ""  # SentencePiece's own, as its builder puts it
    start = [ids[0], *tokenizer.encode(lead + before)]
    assert list(prompt.ids) == bos + start + [ids[1], *tokenizer.encode(after), ids[2]]
    said = {s.kind: tokenizer.decode(prompt.ids[s.start : s.end]) for s in prompt.segments}
    assert said == {"prefix": lead + before, "suffix": after}


@pytest.mark.parametrize(("name", "family"), PAIRS)
def test_a_sentinel_in_a_file_is_text(name: str, family: str) -> None:
    tokenizer, template = real(name), BY_NAME[family]
    text = awkward("fim_tokens_in_source.py")
    prompt = ReadyPrompts(tokenizer, template).read(AS_ZED_SENDS[family].format("x = ", text))
    wanted = [*([template.bos] if template.bos else []), *template.sentinels]
    control = [i for i in prompt.ids if i in tokenizer.control]
    assert control == [tokenizer.token_id(token) for token in wanted]


def test_other_files_and_the_repository_stand_in_front() -> None:
    text = "<repo_name>r<file_sep>a.py\n1<file_sep><fim_prefix>x<fim_suffix>y<fim_middle>z"
    prompt = ReadyPrompts(BYTES, STARCODER).read(text)
    control = [BYTES.token_id(name) for name in ("<repo_name>", "<file_sep>", "<file_sep>")]
    assert [i for i in prompt.ids if i in BYTES.control][:3] == control
    assert [s.kind for s in prompt.segments] == ["context", "context", "prefix", "suffix", "typed"]
    assert BYTES.decode(prompt.ids) == "ra.py\n1xyz"


@pytest.mark.parametrize("text", ["x = 1", "<fim_prefix>x", "<fim_middle>a<fim_suffix>b", ""])
def test_without_all_three_in_order_everything_is_text(text: str) -> None:
    prompt = ReadyPrompts(BYTES, STARCODER).read(text)
    assert list(prompt.ids) == BYTES.encode(text)


def test_the_form_of_another_family_is_refused_with_its_name() -> None:
    text = AS_ZED_SENDS["qwen2.5-coder"].format("a", "b")
    with pytest.raises(
        RequestError, match=r"qwen2\.5-coder, but bytes reads the one of starcoder2"
    ):
        ReadyPrompts(BYTES, STARCODER).read(text)
    with pytest.raises(RequestError, match="no fill-in-the-middle"):
        ReadyPrompts(BYTES, None).read(text)


def test_a_stop_text_that_is_a_control_token_is_that_token() -> None:
    data = rule(BYTES, [7], ["<|endoftext|>", "\n\n", ""])
    assert data == {"stop_ids": [7, 256], "texts": ["<|endoftext|>", "\n\n"]}
    stop = ReadyStop(data, BYTES.token_bytes)
    assert stop.step(BYTES.encode("a\nb")) is None and stop.step([256]) == "eos"


SAID = st.text(st.sampled_from("ab\né😀"), max_size=24)
STOPS = st.lists(st.text(st.sampled_from("ab\né😀"), min_size=1, max_size=3), max_size=3)


@settings(max_examples=200, deadline=None)
@given(SAID, STOPS)
def test_the_run_stops_where_the_text_is_cut_and_nothing_is_said_that_is_taken_back(
    text: str, stops: list[str]
) -> None:
    data = rule(BYTES, [], stops)
    rules = ReadyStop(data, BYTES.token_bytes)
    run = ""
    for letter in text:
        ended = [rules.step([byte]) for byte in letter.encode()][-1]
        run += letter
        assert said(text, data, "").startswith(sure(run, data))
        assert ended == ("stop" if any(stop in run for stop in stops) else None)
        if ended:
            break
    assert said(run, data, "stop") == said(text, data, "stop")


def test_at_a_cursor_an_answer_ends_as_an_editor_s_does_and_is_said_by_whole_lines() -> None:
    cursor = ReadyPrompts(BYTES, STARCODER).cursor(
        "<fim_prefix>def f(x):\n    return x<fim_suffix>\n\nf(1)\n<fim_middle>"
    )
    assert cursor is not None and cursor.before.endswith("return x")
    data = rule(BYTES, [7], [], cursor)
    stop = ReadyStop(data, BYTES.token_bytes)
    text = " + 1\n\n\ndef g(y):\n    return y\n"
    run = ""
    for letter in text:
        run += letter
        assert " + 1".startswith(sure(run, data))
        if stop.step(letter.encode()):
            break
    assert run == " + 1\n" and said(run, data, "statement") == " + 1"
