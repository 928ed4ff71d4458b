"""A model in this process that fills holes: prompt, run and trim as the daemon does them.

Knows an engine's core and no daemon: what is measured with it is what is said, not how soon.
Drafts are on, which on int8 changes no token.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from infill_items import Item

PASS_MS = 500.0
"""Nobody waits for a cancel here: prompts are computed in few passes."""


class Manner(NamedTuple):
    """How a prompt is laid out and asked; what is empty or None is the product's default."""

    layout: str = ""
    healing: bool | None = None
    invoked: bool = False


PRODUCT = Manner()


class Ran(NamedTuple):
    """What a run wrote, its healed part first, and why it ended."""

    ids: list[int]
    text: str
    reason: str


class OnlyEnds:
    """core.StopRule: the model alone ends its answer."""

    def __init__(self, stop_ids: Sequence[int]) -> None:
        self._stop_ids = frozenset(stop_ids)

    def step(self, ids: Sequence[int]) -> str | None:
        return "eos" if self._stop_ids.intersection(ids) else None


class Filler:
    def __init__(self, model: str, flags: Mapping[str, Any]) -> None:
        from completiond.config import load
        from completiond.engine.load import load_core
        from completiond.engine_process import rules_for
        from completiond.model import store
        from completiond.prompt.tokenizer import Tokenizer

        self._files = store.resolve(model)
        self._settings = load({"engine.device": "cpu", "engine.pass_ms": PASS_MS} | dict(flags))
        self.tokenizer = Tokenizer.load(self._files.directory, name=self._files.name)
        self._builders: dict[Manner, Any] = {}
        self._rules = rules_for(self.tokenizer)
        self._core = load_core(self._settings, self._files)

    def _builder(self, manner: Manner) -> Any:
        if manner not in self._builders:
            self._builders[manner] = self._make_builder(manner)
        return self._builders[manner]

    def _make_builder(self, manner: Manner) -> Any:
        from dataclasses import replace

        from completiond.prompt import templates
        from completiond.prompt.builder import PromptBuilder

        template = templates.choose(self.tokenizer)
        completion = self._settings.completion
        if manner.layout:
            completion = replace(completion, layout=manner.layout)
        return PromptBuilder(
            self.tokenizer,
            template,
            context=min(self._settings.model.context, self._files.context),
            completion=completion,
            eos_ids=self._files.eos_ids,
            healing=manner.healing,
            weights=self._files.bytes,
        )

    def built(
        self, item: Item, max_tokens: int, manner: Manner = PRODUCT, chunks: Sequence[Any] = ()
    ) -> Any:
        """The prompt at the item's hole."""
        return self._builder(manner).build(
            item.snapshot(), chunks, max_tokens=max_tokens, invoked=manner.invoked
        )

    def forget(self) -> None:
        """Give the KV cache back: nothing of the last prompts is used again."""
        self._core.cache.forget("bench")

    def run(self, built: Any, stop: Mapping[str, Any], *, free: bool = False) -> Ran:
        """A run to its end, which in a free one the model alone decides. What the slot still holds
        of the prompt is used, which on int8 changes no token."""
        from completiond.core import CancelToken
        from completiond.engine.job import Done, Failed, Job

        job = Job(1, "bench", "", built.prompt, built.max_tokens, stop=stop)
        rules = self._rules(job)
        if free:
            rules = rules._replace(stop=OnlyEnds(stop["stop_ids"]))
        self._core.admit(job, rules, CancelToken())
        while True:
            for event in self._core.step():
                if isinstance(event, Failed):
                    raise SystemExit(event.message)
                if isinstance(event, Done):
                    ids = list(event.outcome.ids)
                    return Ran(ids, self.tokenizer.decode(ids), event.outcome.reason)
