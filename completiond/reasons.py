"""Why a request showed something, or nothing, in plain words. Knows the reasons of the wire."""

from typing import Any

from completiond.protocol import messages as m

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
    "switched_off": "Suggestions are switched off (the setting `enabled`).",
    "language_off": "Suggestions are off for this language (the setting `disabledLanguages`).",
    "secret_file": "The file keeps secrets by its name; nothing of it is sent to the daemon.",
    "several_cursors": "There are several cursors; an answer would be meant for one of them only.",
    "not_open": "The editor has not opened this document at the language server.",
    "outdated": "The text has changed since it was asked.",
    "no_daemon": "No daemon answered; start one with `completiond serve`.",
    "loading": "The model was still being loaded.",
    "overloaded": "The daemon had no room for it.",
    "engine_died": "The engine ended in the middle of it; it is started again.",
}
REFUSED = frozenset(
    ("switched_off", "language_off", "secret_file", "several_cursors", "not_open", "outdated")
)
"""Of those, what a client says by itself: the daemon was not asked."""
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


def plainly(reason: str, why: str = "") -> str:
    """One sentence for the reason of a reply and what more is known of it."""
    return _WHY.get(why or reason, reason)


def sentences(found: m.Why) -> list[str]:
    """The outcome as a person reads it."""
    facts = found.facts
    name = f"Request {facts['request']}" if facts["request"] else "A key that asked nobody"
    lines = [
        f"{name}, {facts['trigger']}, {facts['ago_s']:.0f} s ago: "
        f"{facts['path']} ({facts['language'] or 'no language'}), character {facts['position']}.",
        facts.get("message") or plainly(facts["reason"], facts["why"]),
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
