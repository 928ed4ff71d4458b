"""`completiond why`: what became of a request, in plain words with the numbers."""

import asyncio
import json
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from completiond.commands import options
from completiond.commands.daemon_client import connected
from completiond.config import Config
from completiond.errors import NoDaemon, RequestError
from completiond.protocol import messages as m
from completiond.record import place, queries
from completiond.record.facts import facts_of, in_words
from completiond.record.queries import reading
from completiond.record.wall import now_ms

ANSWER_S = 5.0

_WHY = {
    "ok": "An answer was shown.",
    "blank": "The model wrote nothing but white space.",
    "sentinel": "The model wrote a control token instead of text.",
    "repeats_line": "The answer only said again what stands left of the cursor.",
    "repeats_suffix": "The answer only said what stands right of the cursor already.",
    "repeats_next_lines": "The answer only said what the lines below say already.",
    "repeats_above": "The answer was the block above the cursor over again.",
    "closes_too_much": "The answer only closed brackets that are closed already.",
    "repetition": "The answer was a loop.",
    "too_short": "The answer was shorter than completion.min_chars; asked for by hand it is shown.",
    "unfinished": "The run ended before it had spelled the word that was being typed.",
    "short_document": "The document has too little text to go on; ask by hand to try it.",
    "mid_word": "The cursor is inside a word; ask by hand for an answer there.",
    "mid_line": "Text follows on the cursor's line; ask by hand for an answer there.",
    "statement_end": "The statement is complete, only a new line can follow; ask by hand.",
    "superseded": "A newer request of the same buffer took its place.",
    "abandoned": "The editor cancelled it.",
    "timeout": "The time was up before there was a whole line (completion.max_ms).",
    "zero_limit": "It asked for no tokens.",
}
_RULES = {
    "sentinel": "a control token's name and what came behind it",
    "indent": "blanks that the file has as tabs, or the other way round",
    "double": "blanks that stand before the cursor already",
    "echo": "the beginning of the line over again",
    "overlap": "the rest of the line, which stands there already",
    "bracket": "a bracket that is closed already, and what came behind it",
    "snip": "the end of a block that the line below ends",
    "below": "lines that stand below already",
    "similar": "lines that stand below but for their white space",
    "above": "the block above over again",
    "repetition": "a loop",
    "least": "all of it, as it is too short",
}


def why(
    request: Annotated[str, typer.Argument(metavar="ID|last", help="A request's id, or `last`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    endpoint: options.Endpoint = None,
    insecure_loopback: options.InsecureLoopback = None,
    config: options.ConfigFile = None,
) -> None:
    """Say why a recent request showed something, or nothing. Exit code 1 if it is not known."""
    settings = options.settings(
        config, serve__endpoint=endpoint, serve__insecure_loopback=insecure_loopback
    )
    found = _find(settings, _number(request))
    if not found.facts:
        raise RequestError(_unknown(request))
    text = [*sentences(found), *in_words(found.facts)]
    typer.echo(json.dumps(asdict(found)) if as_json else "\n".join(text))


def _unknown(request: str) -> str:
    if request == "last":
        return "Nothing has been asked yet; ask for a completion first."
    return f"Nobody remembers request {request}, and it is not in the record."


def _number(request: str) -> int:
    if request == "last":
        return 0
    if not request.isdecimal() or not int(request):
        raise RequestError(f"{request!r} is no request; give its number, or `last`.")
    return int(request)


def _find(config: Config, request: int) -> m.Why:
    """From the daemon's memory, else from the record. Raises NoDaemon if neither has it."""
    found, trouble = m.Why(0), None
    try:
        found = asyncio.run(_ask(config, request))
    except NoDaemon as exc:
        trouble = exc
    if not found.facts:
        found = replace(found, facts=_recorded(request))
    if trouble is not None and not found.facts:
        raise trouble
    return found


def _recorded(request: int) -> dict[str, Any]:
    """What the record says of it; {} if it is not there."""
    store = place.newest(place.directory())
    if store is None:
        return {}
    with reading(store) as db:
        key = queries.of_request(db, request)
        if key is None:
            return {}
        return facts_of(key, queries.drafts(db, key.key), now_ms())


async def _ask(config: Config, request: int) -> m.Why:
    async with connected(config) as client:
        return await client.why(request, timeout=ANSWER_S)


def sentences(found: m.Why) -> list[str]:
    """The outcome as a person reads it."""
    facts = found.facts
    lines = [
        f"Request {facts['request']}, {facts['trigger']}, {facts['ago_s']:.0f} s ago: "
        f"{facts['path']} ({facts['language'] or 'no language'}), character {facts['position']}.",
        facts.get("message") or _WHY.get(facts["why"] or facts["reason"], facts["reason"]),
    ]
    if facts.get("characters"):
        lengths = ", ".join(
            f"{n} characters (ended by {ended})"
            for n, ended in zip(facts["characters"], facts["ended"], strict=True)
        )
        lines.append(f"Shown: {lengths}.")
    lines += [
        f"Taken away: {count} characters, {_RULES.get(rule, rule)}."
        for rule, count in facts.get("removed", {}).items()
    ]
    lines.append(_cost(facts))
    if not found.recent:
        return lines
    others = ", ".join(f"{name} {count}" for name, count in sorted(found.recent.items()))
    return [*lines, f"The latest requests: {others}."]


def _cost(facts: dict[str, Any]) -> str:
    tokens = facts.get("tokens") or {}
    total = f"It took {facts['total_ms']:.0f} ms"
    if not tokens.get("passes"):
        return f"{total}, without a pass."
    return (
        f"{total}: {tokens['generated']} tokens in {tokens['passes']} passes, "
        f"{tokens['prefilled']} of {tokens['prompt']} prompt tokens computed."
    )
