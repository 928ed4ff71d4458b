"""`completiond-lsp`: the language server over stdio. Knows LSP; what it means is in bridge.py.

Handlers parse, call and return. stdio only: there, the first part of a handler runs before the
next message is read, so that a snapshot is of the text that the request was made for.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from completiond.version import __version__
from completiond_lsp import commands, items
from completiond_lsp import params as read
from completiond_lsp.daemon_link import Target
from completiond_lsp.daemon_process import SERVE
from completiond_lsp.documents import Encoding
from completiond_lsp.editor import STATUS, Server
from completiond_lsp.options import SECTION

ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}
DID_SHOW = "textDocument/didShowCompletion"
DID_TAKE = "textDocument/didPartiallyAcceptCompletion"
DID_REJECT = "completiond/didReject"
DID_FOCUS = "textDocument/didFocus"
DID_YANK = "completiond/didYank"


# -- handlers -----------------------------------------------------------------------------------


def initialize(ls: Server, params: types.InitializeParams) -> None:
    folders = [folder.uri for folder in params.workspace_folders or ()]
    root = [params.root_uri] if params.root_uri else []
    ls.bridge.folders = folders or root
    ls.bridge.encoding = ENCODINGS.get(ls.workspace.position_encoding or "", "utf-16")
    ls.start(params.initialization_options, params.client_info.name if params.client_info else "")
    if ls.bridge.options.fallback_completion and items.needs_fallback(ls.protocol.client_says):
        ls.feature(types.TEXT_DOCUMENT_COMPLETION, items.FALLBACK)(completion)


def did_change_folders(ls: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Removed, then added: an editor that builds its list anew says both of one folder."""
    removed = {folder.uri for folder in params.event.removed}
    kept = [uri for uri in ls.bridge.folders if uri not in removed]
    added = [folder.uri for folder in params.event.added]
    ls.bridge.folders = tuple(dict.fromkeys([*kept, *added]))


async def initialized(ls: Server, params: Any) -> None:
    ls.watch_editor()
    await ls.fetch_settings()
    ls.bridge.connect()
    ls.bridge.standing.tell()


def did_open(ls: Server, params: Any) -> None:
    ls.bridge.open(read.opened(params))


def did_change(ls: Server, params: Any) -> None:
    uri = read.document_uri(params)
    try:
        ls.bridge.change(uri, read.document_version(params), read.changes(params))
    except JsonRpcInvalidParams:
        ls.bridge.close(uri)  # better none than a wrong text
        raise


def did_close(ls: Server, params: Any) -> None:
    ls.bridge.close(read.document_uri(params))


def did_save(ls: Server, params: Any) -> None:
    """The text is known from its changes; a pause for saving is one to look around in."""
    ls.bridge.saved(read.document_uri(params))


def did_focus(ls: Server, params: Any) -> None:
    """`textDocument/didFocus {textDocument?}`, which some clients send."""
    ls.bridge.focused(read.focused_uri(params))


def did_yank(ls: Server, params: Any) -> None:
    """`completiond/didYank {text, textDocument?}`: the person has copied a text."""
    ls.bridge.yanked(*read.yanked(params))


def did_show(ls: Server, params: Any) -> None:
    """`{item}`: it is drawn."""
    ident, text = read.item(params)
    ls.bridge.journal.drawn(ident)
    ls.bridge.ledger.shown(ident, text)


def did_take(ls: Server, params: Any) -> None:
    """`{item, acceptedLength}`: the person took that much of it."""
    ls.bridge.ledger.accepted(*read.taken(params))


def did_reject(ls: Server, params: Any) -> None:
    """`{item}`: the person has sent it away."""
    ls.bridge.ledger.rejected(*read.item(params))


def status(ls: Server, params: Any) -> dict[str, Any]:
    """`completiond/status`: how things stand."""
    return ls.bridge.standing.now()


async def did_change_configuration(ls: Server, params: Any) -> None:
    settings = params.get("settings") if isinstance(params, dict) else None
    ls.configure(settings.get(SECTION) if isinstance(settings, dict) else None)
    await ls.fetch_settings()


async def inline_completion(ls: Server, params: Any) -> list[types.InlineCompletionItem]:
    request = read.inline_request(params)
    found = await ls.bridge.complete(request)
    return items.inline_items(found)


async def completion(ls: Server, params: Any) -> types.CompletionList:
    request = read.inline_request(params)._replace(candidates=0)
    found = await ls.bridge.complete(request)
    return items.completion_list(found, ls.bridge.encoding)


def make_server(target: Target) -> Server:
    server = Server(target)
    for method, handler in (
        (types.INITIALIZE, initialize),
        (types.INITIALIZED, initialized),
        (types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS, did_change_folders),
        (types.TEXT_DOCUMENT_DID_OPEN, did_open),
        (types.TEXT_DOCUMENT_DID_CHANGE, did_change),
        (types.TEXT_DOCUMENT_DID_CLOSE, did_close),
        (types.TEXT_DOCUMENT_DID_SAVE, did_save),
        (types.WORKSPACE_DID_CHANGE_CONFIGURATION, did_change_configuration),
        (DID_SHOW, did_show),
        (DID_TAKE, did_take),
        (DID_REJECT, did_reject),
        (DID_FOCUS, did_focus),
        (DID_YANK, did_yank),
        (STATUS, status),
    ):
        server.feature(method)(handler)
    # Without options pygls advertises nothing.
    options = types.InlineCompletionOptions()
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, options)(inline_completion)
    actions = types.CodeActionOptions(code_action_kinds=[commands.KIND])
    server.feature(types.TEXT_DOCUMENT_CODE_ACTION, actions)(commands.code_action)
    for name, command in commands.ALL.items():
        server.command(name)(command)
    return server


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve one editor on standard input and output, until it closes them."""
    parser = argparse.ArgumentParser(
        prog="completiond-lsp",
        description="The language server of completiond: inline completions over stdio.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.add_argument("--endpoint", default="", help="where the daemon listens")
    parser.add_argument(
        "--log-level",
        default="warning",
        choices=("debug", "info", "warning", "error"),
        help="what is written to standard error (default: %(default)s)",
    )
    parser.add_argument("--stdio", action="store_true", help="accepted for editors that pass it")
    parser.add_argument(
        "--daemon-command", nargs=argparse.REMAINDER, default=SERVE, help=argparse.SUPPRESS
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=given.log_level.upper(), stream=sys.stderr)
    # pygls logs whole documents, and a traceback for each mistake of a client, which editors copy
    # into their logs; what matters comes through `report_server_error`.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    server = make_server(Target(endpoint=given.endpoint, command=given.daemon_command))
    try:
        server.start_io()
    except (MemoryError, OverflowError):
        sys.exit("A message of the editor says that it is larger than memory; it cannot be read.")


if __name__ == "__main__":
    main()
