"""What a request of the page asks for: its query becomes a Filter, or one sentence. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from completiond.errors import RequestError
from completiond.record.rows import EVERYTHING, GROUP, Filter
from completiond.record.tallies import MEASURED

TEXTS = (*GROUP, "path")
NUMBERS = ("last_s", "since_ms", "until_ms", "many")
LONGEST_TEXT = 400
LARGEST = EVERYTHING.until_ms
MANY, MOST = 60, 1_000
"""Keys that are told, and at most."""
MOST_EXPORTED = 100_000


@dataclass(frozen=True, slots=True)
class Asked:
    only: Filter = field(default_factory=Filter)
    stage: str = "total"
    many: int = MANY
    form: str = ""


def asked(query: Mapping[str, str], now_ms: int, most: int = MOST) -> Asked:
    """`last_s` counts back from now. Raises RequestError."""
    unknown = sorted(set(query) - {*TEXTS, *NUMBERS, "stage", "form"})
    if unknown:
        raise RequestError(f"There is no filter {unknown[0][:LONGEST_TEXT]!r}.")
    numbers = {name: _number(name, query[name]) for name in NUMBERS if query.get(name)}
    since = numbers.get("since_ms", 0)
    if numbers.get("last_s"):
        since = max(since, now_ms - numbers["last_s"] * 1000)
    until = numbers.get("until_ms", LARGEST)
    if since > until:
        raise RequestError("The filter's time ends before it begins; turn it round.")
    texts = {name: _text(name, query[name]) for name in TEXTS if query.get(name)}
    stage = query.get("stage", "total")
    if stage not in MEASURED:
        raise RequestError(f"There is no stage {stage[:LONGEST_TEXT]!r}.")
    many = min(most, max(1, numbers.get("many", MANY)))
    return Asked(Filter(max(0, since), until, **texts), stage, many, query.get("form", ""))


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST))):
        raise RequestError(f"The filter {name} must be a whole number from 0 to {LARGEST}.")
    return min(int(text), LARGEST)


def _text(name: str, text: str) -> str:
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise RequestError(f"The filter {name} is no name.")
    return text
