"""The configuration's models become what an engine is told first. Loads and fetches nothing."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import typer

from completiond.config import Config
from completiond.engine.desk import Start
from completiond.model import store


def start_of(
    config: Config, scripted: str | None = None, progress: Callable[..., None] = store.quiet
) -> Start:
    """What an engine is told first. Raises ModelError if a model is not there; fetches nothing."""
    if scripted is not None:
        return Start("scripted", script=_script(scripted))
    target = store.resolve(config.model.name, progress)
    draft = store.resolve(config.model.draft, progress) if config.model.draft else None
    return Start(
        "model",
        config=asdict(config),
        model=target.plain(),
        draft=draft.plain() if draft else None,
    )


def _script(text: str) -> dict[str, Any]:
    try:
        script = json.loads(text)
    except ValueError as exc:
        raise typer.BadParameter(f"--scripted is not JSON ({exc}).") from exc
    if not isinstance(script, dict):
        raise typer.BadParameter("--scripted must be a JSON object.")
    return script
