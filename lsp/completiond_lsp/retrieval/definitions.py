"""Which names a text defines, and where. Knows lines, indentation and a few keywords.

For languages with a grammar at hand grammars.py finds the same more exactly; this works for the
others, and for a language that nobody knows.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
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
_TYPED = re.compile(  # int main(void) {  of C and its kin; modifiers are words like the type's own
    r"^(?P<indent>[ \t]*)(?:extern\s+\"C\"\s+)?[^\W\d][\w:<>,*&\[\].\s]*[\s*&]"
    r"(?P<name>[^\W\d]\w*)\s*\([^;]*$"
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
        depth, name, opens = _look(line, family) if len(line) <= 300 else _LONG
        if depth < 0:
            continue
        while around and (around[-1][0] > depth or (around[-1][0] == depth and opens)):
            _close(found, around.pop()[1], last)
        last = at + 1
        if name and len(found) < MAX_DEFINITIONS:
            owner = found[around[-1][1]].name if around else ""
            around.append((depth, len(found)))
            found.append(Definition(name, at, at + 1, owner))
    for _, index in around:
        _close(found, index, last)
    return found


_LONG = (1_000, "", False)
"""A line that is data: it defines nothing and ends nothing."""


@lru_cache(maxsize=16_384)
def _look(line: str, family: str) -> tuple[int, str, bool]:
    """How deep a line stands (-1: it is blank), what it defines, whether it begins something.

    Kept, because a text that is edited is looked at again with all but a line of it as it was.
    """
    stripped = line.strip()
    if not stripped:
        return -1, "", False
    match = _match(line, family)
    return _depth(line), match["name"] if match else "", _opens(stripped)


def _opens(stripped: str) -> bool:
    """Whether a line goes on with something new, as a closer or a lone brace does not."""
    return stripped[0] not in ")]}{" and stripped != "end"


def _close(found: list[Definition], index: int, last: int) -> None:
    found[index] = found[index]._replace(last=last)


def _match(line: str, family: str) -> re.Match[str] | None:
    match = _KEYWORD.match(line)
    if match is None and line[0] not in " \t":
        match = _ASSIGNED.match(line)
    if match is None and family in ("c", "java", "csharp", "dart", "php"):
        match = _TYPED.match(line)
    if match is None and family == "javascript" and line.rstrip().endswith("{"):
        match = _METHOD.match(line)
    return match if match and match["name"] not in _STATEMENTS and not _goes_out(line) else None


def _goes_out(line: str) -> bool:
    """Whether the line begins with a statement, which C's way to define looks like."""
    return line.split(None, 1)[0].rstrip("(") in _STATEMENTS


def _depth(line: str) -> int:
    stripped = line.lstrip(" ")
    if stripped[:1] != "\t":
        return len(line) - len(stripped)
    return len(line[: len(line) - len(line.lstrip())].expandtabs(4))


REACH = 40
"""Lines of a definition that say how deep its members stand."""
_NAME = re.compile(r"[^\W\d]\w*")
LONGEST = 1_000
"""Lines of a definition that are looked at."""
_COMMENT = re.compile(r"(?://|#\s|/?\*|--\s)")
_ATTRIBUTE = re.compile(r"\s*(?:self|this)\.(?P<name>[^\W\d]\w*)[ \t]*(?::[^=]{1,60})?=(?!=)")
_PRIVATE = re.compile(r"[^(=:]*\b_\w*\s*[(=:<]|\s*[@#]")
_PASSES_ON = re.compile(r"\s*(?:from|import|export|pub use|pub mod)\b")
_QUOTES = ('"""', "'''")
ATTRIBUTE = 64
"""Characters of a line that sets one."""
WHOLE = 14
"""Lines of a type that is shown as it is."""


def outline(lines: list[str], definition: Definition, most: int) -> str:
    """The definition in `most` lines: whole if it fits, else what stands at the two upper levels.

    Of a class that is its fields and the first lines of its methods; of a function its head.
    """
    body = lines[definition.first : definition.last]
    if len(body) <= most:
        return "\n".join(body)
    return "\n".join(islice((line for line, upper in _levels(body) if upper), most))


def members(lines: list[str], definition: Definition, most: int) -> str:
    """What can follow a name of this type and a dot, in `most` characters: fields, heads of methods
    and what a constructor sets; of too much the private and the attributes go first."""
    body = lines[definition.first : definition.last]
    upper, attributes = _upper(body)
    for kept in (
        body if len(body) <= WHOLE else upper + attributes,
        upper + attributes,
        _public(upper) + attributes,
        _public(upper),
    ):
        if sum(map(len, kept)) + len(kept) <= most:
            return "\n".join(kept)
    return _cut(_public(upper), most)


def _upper(body: list[str]) -> tuple[list[str], list[str]]:
    """The lines of the two upper levels without comments, and the attributes that are set below."""
    kept: list[str] = []
    attributes: dict[str, str] = {}
    for line, upper in _levels(body):
        if upper:
            kept.append(line)
        elif "=" in line and (attribute := _ATTRIBUTE.match(line)) is not None:
            attributes.setdefault(attribute["name"], line[:ATTRIBUTE])
    said = set(_NAME.findall("\n".join(kept)))
    return kept, [line for name, line in attributes.items() if name not in said]


def _levels(body: list[str]) -> Iterator[tuple[str, bool]]:
    """The lines that are no comments, and whether each is of the two upper levels."""
    base = _depth(body[0])
    depths = [_depth(line) for line in body[1:REACH] if line.strip()]
    inner = min((depth for depth in depths if depth > base), default=0)
    below = " " * (inner + 1)
    goes_on = False  # the last upper line opened a list of parameters that is not closed yet
    for line in _unquoted(body[:LONGEST]):
        if not goes_on and (line.startswith(below) or _depth(line) > inner):
            yield line, False
            continue
        stripped = line.strip()
        if stripped and not stripped.startswith(_QUOTES) and not _COMMENT.match(stripped):
            yield line, True
            goes_on = stripped.endswith(("(", ","))


def _unquoted(body: Sequence[str]) -> Iterator[str]:
    """The lines without those inside a text of several lines, which may stand at any depth."""
    text = "\n".join(body)
    if not any(mark in text for mark in _QUOTES):
        yield from body
        return
    quoted = ""
    for line in body:
        if quoted:
            quoted = "" if line.count(quoted) % 2 else quoted
            continue
        if '"""' in line or "'''" in line:
            quoted = next((mark for mark in _QUOTES if line.count(mark) % 2), "")
        yield line


def _public(kept: list[str]) -> list[str]:
    return kept[:1] + [line for line in kept[1:] if not _PRIVATE.match(line)]


def _cut(kept: list[str], most: int) -> str:
    text = "\n".join(kept)
    return text if len(text) <= most else text[:most].rpartition("\n")[0]


def heads(lines: list[str], found: Iterable[Definition], most: int) -> str:
    """What a whole file offers, in `most` characters: the first lines of what it defines."""
    kept: list[str] = []
    for one in found:
        if one.owner or one.name.startswith("_"):
            continue
        body = lines[one.first : one.last]
        at = next((i for i, line in enumerate(body) if one.name in line), 0)  # behind decorators
        head = body[at : at + 1]
        while head[-1].rstrip().endswith(("(", ",")) and len(head) < len(body) - at:
            head.append(body[at + len(head)])
        kept += head
    return _cut(kept, most)


def importing(lines: list[str], most: int) -> str:
    """The lines by which a file that defines nothing passes on what others define."""
    return _cut([line for line in lines if _PASSES_ON.match(line)], most)
