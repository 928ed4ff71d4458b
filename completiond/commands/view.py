"""A completion as a person reads it: the text in place, then what it cost. Pure; prints nothing."""

from rich.text import Text

from completiond.commands.place import Place
from completiond.protocol import messages as m

LINES = 4
"""Lines shown before and after the completion."""
WIDTH = 160
"""Characters of one shown line on each side of the cursor."""
ADDED = "bold green"


def in_place(place: Place, text: str, *, colour: bool) -> Text:
    """The lines around the cursor with `text` in them; without colour it stands in ⟦ ⟧."""
    before = _lines(place.text[: place.cursor][-LINES * WIDTH * 4 :])[-LINES - 1 :]
    after = _lines(place.text[place.cursor :][: LINES * WIDTH * 4])[: LINES + 1]
    added = (text if colour else f"⟦{text}⟧").split("\n")
    first = place.line - len(before) + 1
    shown = Text()
    for number, line in enumerate(before[:-1], first):
        _row(shown, str(number), (_cut(line), "dim"))
    head, tail = (before[-1][-WIDTH:], "dim"), (_cut(after[0]), "dim")
    for index, line in enumerate(added):
        parts = [head] if index == 0 else []
        parts.append((line, ADDED))
        parts += [tail] if index == len(added) - 1 else []
        _row(shown, str(place.line + index) if index == 0 else "+", *parts)
    for number, line in enumerate(after[1:], place.line + 1):
        _row(shown, str(number), (_cut(line), "dim"))
    shown.rstrip()
    return shown


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def _row(shown: Text, number: str, *parts: tuple[str, str]) -> None:
    shown.append(f"{number:>5} │ ", "dim")
    for text, style in parts:
        shown.append(_visible(text), style)
    shown.append("\n")


def _visible(text: str) -> str:
    """A file may hold what a terminal would obey; show such characters instead."""
    return "".join(c if c == "\t" or c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def account(answer: m.Completion, source: str) -> str:
    """One paragraph: tokens, times, how the drafts fared, and who computed it."""
    tokens, times = answer.tokens, answer.timings_ms
    lines = []
    if answer.reason != "ok":
        lines.append(_nothing(answer))
    if tokens:
        lines.append(
            f"{tokens['generated']} tokens in {times['total']:.0f} ms: "
            f"prompt {times['prompt']:.0f} ms, prefill {times['prefill']:.0f} ms "
            f"({tokens['prefilled']} tokens, {tokens['reused']} reused), "
            f"decode {times['decode']:.0f} ms; {tokens['passes']} passes in all"
        )
        lines.append(_drafts(answer))
    return "\n".join([*lines, source])


def _nothing(answer: m.Completion) -> str:
    why = f" ({answer.why})" if answer.why else ""
    return (
        _NOTHING.get(answer.reason, f"Nothing to show ({answer.reason}).").rstrip(".") + why + "."
    )


_NOTHING = {
    "empty": "The model has nothing to add here.",
    "timeout": "The time was up before the answer was complete.",
    "zero_limit": "No tokens were asked for.",
}


def _drafts(answer: m.Completion) -> str:
    if not answer.drafted:
        return "no drafts were tried"
    accepted, drafted = sum(answer.accepted.values()), sum(answer.drafted.values())
    each = ", ".join(
        f"{source} {answer.accepted.get(source, 0)} of {count}"
        for source, count in sorted(answer.drafted.items())
    )
    return f"drafts: {accepted} of {drafted} tokens accepted ({each})"
