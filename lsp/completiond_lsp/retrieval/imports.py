"""Which files a text says it uses. Knows how languages import; finds files by their names only."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

MAX_IMPORTS = 64
"""Of one text, the first ones."""
MAX_SCANNED = 65_536
"""Characters from the beginning: imports stand there."""

PACKAGE_FILES = ("__init__", "index", "mod", "lib")
"""Files that stand for their folder."""

Named = Callable[[str], Sequence[str]]
"""From a file's name without endings to the paths of the files that are named so."""


class Import(NamedTuple):
    """`up` directories up from the file itself, or -1 for anywhere; then down along `parts`.

    `here` is how the names are called in the text, where that is something else.
    """

    parts: tuple[str, ...]
    names: tuple[str, ...] = ()
    up: int = -1
    here: tuple[str, ...] = ()

    def called(self, path: str) -> str:
        """The name that the text has for the file at `path`, which this import means; or none."""
        *folders, name = path.split("/")
        stem = name.split(".")[0]
        stem = folders[-1] if stem in PACKAGE_FILES and folders else stem
        if not self.names:
            return self.here[0] if self.here else stem
        return dict(zip(self.names, self.here or self.names, strict=False)).get(stem, "")


_PYTHON = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<dots>\.*+)(?P<module>[\w.]*+)[ \t]+import[ \t]*"
    r"(?:\((?P<many>[^)]*)\)|(?P<few>[^\n#]*))|import[ \t]+(?P<whole>[\w., \t]+))",
    re.MULTILINE,
)
_SCRIPT = re.compile(  # each step takes what it can and never less: such files may be anything
    r"\b(?:import|export)\s++(?:type\s++)?+"
    r"(?P<names>(?:[*{}\s,]++|(?!(?:import|export)\b)[\w$]++){1,2000}+)"
    r"['\"](?P<module>[^'\"\n]+)['\"]"
    r"|(?:import|require)\s*+\(?+\s*+['\"](?P<alone>[^'\"\n]+)['\"]"
)
_DOTTED = re.compile(
    r"^[ \t]*import[ \t]+(?:static[ \t]+)?(?P<path>[\w.]+)(?:\.\{(?P<names>[^}]*)\})?", re.MULTILINE
)
_RUST = re.compile(
    r"^[ \t]*(?:pub[ \t]+)?(?:use[ \t]+(?P<path>[\w:]+)(?:::\{(?P<names>[^;]*)\})?"
    r"|mod[ \t]+(?P<mod>\w+)[ \t]*;)",
    re.MULTILINE,
)
_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)[ \t]*[<\"](?P<path>[\w./+-]+)[>\"]", re.MULTILINE
)
_GO = re.compile(
    r"^[ \t]*(?:import[ \t]+)?(?:\w+[ \t]+)?\"(?P<path>[\w./-]+)\"[ \t]*$", re.MULTILINE
)
_QUOTED = re.compile(
    r"^[ \t]*(?:require(?:_relative|_once)?|include(?:_once)?|load|source|import|part)\b"
    r"[ \t(]*['\"](?P<path>[^'\"\n]+)['\"]",
    re.MULTILINE,
)


def imports(text: str, family: str) -> list[Import]:
    """What `text` imports, in its order; nothing for a language that is not known."""
    found = _READERS.get(family, _quoted)(text[:MAX_SCANNED])
    return list(islice((one for one in found if one.parts or one.up >= 0), MAX_IMPORTS))


def _python(text: str) -> Iterator[Import]:
    for found in _PYTHON.finditer(text):
        if found["whole"] is not None:
            for module in found["whole"].split(","):
                name, _, alias = module.strip().partition(" as ")
                if name:
                    here = (alias.strip(),) if alias else ()
                    yield Import(tuple(name.strip().split(".")), here=here)
            continue
        listed = found["many"] or found["few"] or ""
        pairs = re.findall(r"(\w+)(?:\s+as\s+(\w+))?", listed)
        parts = tuple(part for part in (found["module"] or "").split(".") if part)
        names = tuple(name for name, _ in pairs)
        here = tuple(alias or name for name, alias in pairs)
        yield Import(parts, names, len(found["dots"]) - 1 if found["dots"] else -1, here)


def _script(text: str) -> Iterator[Import]:
    for found in _SCRIPT.finditer(text):
        listed = (found["names"] or "from").rstrip()
        if listed.endswith("from"):
            names = tuple(re.findall(r"[\w$]+", listed.removesuffix("from")))
            yield _path(found["module"] or found["alone"], names, aliases=("@", "~", "src"))


def _path(path: str, names: tuple[str, ...] = (), *, aliases: Sequence[str] = ()) -> Import:
    """`./x` and `../x` from the file, anything else from anywhere."""
    steps = path.split("?")[0].split("/")
    up = -1
    while steps and steps[0] in (".", ".."):
        up = max(up, 0) + (steps[0] == "..")
        steps = steps[1:]
    if steps and steps[0] in aliases:
        steps = steps[1:]
    return Import(tuple(step for step in steps if step), names, up)


def _dotted(text: str) -> Iterator[Import]:
    for found in _DOTTED.finditer(text):
        names = tuple(re.findall(r"\w+", found["names"] or ""))
        parts = tuple(found["path"].strip(".").split("."))
        yield Import(parts, names or parts[-1:])
        if len(parts) > 2:
            yield Import(parts[:-1], parts[-1:])  # a member of a class


def _rust(text: str) -> Iterator[Import]:
    for found in _RUST.finditer(text):
        if found["mod"]:
            yield Import((found["mod"],), (), 0)
            continue
        parts = tuple(
            p for p in found["path"].split("::") if p not in ("crate", "self", "super", "")
        )
        names = tuple(re.findall(r"\w+", found["names"] or "")) or parts[-1:]
        yield Import(parts, names)
        yield Import(parts[:-1], names)


def _include(text: str) -> Iterator[Import]:
    for found in _INCLUDE.finditer(text):
        yield _path(found["path"])


def _go(text: str) -> Iterator[Import]:
    for found in _GO.finditer(text):
        yield Import(tuple(found["path"].split("/")[-2:]), ("*",))


def _quoted(text: str) -> Iterator[Import]:
    for found in _QUOTED.finditer(text):
        yield _path(found["path"])


_READERS: dict[str, Callable[[str], Iterator[Import]]] = {
    "python": _python,
    "javascript": _script,
    "java": _dotted,
    "kotlin": _dotted,
    "scala": _dotted,
    "rust": _rust,
    "c": _include,
    "go": _go,
}


def resolve(found: Iterable[Import], asking: str, named: Named) -> list[tuple[str, Import]]:
    """The workspace's files that are meant, each once, with the import that means it."""
    files: dict[str, Import] = {}
    for one in found:
        for path in _files(one, asking, named):
            if path != asking:
                files.setdefault(path, one)
    return list(files.items())


def _files(one: Import, asking: str, named: Named) -> Iterator[str]:
    here = asking.split("/")[:-1]
    if one.up > len(here):
        return
    base = here[: len(here) - one.up] if one.up > 0 else here
    for parts in _spellings(one):
        stem = parts[-1].split(".")[0]
        end = "/".join((*parts[:-1], stem))
        near = (path for path in named(stem) if end in path)  # few of a name that many files have
        hits = [path for path in near if _fits(path, parts, base if one.up >= 0 else None)]
        if hits:
            yield max(hits, key=lambda path: _shared(path, asking))


def _spellings(one: Import) -> Iterator[tuple[str, ...]]:
    """The module, what it holds if they are files of their own, and the package's own file."""
    for name in one.names[:8]:
        if name != "*":
            yield (*one.parts, name)
    if one.parts:
        yield one.parts
    for package in PACKAGE_FILES:
        if one.parts or one.up >= 0:
            yield (*one.parts, package)


def _fits(path: str, parts: tuple[str, ...], base: list[str] | None) -> bool:
    """Whether `path` without its ending is the import's path, from `base` or from anywhere."""
    steps = path.split("/")
    steps[-1] = steps[-1].split(".")[0]
    wanted = [*parts[:-1], parts[-1].split(".")[0]]
    if base is not None:
        return steps == base + wanted
    return steps[-len(wanted) :] == wanted and (len(wanted) > 1 or len(steps) <= 3)


def _shared(path: str, other: str) -> tuple[int, int]:
    """How many directories two paths have in common; of two such the shorter path is nearer."""
    same = 0
    for one, two in zip(path.split("/"), other.split("/"), strict=False):
        if one != two:
            break
        same += 1
    return same, -len(path)
