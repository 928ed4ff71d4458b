"""`completiond-lsp`: the language server over stdio. Knows LSP; what it means is in bridge.py.

Handlers parse, call and return. stdio only: there, the first part of a handler runs before the
next message is read, so that a snapshot is of the text that the request was made for.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from completiond.errors import ProtocolError
from completiond.version import __version__
from completiond_lsp import items
from completiond_lsp import params as read
from completiond_lsp.bridge import Bridge
from completiond_lsp.daemon_link import DaemonLink, Target
from completiond_lsp.daemon_process import SERVE
from completiond_lsp.documents import Encoding
from completiond_lsp.options import SECTION, Options, parse
from completiond_lsp.rpc import Protocol

log = logging.getLogger(__name__)

ENCODINGS: dict[str, Encoding] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}
WATCH_EDITOR_S = 0.5
DID_FOCUS = "textDocument/didFocus"
DID_YANK = "completiond/didYank"


class Server(LanguageServer):
    """One editor. `target` is what the command line says; settings may say more."""

    protocol: Protocol

    def __init__(self, target: Target) -> None:
        super().__init__("completiond-lsp", __version__, protocol_cls=Protocol)
        self.client_name = ""
        self._flags = target
        self._initial = Options()
        self._warned: set[str] = set()
        self._watch: asyncio.Task[None] | None = None
        self.bridge = Bridge(DaemonLink(target, self._tell), warn=self._log)

    def configure(self, settings: Any) -> None:
        """Take settings over the initial ones; what is wrong with them is logged, once each."""
        if settings is None:
            return
        options, warnings = parse(settings, self._initial)
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                self._log(warning)
        self.bridge.options = options
        self.bridge.link.aim(
            Target(
                endpoint=options.endpoint or self._flags.endpoint,
                start=options.start_daemon and self._flags.start,
                model=options.model,
                command=self._flags.command,
            )
        )

    def start(self, settings: Any, client: str) -> None:
        """Take what `initialize` says."""
        self.client_name = client.lower()
        self.bridge.journal.editor = client
        self.configure(settings)
        self._initial = self.bridge.options

    async def fetch_settings(self) -> None:
        """Ask an editor that keeps settings for ours; not every one does."""
        workspace = self.client_capabilities.workspace
        if workspace is None or not workspace.configuration:
            return
        item = types.ConfigurationItem(section=SECTION)
        try:
            found = await self.workspace_configuration_async(types.ConfigurationParams([item]))
        except JsonRpcException as exc:
            log.info("The editor has no settings for us: %s", exc)
        else:
            self.configure(found[0] if found else None)

    def watch_editor(self) -> None:
        """End with the editor, even if something else keeps our standard input open."""
        if self.process_id is not None and _lives(self.process_id):
            self._watch = asyncio.create_task(_exit_after(self.process_id), name="editor watch")

    def report_server_error(self, error: Exception, source: Any) -> None:
        """To our log. pygls would open a window over the person's text."""
        if isinstance(error, JsonRpcInternalError):
            log.error("%s\n%s", error, "".join((error.data or {}).get("traceback", ())))
        elif isinstance(error, JsonRpcException):
            log.info("%s", error)
        else:
            log.warning("Unreadable message: %s: %s", type(error).__name__, error)

    def _log(self, sentence: str) -> None:
        self.window_log_message(
            types.LogMessageParams(type=types.MessageType.Warning, message=sentence)
        )

    def _tell(self, sentence: str) -> None:
        self.window_show_message(
            types.ShowMessageParams(type=types.MessageType.Warning, message=sentence)
        )


async def _exit_after(process: int) -> None:
    while _lives(process):
        await asyncio.sleep(WATCH_EDITOR_S)
    os._exit(0)  # an orderly exit would wait for the thread that reads standard input


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


# -- handlers -----------------------------------------------------------------------------------


def initialize(ls: Server, params: types.InitializeParams) -> None:
    folders = [folder.uri for folder in params.workspace_folders or ()]
    root = [params.root_uri] if params.root_uri else []
    ls.bridge.folders = folders or root
    ls.bridge.encoding = ENCODINGS.get(ls.workspace.position_encoding or "", "utf-16")
    ls.start(params.initialization_options, params.client_info.name if params.client_info else "")
    if ls.bridge.options.fallback_completion and items.needs_fallback(ls.protocol.client_says):
        ls.feature(types.TEXT_DOCUMENT_COMPLETION, items.FALLBACK)(completion)


def did_change_folders(ls: Server, params: Any) -> None:
    ls.bridge.folders = tuple(ls.workspace.folders)


async def initialized(ls: Server, params: Any) -> None:
    ls.watch_editor()
    await ls.fetch_settings()
    ls.bridge.connect()


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
    """`textDocument/didFocus {textDocument}`, which some clients send."""
    ls.bridge.focused(read.document_uri(params))


def did_yank(ls: Server, params: Any) -> None:
    """`completiond/didYank {text, textDocument?}`: the person has copied a text."""
    ls.bridge.yanked(*read.yanked(params))


async def did_change_configuration(ls: Server, params: Any) -> None:
    settings = params.get("settings") if isinstance(params, dict) else None
    ls.configure(settings.get(SECTION) if isinstance(settings, dict) else None)
    await ls.fetch_settings()


async def inline_completion(ls: Server, params: Any) -> list[types.InlineCompletionItem]:
    request = read.inline_request(params)
    found = await ls.bridge.complete(request)
    return items.inline_items(found)


async def completion(ls: Server, params: Any) -> types.CompletionList:
    request = read.inline_request(params)._replace(invoked=False)
    found = await ls.bridge.complete(request)
    return items.completion_list(found, ls.bridge.encoding, ls.client_name)


def accepted(ls: Server, ident: int = 0, candidate: int = 0, characters: int = 0) -> None:
    try:
        ls.bridge.accepted(ident, candidate, characters)
    except ProtocolError as exc:
        raise JsonRpcInvalidParams(str(exc)) from exc


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
        (DID_FOCUS, did_focus),
        (DID_YANK, did_yank),
    ):
        server.feature(method)(handler)
    # Without options pygls advertises nothing.
    options = types.InlineCompletionOptions()
    server.feature(types.TEXT_DOCUMENT_INLINE_COMPLETION, options)(inline_completion)
    server.command(items.ACCEPTED)(accepted)
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
