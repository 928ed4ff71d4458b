"""The sides of bench.py decode in this process: our engine by its drafters, and transformers."""

import time
from collections.abc import Callable
from typing import Any

from bench_decode import Made

from completiond.core import Prompt
from completiond.drafters.planner import Policy
from completiond.drafters.policies import FixedK, SimpleRule
from completiond.drafters.small_model import SmallModel
from completiond.drafters.suffix import Suffix
from completiond.engine import speculation
from completiond.engine.job import Job, Rules
from completiond.measure import passes
from completiond.model import store
from completiond.model.loader import choose_device, load_runner


class Never:
    def step(self, ids: Any) -> None:
        return None


class Ours:
    """Our engine with the drafters of one setting, which know nothing of the items before.

    `name` is `plain`, or drafters joined by + with or without @ and a policy. A prompt is computed
    once for all settings: its time does not count.
    """

    def __init__(self, core: Any, name: str, arguments: Any) -> None:
        self._core, self._tokens = core, arguments.tokens
        drafters, _, policy = name.partition("@")
        self._names = () if name == "plain" else speculation.wanted(drafters.replace("+", ","))
        self._policy = _policy(policy, core, arguments.draft_tokens)
        self._small = None
        if "small_model" in self._names and arguments.draft:
            self._small = _small(arguments)

    def __call__(self, item: Any) -> Made:
        core, context = self._core, item.context
        suffix = Suffix(item.speller)
        for number, ids in enumerate(item.files):
            suffix.feed("bench", str(number), ids)
        runner = core.decoding.runner
        drafters = speculation.drafters(
            self._names, runner, core.cache, suffix=suffix, small=self._small
        )
        prompt = Prompt(tuple(context.ids), tuple(context.segments), context.healed)
        stop = {"stop_ids": context.stop_ids}
        job = Job(1, "bench", "bench", prompt, self._tokens, stop=stop)
        rules = Rules(Never(), context.mask)
        (ran,) = passes.run(core, drafters, [(job, rules)], self._policy)
        kept, tried = sum(ran.outcome.accepted.values()), sum(ran.outcome.drafted.values())
        return Made(list(ran.ids), ran.rate, len(ran.steps), kept, tried)


def _policy(name: str, core: Any, width: int) -> Policy:
    if name == "simple":
        return SimpleRule(width)
    if name.startswith("fixed"):
        return FixedK(int(name.removeprefix("fixed")))
    return speculation.policy_of("auto", core._costs, width)


def _small(arguments: Any) -> SmallModel:
    files = store.resolve(arguments.draft)
    runner = load_runner(
        files.directory, files.vocab_size, choose_device("auto"), kernel=arguments.kernel, graphs=0
    )
    return SmallModel(runner, 128 << 20)


def library_run(library: Any, kind: str, arguments: Any) -> Callable[[Any], Made]:
    """transformers' `generate`, as it comes, with prompt lookup or with a small model."""
    import torch

    more: dict[str, Any] = {}
    if kind == "lookup":
        more["prompt_lookup_num_tokens"] = 7
    if kind == "assisted":
        from bench_models import library as load

        more["assistant_model"] = load(store.resolve(arguments.draft))

    def run(item: Any) -> Made:
        ids, tokens = torch.tensor([list(item.context.ids)]), arguments.tokens
        seen: list[tuple[float, int]] = []

        def watch(ids: Any, scores: Any, **_: Any) -> Any:
            seen.append((time.perf_counter(), ids.shape[1]))
            return torch.zeros(len(ids), dtype=torch.bool)

        with torch.inference_mode():
            made = library.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                min_new_tokens=tokens,
                max_new_tokens=tokens,
                pad_token_id=0,
                stopping_criteria=[watch],
                **more,
            )
        (first, before), (last, after) = seen[0], seen[-1]
        rate = (after - before) / max(1e-9, last - first)
        return Made(made[0, ids.shape[1] :].tolist(), rate, len(seen))

    return run
