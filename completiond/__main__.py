"""The command line. Knows the names of the commands and how errors reach a person, nothing else.

Exit codes: 0, 1 for an error that is told in one sentence, 2 for wrong usage, 130 after Ctrl-C.
"""

import os
import sys
from typing import Annotated

import typer

from completiond.commands import (
    audit,
    bench,
    complete,
    doctor,
    keys,
    models,
    report,
    serve,
    status,
    why,
)
from completiond.errors import CompletiondError
from completiond.version import __version__

app = typer.Typer(
    help="A local code-completion daemon, and what one needs to run it.",
    epilog="Start here: `completiond models pull`, then `completiond serve`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"completiond {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


app.command()(serve.serve)
app.command()(complete.complete)
app.command()(status.status)
app.command()(why.why)
app.command()(report.report)
app.command()(doctor.doctor)
app.command()(audit.audit)
app.add_typer(models.app, name="models")
app.add_typer(keys.app, name="keys")
app.add_typer(bench.app, name="bench")


def main() -> None:
    """Run a command; what a person can cause ends in one sentence, never in a traceback."""
    code = _run()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == 130:
        os._exit(code)  # a thread may be in a pass: nobody who pressed Ctrl-C waits for its end
    sys.exit(code)


def _run() -> int:
    try:
        app()
    except CompletiondError as exc:
        typer.echo(str(exc), err=True)
        return 1
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    main()
