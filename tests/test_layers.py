"""Imports point down, lazy ones included; what is heavy stays in the process that computes."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (
    "errors core version brackets redaction armour assigned",
    "protocol config",
    "sessions reuse moments gate transport client connection endpoint keys router footprint files "
    "keeping reasons loopback web_server",
    "model",
    "drafters prompt postprocess",
    "engine telemetry record",
    "daemon serving flight flights prompts sources work acks liveness recorder remembered told "
    "replies engine_process http",
    "measure dashboard",
    "commands",
    "__main__",
)
LAYER_OF = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
FORBIDDEN = {
    "engine": {"prompt", "sessions", "protocol", "transport", "telemetry", "record"},
    "drafters": {"engine"},
    "model": {"prompt"},
    "postprocess": {"model"},
}
BRIDGE = set(
    "errors version config core brackets redaction armour assigned moments protocol transport "
    "reuse postprocess client connection endpoint keys reasons record".split()
)
"""Parts of completiond that the bridge may import; client and those behind it came with it."""
HEAVY = {"torch", "numpy", "transformers", "safetensors", "tokenizers", "gguf"}
TORCH_FREE = (
    "completiond.__main__",
    "completiond.client",
    "completiond.model.store",
    "completiond.model.registry",
    "completiond.model.checkpoint",
    "completiond.commands.daemon_client",
    "completiond_lsp.server",
)
COMMAND_LINE = {"typer", "rich", "pydantic"}


def modules(package: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path, known: set[str]) -> set[str]:
    """Every module that a file imports anywhere in it, functions and `if` blocks included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative imports hide the layers"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found


SOURCES = dict(modules(ROOT / "completiond"))
IMPORTS = {name: imports(path, set(SOURCES)) for name, path in SOURCES.items()}


def part(module: str) -> str:
    return module.split(".")[1]


def test_every_module_has_a_layer() -> None:
    assert {part(name) for name in SOURCES if "." in name} <= set(LAYER_OF)


def test_imports_only_point_down() -> None:
    upward = [
        f"{name} imports {other}"
        for name, found in IMPORTS.items()
        if "." in name
        for other in found
        if other.startswith("completiond.") and LAYER_OF[part(other)] > LAYER_OF[part(name)]
    ]
    assert not upward


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter(
        {name: {other for other in found if other in SOURCES} for name, found in IMPORTS.items()}
    ).prepare()


def test_forbidden_edges() -> None:
    bad = [
        f"{name} imports {other}"
        for name, found in IMPORTS.items()
        if "." in name
        for other in found
        if other.startswith("completiond.") and part(other) in FORBIDDEN.get(part(name), ())
    ]
    assert not bad


def test_the_nouns_import_nothing_of_ours_but_errors() -> None:
    ours = {name for name in IMPORTS["completiond.core"] if name.startswith("completiond")}
    assert ours <= {"completiond.errors"}
    assert not any(name.startswith("completiond") for name in IMPORTS["completiond.errors"])


def test_the_bridge_imports_only_what_it_may() -> None:
    bridge = dict(modules(ROOT / "lsp" / "completiond_lsp"))
    for name, path in bridge.items():
        found = {other for other in imports(path, set(SOURCES)) if other.startswith("completiond.")}
        assert {part(other) for other in found} <= BRIDGE, name


def test_what_the_bridge_imports_stays_inside_the_same_parts() -> None:
    for name, found in IMPORTS.items():
        if "." in name and part(name) in BRIDGE:
            ours = {part(other) for other in found if other.startswith("completiond.")}
            assert ours <= BRIDGE | {"router", "footprint"}, name


@pytest.mark.parametrize("module", TORCH_FREE)
def test_importing_it_brings_nothing_heavy(module: str) -> None:
    assert not HEAVY & loaded_by(module)


def test_the_bridge_brings_no_command_line() -> None:
    assert not COMMAND_LINE & loaded_by("completiond_lsp.server")


def loaded_by(module: str) -> set[str]:
    code = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(json.loads(ran.stdout))


FRONT = """
import json, os, signal, sys
from completiond import __main__ as cli
from completiond.commands import serve

def ready(told):
    heavy = [name for name in ("torch", "numpy", "transformers") if name in sys.modules]
    print(json.dumps(heavy), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

serve._banner = ready
sys.argv = ["completiond", "serve", "--scripted", "{}"]
cli.main()
"""


def test_the_front_process_has_no_torch(tmp_path: Path) -> None:
    environ = os.environ | {
        "COMPLETIOND_RUNTIME_DIR": str(tmp_path / "run"),
        "COMPLETIOND_CONFIG": str(tmp_path / "none.toml"),
    }
    ran = subprocess.run(
        [sys.executable, "-c", FRONT], env=environ, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr
