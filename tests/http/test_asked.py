"""The body of a request: what is understood, and one sentence for what is not."""

import json

import pytest

from completiond.core import Sampling
from completiond.errors import RequestError
from completiond.http.asked import Asked, asked


def body(**fields: object) -> bytes:
    return json.dumps({"prompt": "p"} | fields).encode()


def test_what_zed_sends_is_understood() -> None:
    given = body(model="m", max_tokens=64, temperature=0.2, stop=["<|endoftext|>", "\n\n"])
    sampling = Sampling(temperature=0.2)
    assert asked(given) == Asked("p", "m", 64, sampling, ("<|endoftext|>", "\n\n"))


def test_what_is_left_out_or_null_has_its_default() -> None:
    names = ("model", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "suffix", "n")
    assert asked(body()) == asked(body(**dict.fromkeys(names))) == Asked("p")
    assert asked(body(stop="\n", stream=True, user="me", n=1)) == Asked(
        "p", stop=("\n",), stream=True
    )


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": ""},
        {"prompt": ["a"]},
        {"prompt": [1, 2]},
        {"prompt": None},
        {"model": 1},
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"max_tokens": "64"},
        {"max_tokens": 1.5},
        {"max_tokens": True},
        {"temperature": -0.1},
        {"temperature": 2.1},
        {"temperature": float("nan")},
        {"temperature": "hot"},
        {"temperature": False},
        {"top_p": 1.1},
        {"seed": 1 << 70},
        {"stop": 1},
        {"stop": [1]},
        {"stop": ["a"] * 65},
        {"stop": "a" * 257},
        {"stream": "yes"},
        {"n": 2},
        {"echo": True},
        {"suffix": "x"},
        {"logprobs": 1},
        {"presence_penalty": 0.5},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_by_the_name_of_its_field(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(RequestError, match=f"^`{name}` [^.]+\\.$"):
        asked(body(**given))


def test_half_a_character_is_read_as_the_sign_for_it() -> None:
    half = asked(rb'{"prompt": "a\ud800b", "stop": ["\udfff", "\ud83d\ude00"]}')
    assert (half.prompt, half.stop) == ("a\ufffdb", ("\ufffd", "\U0001f600"))


@pytest.mark.parametrize(
    "given", [b"", b"{", b"[]", b'"text"', b"\xff", b"[" * 100_000, b'{"a":' * 50_000, b"1" * 9_000]
)
def test_what_is_no_object_is_refused(given: bytes) -> None:
    with pytest.raises(RequestError, match="JSON"):
        asked(given)
