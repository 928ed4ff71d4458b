"""What an editor sends, read from the raw JSON. Knows the shapes; forgives what can be forgiven.

Unreadable parameters raise JsonRpcInvalidParams, which becomes the reply -32602.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pygls.exceptions import JsonRpcInvalidParams

from completiond_lsp.documents import Position

AUTOMATIC = 2
CANDIDATES = 3
"""How many to ask for when a person asks: they can be cycled through."""


class InlineRequest(NamedTuple):
    """`textDocument/inlineCompletion`; `version` and `cursors` are additions of some clients.

    `candidates` are wanted by a person; 0: nobody has asked, somebody types.
    """

    uri: str
    version: int | None
    position: Position
    candidates: int = 0
    cursors: int = 1

    @property
    def invoked(self) -> bool:
        return self.candidates > 0


class Shown(NamedTuple):
    """An item that an editor gives back: whose it is, and its text."""

    id: int
    text: str


class Change(NamedTuple):
    """One content change; without a range it is the whole document."""

    span: tuple[Position, Position] | None
    text: str


class Opened(NamedTuple):
    uri: str
    language: str
    version: int
    text: str


def inline_request(params: Any) -> InlineRequest:
    """Automatic is what says so or says nothing; some clients send 0 when a person asks."""
    document = _map(_map(params, "params").get("textDocument"), "textDocument")
    version = document.get("version")
    context = params.get("context")
    kind = context.get("triggerKind", AUTOMATIC) if isinstance(context, Mapping) else AUTOMATIC
    cursors = params.get("cursors")
    return InlineRequest(
        uri=_text(document.get("uri"), "textDocument.uri"),
        version=version if type(version) is int else None,
        position=_position(params.get("position"), "position"),
        candidates=CANDIDATES if kind in (0, 1) else 0,
        cursors=cursors if type(cursors) is int else 1,
    )


def here(argument: Any) -> InlineRequest:
    """The argument of `completiond.completeHere`: `{textDocument, position}`."""
    return inline_request(argument)._replace(candidates=1)


def item(params: Any) -> Shown:
    """The item of `textDocument/didShowCompletion` and its like."""
    found = _map(_map(params, "params").get("item"), "item")
    text = found.get("insertText")
    given = _map(found.get("command"), "item.command").get("arguments")
    ident = given[0] if isinstance(given, list) and given else None
    if type(ident) is not int:
        raise JsonRpcInvalidParams("`item.command.arguments` must begin with the item's number.")
    return Shown(ident, text if isinstance(text, str) else "")


def taken(params: Any) -> Shown:
    """The same with the part that was taken: `acceptedLength` counts units of UTF-16."""
    shown, length = item(params), params.get("acceptedLength")
    if type(length) is not int or length < 0:
        raise JsonRpcInvalidParams("`acceptedLength` must be 0 or more.")
    units = shown.text.encode("utf-16-le", "surrogatepass")[: 2 * length]
    return shown._replace(text=units.decode("utf-16-le", "ignore"))


class ActionRequest(NamedTuple):
    """`textDocument/codeAction`; `only`: kinds that are wanted, empty: any."""

    uri: str
    start: Position
    end: Position
    only: tuple[str, ...]
    automatic: bool


def action_request(params: Any) -> ActionRequest:
    uri = document_uri(params)
    span, context = _map(params.get("range"), "range"), params.get("context")
    context = context if isinstance(context, Mapping) else {}
    only = context.get("only")
    return ActionRequest(
        uri=uri,
        start=_position(span.get("start"), "start"),
        end=_position(span.get("end"), "end"),
        only=tuple(kind for kind in only if isinstance(kind, str))
        if isinstance(only, list)
        else (),
        automatic=context.get("triggerKind") == AUTOMATIC,
    )


def opened(params: Any) -> Opened:
    document = _map(_map(params, "params").get("textDocument"), "textDocument")
    language, version = document.get("languageId"), document.get("version")
    return Opened(
        uri=_text(document.get("uri"), "textDocument.uri"),
        language=language if isinstance(language, str) else "",
        version=version if type(version) is int else 0,
        text=_text(document.get("text"), "textDocument.text"),
    )


def document_uri(params: Any) -> str:
    document = _map(_map(params, "params").get("textDocument"), "textDocument")
    return _text(document.get("uri"), "textDocument.uri")


def focused_uri(params: Any) -> str:
    """Empty if what has the focus is no document."""
    document = params.get("textDocument") if isinstance(params, Mapping) else None
    return document_uri(params) if document is not None else ""


def document_version(params: Any) -> int | None:
    version = params["textDocument"].get("version")
    return version if type(version) is int else None


def yanked(params: Any) -> tuple[str, str]:
    """The URI, empty if it is not told, and the text."""
    document = _map(params, "params").get("textDocument")
    uri = _text(_map(document, "textDocument").get("uri"), "uri") if document is not None else ""
    return uri, _text(params.get("text"), "text")


def changes(params: Any) -> list[Change]:
    found = _map(params, "params").get("contentChanges")
    if not isinstance(found, list):
        raise JsonRpcInvalidParams("`contentChanges` must be a list.")
    return [_change(_map(change, "contentChanges")) for change in found]


def _change(change: Mapping[str, Any]) -> Change:
    text = _text(change.get("text"), "contentChanges.text")
    if change.get("range") is None:
        return Change(None, text)
    span = _map(change["range"], "range")
    start, end = _position(span.get("start"), "start"), _position(span.get("end"), "end")
    return Change((start, end), text)


def _position(value: Any, name: str) -> Position:
    place = _map(value, name)
    line, character = place.get("line"), place.get("character")
    if type(line) is not int or type(character) is not int or line < 0 or character < 0:
        raise JsonRpcInvalidParams(f"`{name}` must hold a line and a character, both 0 or more.")
    return Position(line, character)


def _map(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise JsonRpcInvalidParams(f"`{name}` must be an object.")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise JsonRpcInvalidParams(f"`{name}` must be a string.")
    return value
