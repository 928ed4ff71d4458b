"""Which drafters an engine has, and who decides what of their drafts is verified.

The composition root of speculation. Knows their names and what each of them needs.
"""

import logging
from collections.abc import Callable, Sequence

from completiond.drafters.base import Drafter
from completiond.drafters.costs import Costs
from completiond.drafters.early_exit import EarlyExit
from completiond.drafters.lookahead import Lookahead
from completiond.drafters.lookup import Lookup
from completiond.drafters.planner import Planner, Policy
from completiond.drafters.policies import FixedK, SimpleRule
from completiond.drafters.recycled import Recycled
from completiond.drafters.small_model import SmallModel
from completiond.drafters.suffix import Suffix
from completiond.drafters.token_recycling import TokenRecycling
from completiond.model.fused import FusedDecoder
from completiond.model.kv_cache import KVCache
from completiond.model.runner import Runner

log = logging.getLogger(__name__)

AUTO = ("recycled", "suffix", "lookup", "small_model")
"""What `auto` asks; `small_model` where there is one."""
ORDER = (
    "recycled",
    "suffix",
    "lookup",
    "token_recycling",
    "lookahead",
    "early_exit",
    "small_model",
)
"""Cheap ones first; of equal guesses the first one's name is kept."""
EXIT_PART = 3
"""`early_exit` drafts with one of so many parts of the layers."""


def wanted(speculation: str) -> tuple[str, ...]:
    """The drafters that a setting names, in the order in which they are asked: cheap ones first."""
    named = {name.strip() for name in speculation.split(",")}
    if named == {"auto"}:
        return AUTO
    return tuple(name for name in ORDER if name in named)


def drafters(
    names: Sequence[str],
    runner: Runner,
    cache: KVCache,
    *,
    suffix: Suffix | None = None,
    small: SmallModel | None = None,
) -> list[Drafter]:
    """Those of `names` that there can be here."""
    makers: dict[str, Callable[[], Drafter | None]] = {
        "recycled": Recycled,
        "suffix": lambda: suffix or Suffix(),
        "lookup": Lookup,
        "token_recycling": TokenRecycling,
        "lookahead": Lookahead,
        "early_exit": lambda: early_exit(runner, cache),
        "small_model": lambda: small,
    }
    found = (makers[name]() for name in names)
    return [drafter for drafter in found if drafter is not None]


def early_exit(runner: Runner, cache: KVCache) -> EarlyExit | None:
    """A drafter of the target's own first layers; None where they cannot be run alone."""
    if not isinstance(runner.decoder, FusedDecoder):
        log.warning("early_exit is left out: this model's first layers cannot be run alone here.")
        return None
    first = runner.decoder.first(max(1, runner.decoder.layers // EXIT_PART))
    return EarlyExit(Runner(first, runner.vocab_size), cache.peek)


def policy_of(name: str, costs: Costs, draft_tokens: int) -> Policy:
    """`auto` goes by measured costs; the others are there to be compared with it."""
    if name == "simple":
        return SimpleRule(draft_tokens)
    return FixedK(draft_tokens) if name == "fixed" else Planner(costs)
