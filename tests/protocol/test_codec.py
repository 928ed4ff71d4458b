"""The wire: README.md and code say the same, limits hold, and no bytes do harm."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from completiond.core import Sampling
from completiond.errors import ProtocolError, TooLarge, VersionError
from completiond.protocol import codec
from completiond.protocol import messages as m

README = (Path(m.__file__).parent / "README.md").read_text(encoding="utf-8")
ASK = m.Complete(id=7, document="file:///a.py", version=3, before="def f(", after="):\n")
FULL = replace(
    ASK,
    sampling=Sampling(0.8, 40, 0.95, 1),
    max_tokens=12,
    max_ms=500,
    context=["ab"],
    chunks=[m.Chunk("ab", "b.py", "python", "x = 1\n")],
)
EVERY: list[m.Message] = [
    m.Hello([1], "test", "0.1", 123),
    ASK,
    FULL,
    m.Cancel(7, "superseded"),
    m.Feedback(7, "accepted", 1, 20, 0.5),
    m.Spans([m.Span(7, "file:///a.py", 3, "asked", {"sent": 1, "drawn": 2})]),
    m.AskStatus(9),
    m.AskWhy(9, 7),
    m.Welcome(1, "0.1", 456, "model", "ready"),
    m.Partial(7, "x", 1),
    m.Completion(
        7, 3, 6, [m.Candidate("x", "stop", 1)], "ok", ["ab"], {"queue": 0.5}, {"prompt": 3},
        {"lookup": 4}, {"lookup": 2}, "", {"overlap": 3},
    ),
    m.Failure(7, "overloaded", "Too much at once."),
    m.Cancelled(7, "running", 1, 2.5, 3, 40),
    m.Ping(),
    m.Why(9, {"request": 7, "ended": ["eos"], "removed": {"overlap": 3}}, {"ok": 4}),
    m.Status(9, "ready", "model", "cpu", 1.5, 1, 2, 3, {"passes": 4, "kernel": "int8"}),
]  # fmt: skip


def wire(**changes: Any) -> bytes:
    """ASK as a client of any quality might send it."""
    body = msgpack.unpackb(codec.encode(ASK))
    data: bytes = msgpack.packb(body | changes, unicode_errors="surrogatepass")
    return data


@pytest.mark.parametrize("message", EVERY, ids=lambda message: type(message).__name__)
def test_every_message_survives_the_wire(message: m.Message) -> None:
    to_daemon = isinstance(message, get_args(m.FromClient))
    decode = codec.decode_from_client if to_daemon else codec.decode_from_daemon
    assert decode(codec.encode(message)) == message


def test_every_message_is_tried() -> None:
    assert {type(message) for message in EVERY} == set(m.TAGS)


def test_unknown_fields_are_ignored() -> None:
    assert codec.decode_from_client(wire(of_the_future=[1, {"x": 2}])) == ASK


# -- limits -------------------------------------------------------------------------------------

CHUNK = {"hash": "h", "path": "p", "language": "l", "text": ""}


@pytest.mark.parametrize(
    "fits, breaks",
    [
        ({"before": "é" * 32_768}, {"before": "é" * 32_769}),
        ({"after": "é" * 16_384}, {"after": "é" * 16_385}),
        ({"context": ["h"] * 64}, {"context": ["h"] * 65}),
        ({"chunks": [CHUNK] * 64}, {"chunks": [CHUNK] * 65}),
        (
            {"chunks": [CHUNK | {"text": "x" * 65_536}]},
            {"chunks": [CHUNK | {"text": "x" * 65_537}]},
        ),
        ({"document": "d" * 4_096}, {"document": "d" * 4_097}),
        ({"model": "m" * 4_096}, {"model": "m" * 4_097}),
        ({"context": ["h" * 4_096]}, {"context": ["h" * 4_097]}),
        ({"chunks": [CHUNK | {"path": "p" * 4_096}]}, {"chunks": [CHUNK | {"path": "p" * 4_097}]}),
    ],
    ids=["before", "after", "context", "chunks", "chunk text", "document", "model", "hash", "path"],
)
def test_text_over_a_limit_is_too_large(fits: dict[str, Any], breaks: dict[str, Any]) -> None:
    codec.decode_from_client(wire(**fits))
    with pytest.raises(TooLarge) as caught:
        codec.decode_from_client(wire(**breaks))
    assert codec.id_of(caught.value) == ASK.id


@pytest.mark.parametrize(
    "field, good, bad",
    [
        ("n", (1, 8), (0, 9, -1, True, 1.0, "1")),
        ("max_tokens", (0, 4_096, None), (-1, 4_097, "many")),
        ("max_ms", (1, 600_000, None), (0, -5, 600_001)),
        ("version", (0, 1 << 40), (None, "3", 3.0)),
        ("offset", (0, 4_096), (-1, None)),
        ("trigger", ("automatic", "invoked"), ("magic", 1, None)),
        ("stream", (True, False), (1, 0, "yes", None)),
        ("before", ("", "a\x00b"), (None, 5, b"bytes", ["x"])),
        ("context", ([], ["a"]), ("abc", [1], {"a": 1}, None)),
        ("chunks", ([], [CHUNK]), ([{"hash": "h"}], ["x"], {})),
        (
            "sampling",
            (None, {}, {"temperature": 1}, {"top_p": 0.5, "seed": 3, "top_k": 4}),
            (
                "hot",
                {"temperature": float("nan")},
                {"temperature": -1.0},
                {"temperature": float("inf")},
                {"top_p": 0.0},
                {"top_p": 1.5},
                {"top_k": -1},
                {"seed": -1},
                {"seed": 1 << 63},
                {"temperature": True},
            ),
        ),
    ],
)
def test_an_invalid_field_is_named(field: str, good: tuple[Any], bad: tuple[Any]) -> None:
    for value in good:
        codec.decode_from_client(wire(**{field: value}))
    for value in bad:
        with pytest.raises(ProtocolError) as caught:
            codec.decode_from_client(wire(**{field: value}))
        assert codec.id_of(caught.value) == ASK.id, value
        named = set(re.findall(r"[a-z_]+", str(caught.value)))
        assert named & {field, "temperature", "top_p", "top_k", "seed"}, str(caught.value)


@pytest.mark.parametrize("ident", [0, -1, 1 << 63, "7", None, 1.5, True])
def test_a_bad_id_is_refused_and_answered_with_zero(ident: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        codec.decode_from_client(wire(id=ident))
    assert codec.id_of(caught.value) == 0


def test_spans_over_the_limit_are_too_large() -> None:
    span = m.Span(0, "d", 1, "typed")
    codec.decode_from_client(codec.encode(m.Spans([span] * 512)))
    with pytest.raises(TooLarge):
        codec.decode_from_client(codec.encode(m.Spans([span] * 513)))


def test_versions_over_the_limit_are_too_large() -> None:
    codec.decode_from_client(codec.encode(m.Hello([1] * 64)))
    with pytest.raises(TooLarge):
        codec.decode_from_client(codec.encode(m.Hello([1] * 65)))


@pytest.mark.parametrize("field", ["id", "version", "offset", "max_tokens", "n"])
@pytest.mark.parametrize("number", [1 << 63, (1 << 64) - 1])
def test_a_number_that_an_answer_could_not_hold_is_refused(field: str, number: int) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_from_client(wire(**{field: number}))


def test_a_number_over_64_bits_is_refused_by_encode() -> None:
    with pytest.raises(ProtocolError, match="64 bits"):
        codec.encode(replace(ASK, version=1 << 64))


def test_a_message_over_the_limit_is_too_large_both_ways() -> None:
    chunk = m.Chunk("h", "p", "l", "x" * 65_536)
    with pytest.raises(TooLarge, match="Send less"):
        codec.encode(replace(ASK, chunks=[chunk] * 65))
    with pytest.raises(TooLarge):
        codec.decode_from_client(b"\x00" * (m.MAX_MESSAGE + 1))


def test_a_lone_surrogate_is_refused_by_encode() -> None:
    with pytest.raises(ProtocolError, match="surrogate"):
        codec.encode(replace(ASK, before="\ud800"))


def test_a_lone_surrogate_is_refused_by_decode() -> None:
    with pytest.raises(ProtocolError):
        codec.decode_from_client(wire(before="\ud800"))


# -- malformed ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, None, "1", 1.0, True, [1]])
def test_another_version_says_so(version: Any) -> None:
    with pytest.raises(VersionError, match="Update the older") as caught:
        codec.decode_from_client(wire(v=version))
    assert codec.id_of(caught.value) == ASK.id


@pytest.mark.parametrize("tag", ["", "explode", "completion", None, 3, ["complete"], b"complete"])
def test_an_unknown_tag_says_which_are_known(tag: Any) -> None:
    with pytest.raises(ProtocolError, match="known are hello") as caught:
        codec.decode_from_client(wire(t=tag))
    assert codec.id_of(caught.value) == ASK.id


NASTY = [
    b"",
    b"\xc1",
    b"\x00",
    b"\x93\x01\x02\x03",
    b"\xdf\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\x91" * 100_000,
    b"\x81\xa1v" * 50_000,
    b"\x81\xc0\x01",
    b"\x81\x91\x01\x01",
    b"\x81\x80\x01",
    b"\x82\xa1v\x01\xa1t\xd6\xff\x00\x00\x00\x00",
    codec.encode(ASK)[:-1],
    codec.encode(ASK) + b"\x00",
]


@pytest.mark.parametrize("data", NASTY, ids=lambda data: data[:8].hex() or "empty")
def test_bytes_that_are_no_message_are_a_protocol_error(data: bytes) -> None:
    for decode in (codec.decode_from_client, codec.decode_from_daemon):
        with pytest.raises(ProtocolError):
            decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for decode in (codec.decode_from_client, codec.decode_from_daemon):
        with pytest.raises(ProtocolError):
            decode(data)


_NAMES = sorted({field.name for kind in m.TAGS for field in fields(kind)})
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(_NAMES), _SCALARS), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(_NAMES), _VALUES, max_size=8),
    st.sampled_from(sorted(m.FROM_CLIENT | m.FROM_DAEMON)),
)
def test_no_map_raises_anything_else(body: dict[str, Any], tag: str) -> None:
    data = msgpack.packb({"v": 1, "t": tag} | body, unicode_errors="surrogatepass")
    for decode in (codec.decode_from_client, codec.decode_from_daemon):
        try:
            message = decode(data)
        except ProtocolError as exc:
            assert str(exc)
        else:
            assert decode(codec.encode(message)) == message or "nan" in repr(message)


# -- README.md ----------------------------------------------------------------------------------


def _sections() -> dict[str, str]:
    """Tag → the text that specifies it."""
    text = README[: README.index("## Laws")]
    parts = re.split(r"^\*\*`(\w+)`\*\*|^## .*$", text, flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {tag: body for tag, body in found if tag}


def _declared(section: str) -> set[str]:
    """Names that stand with a type, as `name type`, or in the first column of a table."""
    names = set(re.findall(r"`(\w+) (?:(?:int|str|bool|float)\b|\[|\{)[^`]*`", section))
    for row in re.findall(r"^\| (`[^|]*) \|", section, flags=re.MULTILINE):
        names |= set(re.findall(r"`(\w+)`", row))
    return names


def test_readme_lists_exactly_the_tags() -> None:
    assert list(_sections()) == list(m.FROM_CLIENT | m.FROM_DAEMON)


@pytest.mark.parametrize("tag", m.FROM_CLIENT | m.FROM_DAEMON)
def test_readme_lists_exactly_the_fields(tag: str) -> None:
    section = _sections()[tag]
    kind = (m.FROM_CLIENT | m.FROM_DAEMON)[tag]
    mentioned = set(re.findall(r"`(\w+)[^`]*`", section))
    own = {field.name for field in fields(kind)}
    nested = {"complete": (m.Chunk, Sampling), "spans": (m.Span,), "completion": (m.Candidate,)}
    inner = {field.name for part in nested.get(tag, ()) for field in fields(part)}
    assert own | inner <= mentioned
    assert _declared(section) <= own | inner


def test_readme_states_the_limits_of_the_code() -> None:
    limits = README[README.index("## Limits") : README.index("## Client to daemon")]
    for limit in (m.MAX_BEFORE, m.MAX_AFTER, m.MAX_CONTEXT, m.MAX_CHUNK, m.MAX_TOKENS):
        assert f"{limit:,}" in limits
    assert f"| {m.MAX_WAITING} |" in limits and f"| {m.MAX_SPANS} |" in limits
    assert f"| {m.MAX_NAME:,} characters |" in limits and f"| {m.MAX_VERSIONS} |" in limits
    assert f"1 to {m.MAX_CANDIDATES}" in limits
    assert f"{m.MAX_MESSAGE >> 20} MiB" in limits and f"{m.MAX_FRAME >> 20} MiB" in limits
    assert f"# The wire, version {m.VERSION}\n" in README
