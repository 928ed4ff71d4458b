"""The body of a request as OpenAI's text completions have it: checked, or one sentence.

What would change the answer and is not done here is refused; what would not (`user`) is ignored.
"""

import json
from dataclasses import dataclass
from typing import Any

from completiond.core import Sampling
from completiond.errors import RequestError
from completiond.prompt.tokenizer import without_surrogates

MAX_STOPS = 64
MAX_STOP = 256
"""Characters of one stop text."""
SEEDS = 1 << 63
NOT_DONE: dict[str, tuple[Any, ...]] = {
    "suffix": (None, ""),
    "echo": (None, False),
    "n": (None, 1),
    "best_of": (None, 1),
    "logprobs": (None,),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "frequency_penalty": (None, 0),
}
"""Fields whose other values are refused."""


@dataclass(frozen=True, slots=True)
class Asked:
    """`max_tokens` None: the daemon's own limit."""

    prompt: str
    model: str = ""
    max_tokens: int | None = None
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    stream: bool = False


def asked(body: bytes) -> Asked:
    """What a request asks for. Raises RequestError that names the field."""
    given = _parsed(body)
    for name, allowed in NOT_DONE.items():
        if not any(given.get(name) is one or given.get(name) == one for one in allowed):
            raise RequestError(f"`{name}` is not supported here; leave it out.")
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise RequestError("`prompt` must be one text that is not empty.")
    return Asked(
        without_surrogates(prompt),  # JSON can spell half a character; nothing behind here can
        model=_typed(given, "model", str, ""),
        max_tokens=_whole(given, "max_tokens", 1, 1 << 31),
        sampling=Sampling(
            temperature=_number(given, "temperature", 0.0, 2.0),
            top_p=_number(given, "top_p", 1.0, 1.0),
            seed=_whole(given, "seed", -SEEDS, SEEDS) or 0,
        ),
        stop=_stops(given.get("stop")),
        stream=_typed(given, "stream", bool, False),
    )


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise RequestError("The body is not JSON; send one object.") from exc
    if not isinstance(given, dict):
        raise RequestError("The body must be one JSON object.")
    return given


def _typed(given: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = given.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        names = {str: "a text", bool: "true or false", int: "a whole number"}
        raise RequestError(f"`{name}` must be {names[kind]}.")
    return value


def _whole(given: dict[str, Any], name: str, low: int, high: int) -> int | None:
    value: int | None = _typed(given, name, int, None)
    if value is not None and not low <= value < high:
        raise RequestError(f"`{name}` is out of range.")
    return value


def _number(given: dict[str, Any], name: str, default: float, high: float) -> float:
    value = given.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high:
        raise RequestError(f"`{name}` must be a number from 0 to {high:g}.")
    return float(value)


def _stops(value: Any) -> tuple[str, ...]:
    texts = [] if value is None else [value] if isinstance(value, str) else value
    fits = isinstance(texts, list) and len(texts) <= MAX_STOPS
    if not fits or not all(isinstance(text, str) and len(text) <= MAX_STOP for text in texts):
        raise RequestError(
            f"`stop` must be a text or up to {MAX_STOPS} of them, of {MAX_STOP} characters at most."
        )
    return tuple(without_surrogates(text) for text in texts if text)
