"""JSON-RPC as this server needs it: pygls, with a reply to every request.

Knows pygls's inside; knows nothing of completions. pygls leaves a request without reply when its
parameters do not fit the specification's types, and after `shutdown`; its own document sync
splits lines at characters that are no line ends in LSP.
"""

import logging
from concurrent.futures import Future
from typing import Any

import attrs
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol

log = logging.getLogger(__name__)

OUR_SYNC = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
)
"""Messages that pygls would put into its own documents."""


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

    def structure_message(self, data: dict[str, Any]) -> Any:
        """The message of a JSON object; None if it is unreadable and has been replied to.

        pygls calls this for every object inside a message, too.
        """
        method, ident = data.get("method"), data.get("id")
        if method == types.INITIALIZE and isinstance(data.get("params"), dict):
            self.client_says = data["params"].get("capabilities")
        if "jsonrpc" in data and isinstance(method, str) and method not in self._typed:
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
        if version == self.VERSION and not (self._shutdown and ident is not None and is_request):
            super().handle_message(message)
        elif ident is not None and is_request:
            late = "The server is shutting down." if self._shutdown else "Not JSON-RPC 2.0."
            self._refuse(ident, JsonRpcInvalidRequest(late))

    def _send_handler_result(self, future: Future[Any], *, msg_id: int | str) -> None:
        """A refusal is a reply, not an incident: pygls would log it with a traceback."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, JsonRpcInvalidParams):
            self._request_futures.pop(msg_id, None)
            self._refuse(msg_id, error)
        else:
            super()._send_handler_result(future, msg_id=msg_id)

    def _refuse(self, ident: int | str, error: JsonRpcException) -> None:
        self._send_response(ident, error=error.to_response_error())
