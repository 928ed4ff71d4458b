"""Which names a text defines, and where. Knows lines, indentation and a few keywords.

For languages with a grammar at hand grammars.py finds the same more exactly; this works for the
others, and for a language that nobody knows.
"""

import re
from typing import NamedTuple

MAX_DEFINITIONS = 2_000
"""Of one text; more are generated."""

_MODIFIERS = (
    r"(?:(?:export|default|declare|pub(?:\([^)]*\))?|public|private|protected|internal|static|final"
    r"|abstract|async|unsafe|const|extern(?:\s+\"C\")?|virtual|inline|override|sealed|partial|data"
    r"|open|local|readonly|synchronized|native|suspend)\s+)*"
)
_KEYWORDS = (
    r"def|class|function\*?|func|fn|fun|interface|struct|enum|trait|impl|type|module|mod|namespace"
    r"|record|object|protocol|extension|macro|sub|proc|data|newtype|defmodule|defp?|union|typedef"
)
_KEYWORD = re.compile(
    rf"^(?P<indent>[ \t]*){_MODIFIERS}(?:{_KEYWORDS})\s+(?:\([^)]*\)\s*)?(?:self\.)?"
    r"(?P<name>[^\W\d]\w*)"
)
_ASSIGNED = re.compile(
    r"^(?P<indent>)(?:export\s+)?(?:(?:const|let|var|val|static|final)\s+)?(?:mut\s+)?"
    r"(?P<name>[^\W\d]\w*)\s*(?::[^=]{1,60})?=(?!=)"
)
_TYPED = re.compile(  # int main(void) {  of C and its kin
    rf"^(?P<indent>[ \t]*){_MODIFIERS}[^\W\d][\w:<>,*&\[\]. ]*[\s*&](?P<name>[^\W\d]\w*)\s*\([^;]*$"
)
_STATEMENTS = frozenset("if for while switch return else catch elif with when unless match".split())


class Definition(NamedTuple):
    """`name` is defined by lines [first, last); `owner` is the definition around it."""

    name: str
    first: int
    last: int
    owner: str = ""


def by_lines(text: str, family: str) -> list[Definition]:
    """Definitions by the look of their first lines; they end where the indentation does."""
    lines = text.split("\n")
    found: list[Definition] = []
    stack: list[tuple[int, str]] = []
    for at, line in enumerate(lines):
        match = _match(line, family)
        if match is None or len(found) >= MAX_DEFINITIONS:
            continue
        depth = len(match["indent"].expandtabs(4))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        owner = stack[-1][1] if stack else ""
        found.append(Definition(match["name"], at, _end(lines, at, depth), owner))
        stack.append((depth, match["name"]))
    return found


def _match(line: str, family: str) -> re.Match[str] | None:
    if len(line) > 300 or not line.strip():
        return None
    match = _KEYWORD.match(line) or _ASSIGNED.match(line)
    if match is None and family in ("c", "java", "csharp", "dart", "php"):
        match = _TYPED.match(line)
    first = line.split(None, 1)[0].rstrip("(")
    return match if match and first not in _STATEMENTS else None


def _end(lines: list[str], first: int, depth: int) -> int:
    """Behind the last line that belongs to the definition: deeper lines, and one that closes."""
    last = first + 1
    for at in range(first + 1, min(len(lines), first + 400)):
        line = lines[at]
        stripped = line.strip()
        if not stripped:
            continue
        if _depth(line) > depth:
            last = at + 1
        elif stripped[0] in ")]}" or (stripped == "{" and at == first + 1):
            last = at + 1
            if stripped[0] == "}":
                break
        elif stripped == "end":
            return at + 1
        else:
            break
    return last


def _depth(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


def outline(lines: list[str], definition: Definition, most: int) -> str:
    """The definition in `most` lines: whole if it fits, else what stands at the two upper levels.

    Of a class that is its fields and the first lines of its methods; of a function its head.
    """
    body = lines[definition.first : definition.last]
    if len(body) <= most:
        return "\n".join(body)
    base = _depth(body[0])
    inner = min(
        (_depth(line) for line in body[1:] if line.strip() and _depth(line) > base), default=0
    )
    kept: list[str] = []
    quoted = ""  # inside a text of several lines, which may stand at any depth
    for line in body:
        marks = [mark for mark in ('"""', "'''") if line.count(mark) % 2]
        if quoted:
            quoted = "" if quoted in marks else quoted
            continue
        quoted = marks[0] if marks else ""
        if line.strip() and (_depth(line) <= inner or _goes_on(kept)):
            kept.append(line)
        if len(kept) >= most:
            break
    return "\n".join(kept)


def _goes_on(kept: list[str]) -> bool:
    """Whether the last line kept opened a list of parameters that is not closed yet."""
    return bool(kept) and (kept[-1].rstrip().endswith(("(", ",")))
