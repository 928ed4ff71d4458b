"""VS Code's server with our extension in it: settings, folders, log files, processes.

code-server as scripts/get_code_server brings it; the extension as scripts/vsix packs it. Knows no
browser.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parent.parent
EXTENSION = "completiond.completiond"
VSIX = ROOT / "editors" / "vscode" / "dist" / "completiond.vsix"
EXACT = dict.fromkeys(("autoClosingBrackets", "autoClosingQuotes", "autoSurround"), "never")
QUIET = {
    "[jsonc]": {f"editor.{name}": value for name, value in EXACT.items()},
    "chat.disableAIFeatures": True,
    "editor.minimap.enabled": False,
    "extensions.autoCheckUpdates": False,
    "extensions.autoUpdate": "off",
    "files.autoSave": "off",
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}
"""What would otherwise ask, fetch, draw beside the text, or add to settings that are typed in."""

OURS = "completiond."
"""Settings that are put into the machine's file: some belong there, and all that are changed in it
while the editor runs are seen."""


def editors() -> Path:
    """Where `scripts/get_editors` and `scripts/get_code_server` install."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("EDITORS_DIR") or Path(cache) / "completiond" / "editors")


def program() -> Path | None:
    """code-server, if scripts/get_code_server has been run."""
    found = sorted(editors().glob("code-server-*/code-server"))
    return found[-1] if found else None


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


class VsCodeServer:
    """One code-server, with settings, extensions and a workspace of its own under `folder`."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], environment: Mapping[str, str]
    ) -> None:
        found = program()
        assert found is not None, "scripts/get_code_server has not been run"
        self._program = found
        self.workspace = folder / "space"
        self.workspace.mkdir(parents=True)
        self._data, self._extensions = folder / "data", folder / "extensions"
        self.settings = QUIET | dict(settings)
        self._environment = {**environment, "HOME": str(folder)}
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None, "it runs"
        return self._process.pid

    def install(self, *others: Path) -> None:
        """Write the settings and put the extension in, as a person does with a .vsix."""
        for file, text in self.files().items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for vsix in (VSIX, *others):
            self._run("--install-extension", str(vsix))

    def files(self) -> dict[Path, str]:
        """The settings files, and what belongs into them: some settings are the machine's."""
        groups: dict[str, dict[str, Any]] = {"User": {}, "Machine": {}}
        for name, value in self.settings.items():
            groups["Machine" if name.startswith(OURS) else "User"][name] = value
        return {
            self._data / group / "settings.json": json.dumps(values)
            for group, values in groups.items()
        }

    def start(self) -> None:
        """Returns at once; a page that is asked for too early is refused."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        with (self._data / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command(), "--bind-addr", f"127.0.0.1:{self._port}", "--disable-telemetry"],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and what it has started, except what has made itself independent."""
        if self._process is not None:
            os.killpg(self._process.pid, how)
            self._process.wait(30)
            self._process = None

    def url(self, file: str = "", *, workspace: bool = True, of: Path | None = None) -> str:
        """Where a browser finds the window, with a file of the workspace open in it.

        `of` is a file that names the folders of a workspace.
        """
        payload = [["logLevel", f"{EXTENSION}:trace"]]
        if file:
            where = f"vscode-remote://127.0.0.1:{self._port}{self.workspace / file}"
            payload.append(["openFile", where])
        folder = f"folder={self.workspace}" if workspace else "ew=true"
        folder = f"workspace={of}" if of is not None else folder
        return f"http://127.0.0.1:{self._port}/?{folder}&payload={quote(json.dumps(payload))}"

    def logs(self, name: str) -> list[Path]:
        """Log files of this name, the oldest first: one for each extension host."""
        return sorted(self._data.glob(f"logs/**/{name}"), key=lambda path: path.stat().st_ctime)

    def _command(self) -> list[str]:
        places = ["--user-data-dir", str(self._data), "--extensions-dir", str(self._extensions)]
        return [str(self._program), *places]

    def _run(self, *arguments: str) -> None:
        command = [*self._command(), *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True)


def descendants(pid: int) -> dict[int, str]:
    """All processes below this one, and their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has ended meanwhile
    found: dict[int, str] = {}
    wanted = {pid}
    while wanted:
        wanted = {child for child, parent in parents.items() if parent in wanted} - found.keys()
        found |= {child: _command_line(child) for child in wanted}
    return found


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
