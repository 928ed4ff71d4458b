"""Messages to bytes and back. Knows msgpack and the limits of the wire; knows no sockets.

Decoding validates every field (cattrs, strict about types) and raises ProtocolError, with the
message's own id on the exception where it could be read, so that the answer can name it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, get_origin

import msgpack
from cattrs import Converter
from cattrs.cols import list_structure_factory
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, mapping_structure_factory
from cattrs.strategies import configure_union_passthrough

from completiond.core import Sampling
from completiond.errors import CompletiondError, ProtocolError, TooLarge, VersionError
from completiond.protocol import messages as m


def encode(message: m.Message) -> bytes:
    """One frame. Raises TooLarge over the limit, ProtocolError for what msgpack cannot hold."""
    body = {"v": m.VERSION, "t": m.TAGS[type(message)]} | _converter.unstructure(message)
    try:
        data: bytes = msgpack.packb(body)
    except UnicodeEncodeError as exc:
        raise ProtocolError(
            "The text holds a lone surrogate; replace it by U+FFFD before sending."
        ) from exc
    except OverflowError as exc:
        raise ProtocolError("A number of the message has more than 64 bits.") from exc
    if len(data) > m.MAX_MESSAGE:
        raise TooLarge(
            f"The message has {len(data):,} bytes; the limit is {m.MAX_MESSAGE:,}. Send less text."
        )
    return data


def decode_from_client(data: bytes) -> m.FromClient:
    """A client's message. Raises ProtocolError, VersionError or TooLarge, with `.id` set."""
    message: m.FromClient = _decode(data, m.FROM_CLIENT)
    try:
        _check(message)
    except ProtocolError as exc:
        raise _with_id(exc, getattr(message, "id", 0)) from None
    return message


def decode_from_daemon(data: bytes) -> m.FromDaemon:
    """A daemon's message. Raises ProtocolError or VersionError."""
    message: m.FromDaemon = _decode(data, m.FROM_DAEMON)
    return message


def id_of(error: CompletiondError) -> int:
    """The id of the message that a decoding error is about; 0 if it could not be read."""
    return getattr(error, "id", 0)


def _decode(data: bytes, table: Mapping[str, type[Any]]) -> Any:
    if len(data) > m.MAX_MESSAGE:
        raise TooLarge(f"A message of {len(data):,} bytes; the limit is {m.MAX_MESSAGE:,}.")
    try:
        body = msgpack.unpackb(data, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as exc:
        why = str(exc) or type(exc).__name__
        raise ProtocolError(f"The message is not valid msgpack ({why}).") from exc
    if not isinstance(body, dict):
        raise ProtocolError("The message is not a msgpack map.")
    ident = body.get("id", 0)
    try:
        return _converter.structure(body, _kind(body, table))
    except BaseValidationError as exc:
        raise _with_id(ProtocolError(_explain(exc)), ident) from exc
    except ProtocolError as exc:
        raise _with_id(exc, ident) from None


def _kind(body: Mapping[Any, Any], table: Mapping[str, type[Any]]) -> type[Any]:
    version, tag = body.get("v"), body.get("t")
    if version != m.VERSION or type(version) is not int:
        raise VersionError(
            f"Protocol version {version!r:.40} is not spoken here; version {m.VERSION} is. "
            "Update the older of the editor plugin and the daemon."
        )
    kind = table.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise ProtocolError(f"Unknown message tag {tag!r:.60}; known are {', '.join(table)}.")
    return kind


def _with_id(error: ProtocolError, ident: Any) -> ProtocolError:
    """The answer names the id as long as it is one that an answer may have."""
    readable = type(ident) is int and 0 <= ident < 1 << 63
    error.id = ident if readable else 0  # type: ignore[attr-defined]
    return error


def _explain(exc: BaseException) -> str:
    """The innermost reason, with the path of the field."""
    notes: list[str] = []
    while isinstance(exc, BaseValidationError) and exc.exceptions:
        exc = exc.exceptions[0]
        field = [n.name for n in getattr(exc, "__notes__", []) if hasattr(n, "name")]
        notes += [str(name) for name in field]
    if isinstance(exc, KeyError):
        return f"Field `{'.'.join(notes) or exc.args[0]}` is missing."
    return f"Field `{'.'.join(notes) or '?'}` is invalid ({str(exc)[:120]})."


# -- validation ---------------------------------------------------------------------------------


def _exactly(kind: type[Any]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return structure


def _only(kind: type[Any], structure: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    check = _exactly(kind)
    return lambda value, target: structure(check(value, target), target)


def _is_a(origin: Any) -> Callable[[Any], bool]:
    return lambda kind: get_origin(kind) is origin


def _number(value: Any, _: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError(f"expected a finite number, got {value!r:.40}")
    return float(value)


def _whole(value: Any, _: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"expected an int of 64 bits, got {value!r:.40}")
    return value


def _make_converter() -> Converter:
    converter = Converter(detailed_validation=True)
    for kind in (str, bool):
        converter.register_structure_hook(kind, _exactly(kind))
    converter.register_structure_hook(int, _whole)
    converter.register_structure_hook(float, _number)
    configure_union_passthrough(int | str | bool | None, converter)
    # cattrs takes any iterable for a list and any container for a map: "abc" is neither here.
    converter.register_structure_hook_factory(
        _is_a(list),
        lambda kind: _only(list, list_structure_factory(kind, converter)),
    )
    converter.register_structure_hook_factory(
        _is_a(dict),
        lambda kind: _only(dict, mapping_structure_factory(kind, converter)),
    )
    converter.register_structure_hook_factory(
        is_dataclass, lambda kind: _only(dict, make_dict_structure_fn(kind, converter))
    )
    return converter


_converter = _make_converter()


def _need(ok: bool, what: str, kind: type[ProtocolError] = ProtocolError) -> None:
    if not ok:
        raise kind(what)


def _check(message: m.FromClient) -> None:
    """The limits that types do not say."""
    if isinstance(message, m.Complete):
        _check_complete(message)
        _check_names(message)
    elif isinstance(message, m.Hello):
        _need(len(message.versions) <= m.MAX_VERSIONS, f"Over {m.MAX_VERSIONS} versions.", TooLarge)
    elif isinstance(message, m.Spans):
        _check_spans(message)
    elif isinstance(message, m.Cancel):
        _need(message.id > 0, "`id` must be positive.")


def _check_complete(c: m.Complete) -> None:
    _need(c.id > 0, "`id` must be positive.")
    _need(0 <= c.offset < 1 << 62, "`offset` must be from 0 to 2^62 - 1.")
    _need(len(c.before) <= m.MAX_BEFORE, f"`before` is over {m.MAX_BEFORE} characters.", TooLarge)
    _need(len(c.after) <= m.MAX_AFTER, f"`after` is over {m.MAX_AFTER} characters.", TooLarge)
    _need(len(c.context) <= m.MAX_CONTEXT, f"Over {m.MAX_CONTEXT} context hashes.", TooLarge)
    _need(len(c.chunks) <= m.MAX_CONTEXT, f"Over {m.MAX_CONTEXT} chunks.", TooLarge)
    _need(
        all(len(chunk.text) <= m.MAX_CHUNK for chunk in c.chunks),
        f"A chunk is over {m.MAX_CHUNK} characters.",
        TooLarge,
    )
    _need(1 <= c.n <= m.MAX_CANDIDATES, f"`n` must be from 1 to {m.MAX_CANDIDATES}.")
    limit = c.max_tokens
    _need(limit is None or 0 <= limit <= m.MAX_TOKENS, f"`max_tokens` must be 0 to {m.MAX_TOKENS}.")
    _need(c.max_ms is None or 0 < c.max_ms <= 600_000, "`max_ms` must be from 1 to 600,000.")
    indents = len(c.indent) <= m.MAX_INDENT and not c.indent.strip(" \t")
    _need(indents, f"`indent` must be blanks, at most {m.MAX_INDENT}.")
    _need(c.line_ms is None or 0 <= c.line_ms <= 600_000, "`line_ms` must be from 0 to 600,000.")
    if c.sampling is not None:
        _check_sampling(c.sampling)


def _check_names(c: m.Complete) -> None:
    """What names something is short: answers and sentences repeat it."""
    names = [c.document, c.language, c.path, c.prefix_hash, c.model, *c.context]
    for chunk in c.chunks:
        names += [chunk.hash, chunk.path, chunk.language]
    _need(max(map(len, names)) <= m.MAX_NAME, f"A name is over {m.MAX_NAME} characters.", TooLarge)


def _check_spans(told: m.Spans) -> None:
    _need(len(told.spans) <= m.MAX_SPANS, f"Over {m.MAX_SPANS} spans.", TooLarge)
    names = [told.editor]
    for span in told.spans:
        names += [span.document, span.language, span.path, span.reason]
        moments = len(span.at) <= m.MAX_MOMENTS
        _need(moments, f"Over {m.MAX_MOMENTS} moments in a span.", TooLarge)
    _need(max(map(len, names)) <= m.MAX_NAME, f"A name is over {m.MAX_NAME} characters.", TooLarge)


def _check_sampling(s: Sampling) -> None:
    _need(0 <= s.temperature <= 10, "`temperature` must be from 0 to 10.")
    _need(0 < s.top_p <= 1, "`top_p` must be over 0 and at most 1.")
    _need(s.top_k >= 0, "`top_k` must not be negative.")
    _need(s.seed >= 0, "`seed` must be from 0 to 2^63 - 1.")
