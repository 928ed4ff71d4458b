"""One editor: its settings, what it can do, what it is told. Knows LSP's messages; no handlers.

What is wrong with an editor's settings or messages is logged; a window over the person's text is
opened only when there will be no suggestions.
"""

import asyncio
import logging
import os
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer

from completiond.version import __version__
from completiond_lsp.bridge import Bridge
from completiond_lsp.daemon_link import DaemonLink, Target
from completiond_lsp.dashboard_process import DashboardProcess
from completiond_lsp.options import SECTION, Options, parse
from completiond_lsp.progress import Progress
from completiond_lsp.pulling import Puller
from completiond_lsp.rpc import Protocol
from completiond_lsp.standing import Standing

log = logging.getLogger(__name__)

WATCH_EDITOR_S = 0.5
STATUS = "completiond/status"
DEAF = ("emacs", "eglot", "helix")
"""Clients that warn of each notification that they do not know."""


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
        self._progress = Progress(self)
        standing = Standing(self._publish)
        link = DaemonLink(target, self._tell, standing.way)
        self.bridge = Bridge(link, warn=self._log, standing=standing)
        self.puller = Puller(standing.pulling)
        self.dashboard = DashboardProcess(standing.dashboard)

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
        self.bridge.standing.enabled(options.enabled)
        target = Target(
            endpoint=options.endpoint or self._flags.endpoint,
            start=options.start_daemon and self._flags.start,
            model=options.model,
            command=self._flags.command,
        )
        if self.bridge.link.aim(target):
            self.bridge.connect()

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

    async def apply(self, edit: types.WorkspaceEdit) -> bool:
        """Have the editor change a text; False if it does not."""
        params = types.ApplyWorkspaceEditParams(edit, label="completion")
        try:
            return (await self.workspace_apply_edit_async(params)).applied
        except JsonRpcException as exc:
            log.info("The editor did not apply an edit: %s", exc)
            return False

    def _publish(self, standing: dict[str, Any]) -> None:
        self._progress.follow(standing)
        if not any(name in self.client_name for name in DEAF):
            self.protocol.notify(STATUS, standing)

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
