"""The extension's manifest says what the bridge understands and what the sources register."""

import json
import re
from dataclasses import fields
from pathlib import Path

from completiond.version import __version__
from completiond_lsp.options import Options, parse

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
MANIFEST = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
SETTINGS = MANIFEST["contributes"]["configuration"]["properties"]
OURS = {"completiond.command"}
"""Settings of the extension itself."""


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def test_it_has_the_version_of_the_project() -> None:
    assert MANIFEST["version"] == __version__


def test_its_settings_are_the_bridges_with_the_bridges_defaults() -> None:
    bridges = {f"completiond.{camel(option.name)}": option for option in fields(Options)}
    assert set(SETTINGS) == set(bridges) | OURS
    for name, option in bridges.items():
        default = option.default
        said = SETTINGS[name]["default"]
        assert said == (list(default) if isinstance(default, tuple) else default), name
    defaults = {name.partition(".")[2]: SETTINGS[name]["default"] for name in bridges}
    assert parse(defaults, Options()) == (Options(), [])


def test_every_setting_is_described_and_no_workspace_names_a_program_or_an_address() -> None:
    assert all(setting["markdownDescription"].endswith(".") for setting in SETTINGS.values())
    for name in ("command", "endpoint", "startDaemon"):
        assert SETTINGS[f"completiond.{name}"]["scope"] == "machine"


def test_every_command_of_the_manifest_is_registered_and_the_other_way_round() -> None:
    said = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    sources = "".join(path.read_text(encoding="utf-8") for path in (FOLDER / "src").glob("*.ts"))
    table = (FOLDER / "src" / "commands.ts").read_text(encoding="utf-8")
    registered = set(re.findall(r"^    '(completiond\.\w+)':", table, re.MULTILINE))
    assert said == registered | {"completiond.showMenu"}
    assert "MENU = 'completiond.showMenu'" in sources
    servers = set(re.findall(r"^  \w+: '(completiond\.\w+)',", sources, re.MULTILINE))
    assert len(servers) == 3 and not servers & said, "the client registers the server's own"
    keys = {key["command"] for key in MANIFEST["contributes"]["keybindings"]}
    assert keys <= said
