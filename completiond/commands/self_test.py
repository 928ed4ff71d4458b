"""The known fill, asked of a model: whether its template and its weights fit together."""

import asyncio

from completiond.commands.local_engine import LocalEngine
from completiond.commands.start import start_of
from completiond.config import Config
from completiond.model.checkpoint import ModelFiles
from completiond.prompt import templates
from completiond.prompt.tokenizer import Tokenizer


def check(config: Config) -> str:
    """Load the model in this process and let it fill; one sentence."""
    start = start_of(config)

    async def run() -> str:
        async with LocalEngine(config, start) as engine:
            return await known_fill(engine, template_of(config, ModelFiles.of(start.model)))

    return asyncio.run(run())


def template_of(config: Config, files: ModelFiles) -> str:
    """The template's name; empty for a model without fill-in-the-middle tokens."""
    tokenizer = Tokenizer.load(files.directory, name=files.name)
    template = templates.choose(tokenizer, config.model.template)
    return template.name if template else ""


async def known_fill(engine: LocalEngine, template: str) -> str:
    """What came out of the gap that every model trained to fill can close."""
    if not template:
        return "The model has no fill-in-the-middle tokens: it continues the prefix only."
    fill = templates.KNOWN_FILL
    answer = await engine.fill(fill.prefix, fill.suffix)
    if answer.reason == "timeout":
        return "The known fill was not answered in time: the machine is busy; try again."
    text = answer.candidates[0].text if answer.candidates else ""
    warning = templates.self_test(lambda prefix, suffix: text)
    return warning or f"The known fill came out right ({text.strip()!r})."
