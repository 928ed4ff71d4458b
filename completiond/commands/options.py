"""Options that several commands share, and the configuration that they make together."""

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import typer

from completiond import config
from completiond.endpoint import parse
from completiond.errors import CompletiondError

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Read this configuration instead of the user's config.toml.",
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Where the daemon listens: ipc:///PATH or tcp://HOST:PORT. Without it: a socket that "
        "only you can reach.",
    ),
]
InsecureLoopback = Annotated[
    bool | None,
    typer.Option(
        "--insecure-loopback",
        help="Use tcp on this machine without keys: every user of the machine can then connect.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A name from `completiond models list`, a directory or a GGUF file."
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A small model of the same vocabulary that proposes tokens; `completiond doctor` "
        "says whether one pays here.",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--files",
        metavar="PATH",
        help="A file or a folder of source code, or a pattern as 'src/**/*.py'; may be given "
        "several times, or once with several. Default: the source of completiond itself.",
    ),
]
MoreFiles = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[PATH]...", help="The same as --files.", show_default=False),
]
Tokens = Annotated[int, typer.Option(metavar="N", min=2, max=1024, help="Longest answer of each.")]
Seed = Annotated[int, typer.Option(metavar="N", help="Other places in the same files.")]
EndingJson = Annotated[bool, typer.Option("--json", help="End with one line of JSON.")]
Gpu = Annotated[
    int | None,
    typer.Option("--gpu", metavar="N", min=0, help="Compute on this GPU. Default: one if any."),
]
Cpu = Annotated[bool, typer.Option("--cpu", help="Compute on the CPU, even if there is a GPU.")]
Context = Annotated[
    int | None,
    typer.Option(metavar="TOKENS", help="Longest prompt and answer together."),
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="CPU threads; 0 means one per core.")
]
Speculation = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="What proposes tokens: auto, off, or a list of recycled, suffix, lookup, "
        "token_recycling, small_model, lookahead, early_exit.",
    ),
]
Scripted = Annotated[str | None, typer.Option("--scripted", metavar="JSON", hidden=True)]

WEB = ("starlette", "uvicorn")
COMPUTING = ("torch", "transformers", "tokenizers", "safetensors", "gguf", "numpy")


def settings(file: Path | None = None, **flags: Any) -> config.Config:
    """The configuration; `flags` are named section__key, and None is not given."""
    named = {name.replace("__", ".", 1): value for name, value in flags.items()}
    made = config.load(named, file=file)
    if made.serve.endpoint:
        parse(made.serve.endpoint)  # said now, and not after the model has been looked for
    return made


def device(gpu: int | None, cpu: bool) -> str | None:
    """`engine.device` as the two flags say it; None if neither was given."""
    if gpu is not None and cpu:
        raise typer.BadParameter("--gpu and --cpu exclude each other; give one of them.")
    return "cpu" if cpu else None if gpu is None else f"cuda:{gpu}"


def has_extra() -> bool:
    """Whether the packages that compute are installed."""
    return _installed(*COMPUTING)


def need_otel() -> None:
    """Raise one sentence where the packages that speak to a collector are missing."""
    if not _installed("opentelemetry.exporter.otlp.proto.http"):
        raise CompletiondError(
            "record.otlp needs packages that are not installed; "
            "run `pip install 'completiond[otel]'`, or leave it empty."
        )


def need_extra(what: str) -> None:
    """Raise one sentence where they are not."""
    if not has_extra():
        raise CompletiondError(
            f"{what} needs packages that are not installed (torch among them); "
            "run `pip install 'completiond[serve]'`."
        )


def need_packages(what: str, extra: str, *packages: str) -> None:
    """Raise one sentence where the extra is not installed."""
    if not _installed(*packages):
        raise CompletiondError(
            f"{what} needs packages that are not installed; "
            f"run `pip install 'completiond[{extra}]'`."
        )


def _installed(*packages: str) -> bool:
    try:
        return all(importlib.util.find_spec(package) for package in packages)
    except ModuleNotFoundError:  # the package that one of them would be in
        return False
