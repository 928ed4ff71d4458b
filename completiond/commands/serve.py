"""`completiond serve`: the daemon in the foreground."""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Annotated, Any, Protocol

import typer

from completiond.commands import options
from completiond.commands.terminal import Bar, facts, out, waiting
from completiond.endpoint import default_endpoint
from completiond.version import __version__


class ReadyLike(Protocol):
    """What the daemon tells when it can be asked."""

    @property
    def endpoint(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def info(self) -> Mapping[str, Any]: ...
    @property
    def http(self) -> str: ...


def serve(
    model: options.Model = None,
    draft: options.Draft = None,
    gpu: options.Gpu = None,
    cpu: options.Cpu = False,
    context: options.Context = None,
    threads: options.Threads = None,
    speculation: options.Speculation = None,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Log what happens, on stderr.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say where it listens and how it is used, no more.")
    ] = False,
    record_text: Annotated[
        bool | None,
        typer.Option(
            "--record-text",
            help="Write the text around the cursor and the answers into the record too, so that a "
            "session can be replayed.",
        ),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Also answer OpenAI-compatible requests on this port of the loopback address "
            "(docs/editors.md, Zed); http.key is what they must send. 0: not.",
        ),
    ] = None,
    scripted: options.Scripted = None,
) -> None:
    """Serve completions to editors until Ctrl-C.

    The model must have been pulled before (`completiond models pull`); nothing is fetched here.
    Ctrl-C or SIGTERM answers what has been asked and ends; a second one ends at once.
    """
    settings = options.settings(
        config,
        model__name=model,
        model__draft=draft,
        model__context=context,
        engine__device=options.device(gpu, cpu),
        engine__threads=threads,
        engine__speculation=speculation,
        serve__endpoint=endpoint,
        serve__insecure_loopback=insecure_loopback,
        record__text=record_text,
        http__port=http,
    )
    options.need_extra("`completiond serve`")
    if settings.record.otlp:
        options.need_otel()
    if settings.http.port:
        options.need_packages("http.port", "http", *options.WEB)
    from completiond.commands.start import start_of
    from completiond.engine.door import ProcessEngine

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="completiond: %(message)s")
    with Bar() as progress:
        start = start_of(settings, scripted, progress)
    engine = ProcessEngine(start)
    engine.launch()
    from completiond import serving  # the engine loads while this is imported

    name = settings.model.name if scripted is None else "the scripted engine"
    with ExitStack() as loading:
        loading.callback(engine.discard)
        loading.enter_context(waiting(f"Loading {name}"))
        serving.run(
            settings, engine=engine, on_ready=_tell(loading.close, _brief if quiet else _banner)
        )


def _tell(
    loaded: Callable[[], None], banner: Callable[[ReadyLike], None]
) -> Callable[[ReadyLike], None]:
    def tell(ready: ReadyLike) -> None:
        loaded()
        banner(ready)

    return tell


def _banner(ready: ReadyLike) -> None:
    info = ready.info
    _print(
        ready.model,
        [
            ("device", device_line(info)),
            ("draft", str(info.get("draft", ""))),
            ("speculation", ", ".join(info.get("drafters", ())) or "off"),
            ("passes", passes_line(info)),
            ("context", f"{info['context']} tokens"),
            ("memory", " ".join(info.get("notes", ()))),
            *_reached(ready),
            ("editor", "let it start `completiond-lsp` as a language server (README, Editors)"),
            ("try", f"completiond complete FILE:LINE:COL{_where(ready.endpoint)}"),
        ],
    )


def _brief(ready: ReadyLike) -> None:
    _print(ready.model, _reached(ready))


def _reached(ready: ReadyLike) -> list[tuple[str, str]]:
    return [
        ("endpoint", ready.endpoint),
        ("http", ready.http),
        ("dashboard", f"completiond dashboard{_where(ready.endpoint)}"),
    ]


def _print(model: str, rows: list[tuple[str, str]]) -> None:
    out.print(f"[bold]completiond {__version__} serves {model}[/]")
    facts(rows)
    out.print("Ctrl-C stops it." if out.is_terminal else "SIGTERM stops it.", style="dim")


def _where(endpoint: str) -> str:
    """What a client must say to reach it: nothing where it would look by itself."""
    return "" if endpoint == default_endpoint() else f" --endpoint {endpoint}"


def passes_line(info: Mapping[str, Any]) -> str:
    """What passes of some widths took at the start."""
    passes = [f"{rows} rows {ms:.0f} ms" for rows, ms in info.get("pass_ms", {}).items()]
    return ", ".join(passes).replace("1 rows", "1 row", 1)


def device_line(info: Mapping[str, Any]) -> str:
    """Device, threads and kernel as one phrase."""
    device = str(info.get("device", ""))
    parts = [device, f"{info['threads']} threads" if "threads" in info and device == "cpu" else ""]
    parts.append(f"{info['kernel']} kernel" if "kernel" in info else "")
    return ", ".join(part for part in parts if part)
