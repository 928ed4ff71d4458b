"""What stands in front of the dots near a cursor, and of which types that is.

Told by how values are made, annotated and declared in the languages that people write; knows lines
and names, reads no files. What a name is of is a guess: a wrong one costs a place, not an answer.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from completiond_lsp.retrieval.sources import Question

NEAR = (30, 4)
"""Lines before and after the cursor in which receivers are looked for."""
FADES = 8.0
"""Lines after which one counts half."""
MOST = 64
"""Receivers that are looked for, the weightiest: in a text of dots alone there are thousands."""
PLACES = 512
"""Of one name in a text, at which it may get a type."""
OURSELVES = ("self", "this", "super", "cls", "Self")

_RECEIVER = re.compile(
    r"(?P<name>[^\W\d]\w*+)(?:\[[^\[\]\n]{0,40}\]|\([^()\n]{0,80}\))?!?\s{0,8}(?:\?\.|\.|->|::)"
)
_MADE = re.compile(  # x = Thing(…), x := pkg.NewThing(…), let x: T = Thing::new(…)
    r"[ \t]*(?::[^=\n(){}]{1,60})?:?=[ \t]*(?:await[ \t]+|new[ \t]+|[&*])*"
    r"(?P<type>[^\W\d][\w.:]{0,80})(?:[\[<][^\]>\n]{0,80}[\]>])?[ \t]*[({]"
)
_ANNOTATED = re.compile(  # x: Thing, x: Optional["Thing"], x?: Thing[], x: &mut Thing
    r"\??[ \t]*:[ \t]*"
    r"(?P<type>[&*\"']?(?:mut[ \t]+)?[^\W\d][\w.:\[\]<>, |\"']{0,80})"
)
_DECLARED = re.compile(  # Thing x = …, struct thing *x, final Thing<K> x;
    r"(?P<type>\b(?:struct[ \t]+\w+|[A-Z]\w*|\w+_t))(?:<[^<>\n]{0,80}>)?[ \t*&]+\Z"
)
BEFORE = 160
"""Characters in front of a name in which its declaration begins."""
_CLASS = re.compile(
    r"^[ \t]*(?:[\w@]+[ \t]+)*(?:class|struct|interface|impl|trait|object|extension)\b(?P<rest>.*)"
)
_WORD = re.compile(r"[^\W\d]\w*")
_NEW = re.compile(r"^(?:[Nn]ew|[Mm]ake|[Cc]reate|[Oo]pen|[Gg]et)_?(?=[A-Z])")


class Receiver(NamedTuple):
    """How much a name in front of a dot counts, and whether it is behind one: an attribute, which a
    class may have from its parents."""

    weight: float
    attribute: bool


def receivers(question: Question) -> dict[str, Receiver]:
    """The names in front of dots near the cursor: the nearer the more they count."""
    lines = question.text.split("\n")
    first = max(0, question.line - NEAR[0])
    found: dict[str, Receiver] = {}
    for at, line in enumerate(lines[first : question.line + 1 + NEAR[1]], first):
        distance = question.line - at if at <= question.line else 2 * (at - question.line)
        weight = 1.0 / (1.0 + distance / FADES)
        for match in _RECEIVER.finditer(line[:1_000]):
            known = found.get(match["name"], Receiver(0.0, False))
            attribute = known.attribute or line[match.start() - 1 : match.start()] in (".", ">")
            found[match["name"]] = Receiver(max(known.weight, weight), attribute)
    return dict(sorted(found.items(), key=_by_weight)[:MOST])


def _by_weight(found: tuple[str, Receiver]) -> float:
    return -found[1].weight


def bases(lines: Sequence[str], name: str = "") -> set[str]:
    """What the class around the last of these lines is made of, by its head; `name`: of the class
    that the lines begin with."""
    depth = 1_000
    for line in lines if name else reversed(lines):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent < depth and (head := _CLASS.match(line)):
            return {word for word in _WORD.findall(head["rest"]) if _is_type(word)} - {name}
        if line.strip() and not name:
            depth = min(depth, indent)
        if not depth:
            break
    return set()


def typed(text: str, names: Iterable[str]) -> dict[str, set[str]]:
    """Of which types these names may be, by what they are made of and declared as in `text`."""
    found: dict[str, set[str]] = {}
    for name in names:
        places = islice(_places(text, name), PLACES)
        types = {one for start, end in places for one in _types_at(text, start, end)}
        if types:
            found[name] = types
    return found


def _places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where the name stands as a word of its own that may get a type there: most places are told
    apart by the characters around them."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, behind = text[start - 1 : start], text[end : end + 1]
        if (behind in _GOES_ON or before in _DECLARED_BEHIND) and not (
            _in_word(before) or _in_word(behind)
        ):
            yield start, end
        start = text.find(name, end)


def _in_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _types_at(text: str, start: int, end: int) -> Iterator[str]:
    """The types that the name in [start, end) has, if it gets one there."""
    if text[end : end + 1] in _GOES_ON:
        if made := _MADE.match(text, end):
            yield from _types(made["type"], made=True)
        if annotated := _ANNOTATED.match(text, end):
            yield from _types(annotated["type"], made=False)
    if text[start - 1 : start] in _DECLARED_BEHIND:
        line = max(text.rfind("\n", 0, start) + 1, start - BEFORE)
        front = text[line:start]
        if _may_declare(front) and (declared := _DECLARED.search(front)):
            yield from _types(declared["type"], made=False)


_GOES_ON = (" ", "\t", ":", "=", "?")
_DECLARED_BEHIND = (" ", "*", "&", "\t")


def _may_declare(before: str) -> bool:
    """Whether the last word may be a type: a search for one in all that stands before is slow."""
    last = before.rstrip(" \t*&").rpartition(" ")[2]
    return last.endswith((">", "_t")) or not last.islower()


def _types(spelled: str, *, made: bool) -> Iterator[str]:
    """The types in an annotation; of a call what it makes, by its own name or its type's."""
    words = _WORD.findall(spelled)
    for word in words:
        if _is_type(word):
            yield word
            if made and _NEW.match(word):
                yield _NEW.sub("", word)
    if made and words:
        yield words[-1]
        if (bare := _NEW.sub("", words[-1])) != words[-1]:
            yield bare


def _is_type(word: str) -> bool:
    return word[0].isupper() or word.endswith("_t")
