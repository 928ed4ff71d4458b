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
_METHOD = re.compile(  # run(x: number): string {  of JavaScript and its kin
    rf"^(?P<indent>[ \t]+){_MODIFIERS}(?:get\s+|set\s+)?[*#]?(?P<name>[^\W\d]\w*)"
    r"(?:<[^>(]*>)?\s*\([^;]*$"
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
    around: list[tuple[int, int]] = []  # depth and index of the definitions that are open
    last = 0  # behind the last line that is not blank
    for at, line in enumerate(lines):
        stripped = line.strip()
        if not stripped:
            continue
        depth = _depth(line)
        while around and (around[-1][0] > depth or (around[-1][0] == depth and _opens(stripped))):
            _close(found, around.pop()[1], last)
        last = at + 1
        match = _match(line, family) if len(found) < MAX_DEFINITIONS else None
        if match is not None:
            owner = found[around[-1][1]].name if around else ""
            around.append((depth, len(found)))
            found.append(Definition(match["name"], at, at + 1, owner))
    for _, index in around:
        _close(found, index, last)
    return found


def _opens(stripped: str) -> bool:
    """Whether a line goes on with something new, as a closer or a lone brace does not."""
    return stripped[0] not in ")]}{" and stripped != "end"


def _close(found: list[Definition], index: int, last: int) -> None:
    found[index] = found[index]._replace(last=last)


def _match(line: str, family: str) -> re.Match[str] | None:
    if len(line) > 300 or not line.strip():
        return None
    match = _KEYWORD.match(line) or _ASSIGNED.match(line)
    if match is None and family in ("c", "java", "csharp", "dart", "php"):
        match = _TYPED.match(line)
    if match is None and family == "javascript" and line.rstrip().endswith("{"):
        match = _METHOD.match(line)
    return match if match and match["name"] not in _STATEMENTS and not _goes_out(line) else None


def _goes_out(line: str) -> bool:
    """Whether the line begins with a statement, which C's way to define looks like."""
    return line.split(None, 1)[0].rstrip("(") in _STATEMENTS


def _depth(line: str) -> int:
    blank = len(line) - len(line.lstrip())
    return len(line[:blank].expandtabs(4)) if "\t" in line[:blank] else blank


REACH = 40
"""Lines of a definition that say how deep its members stand."""


def outline(lines: list[str], definition: Definition, most: int) -> str:
    """The definition in `most` lines: whole if it fits, else what stands at the two upper levels.

    Of a class that is its fields and the first lines of its methods; of a function its head.
    """
    body = lines[definition.first : definition.last]
    if len(body) <= most:
        return "\n".join(body)
    base = _depth(body[0])
    depths = [_depth(line) for line in body[1:REACH] if line.strip()]
    inner = min((depth for depth in depths if depth > base), default=0)
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
