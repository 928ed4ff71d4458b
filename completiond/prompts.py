"""What turns text into prompts and back, for the model that is served. Knows its files; no runs."""

from typing import NamedTuple

from completiond.config import Config
from completiond.engine.desk import Start
from completiond.model.checkpoint import ModelFiles
from completiond.prompt import templates
from completiond.prompt.builder import PromptBuilder
from completiond.prompt.tokenizer import AnyTokenizer, ByteTokenizer, Tokenizer


class Prompts(NamedTuple):
    builder: PromptBuilder
    tokenizer: AnyTokenizer


def prompts_of(config: Config, spec: Start) -> Prompts:
    """The tokenizer and the builder for the engine's model; needs no engine that is ready."""
    tokenizer: AnyTokenizer
    ends: tuple[int, ...] = ()
    weights = 0
    if spec.kind == "scripted":
        tokenizer = ByteTokenizer()
        limit = int(spec.script.get("context", config.model.context))
    else:
        files = ModelFiles.of(spec.model)
        tokenizer = Tokenizer.load(files.directory, name=files.name)
        ends, limit, weights = files.eos_ids, files.context, files.bytes
    builder = PromptBuilder(
        tokenizer,
        templates.choose(tokenizer, config.model.template),
        context=min(config.model.context, limit),
        completion=config.completion,
        eos_ids=ends,
        weights=weights,
    )
    return Prompts(builder, tokenizer)
