"""JSON-RPC as this server needs it: pygls, with a reply to every request.

Knows pygls's inside; knows nothing of completions. pygls leaves a request without reply when its
parameters do not fit the specification's types, and after `shutdown`; its own document sync
splits lines at characters that are no line ends in LSP.
"""

import logging
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

import attrs
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol

log = logging.getLogger(__name__)

OUR_SYNC = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
)
"""Messages that pygls would put into its own documents."""

UNINITIALIZED = (
    "The editor's `initialize` has not been accepted; what it sends before that is ignored. "
    "Its parameters must be those of the Language Server Protocol."
)


@attrs.define
class RawRequest:
    id: int | str
    method: str
    jsonrpc: str = "2.0"
    params: Any = None


@attrs.define
class RawNotification:
    method: str
    jsonrpc: str = "2.0"
    params: Any = None


class Protocol(LanguageServerProtocol):
    """Replies to what cannot be read, and keeps quiet about it.

    What pygls handles itself is typed; any other handler gets `params` as the JSON came.
    """

    def __init__(self, server: Any, converter: Any) -> None:
        super().__init__(server, converter)
        for method in OUR_SYNC:
            self.fm.builtin_features.pop(method, None)
        self.client_says: Any = None  # its capabilities as JSON, where null is not absent
        self._typed = {types.CANCEL_REQUEST, *self.fm.builtin_features}
        told = {method for method in self._typed if types.METHOD_TO_TYPES[method][1] is None}
        self._told = told - {types.EXIT}  # better an end without reply than none
        self._was_early = False

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The message of a JSON object; None if it is unreadable and has been replied to.

        pygls calls this for every object inside a message, too.
        """
        method, ident = data.get("method"), data.get("id")
        if method == types.INITIALIZE and isinstance(data.get("params"), dict):
            data = data | {"params": _without_bad_root(data["params"])}
            if self._workspace is None:
                self.client_says = data["params"].get("capabilities")
        typed = self._typed if ident is None else self._typed - self._told
        if "jsonrpc" in data and isinstance(method, str) and method not in typed:
            kind = RawNotification(method, data["jsonrpc"], data.get("params"))
            return kind if ident is None else RawRequest(ident, *attrs.astuple(kind, recurse=False))
        try:
            return super().structure_message(data)
        except JsonRpcException:
            log.info("Unreadable message %r", method)
            if method is not None and ident is not None:
                self._refuse(ident, JsonRpcInvalidParams(f"{method}: unreadable parameters."))
            return None

    def handle_message(self, message: Any) -> None:
        if isinstance(message, dict):
            ident, version, is_request = message.get("id"), None, "method" in message
        else:
            ident, version = getattr(message, "id", None), getattr(message, "jsonrpc", None)
            is_request = hasattr(message, "method")
        if is_request and self._workspace is None and self._is_early(message, ident):
            return
        wrong = "" if version == self.VERSION else "Not JSON-RPC 2.0."
        if ident is not None and is_request:
            wrong = self._untimely(getattr(message, "method", "")) or wrong
        if not wrong:
            super().handle_message(message)
        elif ident is not None and is_request:
            self._refuse(ident, JsonRpcInvalidRequest(wrong))

    def _is_early(self, message: Any, ident: int | str | None) -> bool:
        """Before an `initialize` that was accepted there is nothing to answer with."""
        method = getattr(message, "method", "")
        if method in (types.INITIALIZE, types.EXIT) or isinstance(message, dict):
            return False
        if ident is not None:
            self._refuse(ident, JsonRpcServerNotInitialized(UNINITIALIZED))
        elif not self._was_early:
            self._was_early = True
            log.warning(UNINITIALIZED)
        return True

    def _untimely(self, method: str) -> str:
        """Why a request cannot be answered, whatever it says; empty if it can be."""
        if self._shutdown:
            return "The server is shutting down."
        if method == types.INITIALIZE and self._workspace is not None:
            return "The server is initialized already."
        return f"{method} is a notification, it has no `id`." if method in self._told else ""

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        """A refusal is a reply, not an incident: pygls would log it with a traceback."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcInvalidParams):
            self._request_futures.pop(msg_id, None)
            self._refuse(msg_id, error)
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    def _check_handler_result(self, future: Future[Any]) -> None:
        """The same for a notification, to which there is no reply."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcInvalidParams):
            log.info("Unreadable notification: %s", error)
        else:
            super()._check_handler_result(future)

    def _refuse(self, ident: int | str, error: JsonRpcException) -> None:
        self._send_response(ident, error=error.to_response_error())


def _without_bad_root(params: dict[str, Any]) -> dict[str, Any]:
    """pygls fails at a root that is no URI: such a one is none."""
    root = params.get("rootUri")
    try:
        if isinstance(root, str):
            urlsplit(root)
    except ValueError:
        return params | {"rootUri": None}
    return params
