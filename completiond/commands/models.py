"""`completiond models`: what can be served, what is in the cache; the one place that fetches."""

from typing import Annotated

import typer
from rich.text import Text

from completiond.commands import options
from completiond.commands.terminal import Bar, Lines, facts, gigabytes, out, waiting
from completiond.errors import ModelError
from completiond.model import registry, store

app = typer.Typer(help="Pull, list, verify and remove models.", no_args_is_help=True)

Name = Annotated[
    str | None,
    typer.Argument(help="Default: the configured model.", show_default=False),
]
Named = Annotated[str, typer.Argument(help="As `models list` names it.", show_default=False)]


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Also those of a model hub.")] = False,
) -> None:
    """List the models that can be pulled, and those that are in the cache."""
    here = {files.name: files.bytes for files in store.installed()}
    rows = [(model.name, f"{model.about}; {model.licence}") for model in registry.INDEX]
    if every:
        rows += [(model.name, f"from the hub, {model.licence}") for model in registry.HUB]
    known = {name for name, _ in rows}
    rows += [(name, "") for name in here if name not in known]
    facts((name, f"{_state(here, name):33}  {about}".rstrip()) for name, about in rows)


def _state(here: dict[str, int], name: str) -> str:
    """What it takes of the disk, or what a pull fetches and leaves there, as far as it is known."""
    if name in here:
        return f"here, {gigabytes(here[name])}"
    model = registry.find(name)
    if model is None:
        return "not pulled"
    return f"not pulled: {gigabytes(model.size)}, {gigabytes(model.converted)} on disk"


@app.command()
def pull(
    name: Name = None,
    config: options.ConfigFile = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Tell the progress on stdout, as lines of JSON.")
    ] = False,
) -> None:
    """Fetch a model into the cache; what an interrupted pull left is used."""
    wanted = name or options.settings(config).model.name
    options.need_extra("Converting a model")
    with Lines() if lines else Bar() as progress:
        files = store.pull(wanted, progress)
    out.print(Text(f"{files.name} is in the cache ({gigabytes(files.bytes)})."))
    model = registry.find(wanted)
    if model is not None and model.note:
        out.print(Text(f"Note: it {model.note}."), style="yellow")


@app.command()
def verify(name: Name = None, config: options.ConfigFile = None) -> None:
    """Read a model's files and compare their checksums; then let it fill a known gap."""
    settings = options.settings(config, model__name=name)
    with waiting(f"Reading {settings.model.name}"):
        files = store.verify(settings.model.name)
    out.print(Text(f"{files.name}: {gigabytes(files.bytes)} in {files.directory}, undamaged."))
    options.need_extra("The known fill")
    from completiond.commands.self_test import check

    with waiting("Filling a known gap"):
        verdict = check(settings)
    out.print(Text(verdict))


@app.command()
def remove(name: Named) -> None:
    """Delete a model from the cache. A directory or file of yours stays where it is."""
    out.print(Text(f"{name} is removed; {gigabytes(store.remove(name))} are free again."))


def installed_draft(target: str) -> str:
    """The known draft of a target if it is in the cache, else empty."""
    draft = registry.DRAFTS.get(target, "")
    try:
        return store.resolve(draft).name if draft else ""
    except ModelError:
        return ""
