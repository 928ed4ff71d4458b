"""Typing traces: read, checked by replaying them, cut; and what the person goes on to type.

A trace is a text and events that edit it, with times. Offsets are code points. Typed keys are what
one key press makes: a character, a line end with its indentation, a pair that the editor closed by
itself, a closer typed over. Other events are applied and counted for nothing.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from completiond.errors import RequestError

DATA = Path(__file__).resolve().parents[2] / "shared/data"
FOLDERS = (DATA / "traces_dev", DATA / "traces_real_dev")

PAIRS = ("()", "[]", "{}", "''", '""', "``")
NOT_TYPED = ("move", "accept", "snippet", "format", "paste-like", "open", "indent")
LONGEST_RUN = 400
"""Characters that one looks ahead: longer than any suggestion's first line."""
MOST_STEPS = 800

_INDENTED_END = re.compile(r"\r?\n[ \t]*")


class Opened(NamedTuple):
    """A document as it is when the trace first has it."""

    path: str
    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One event: `delete` at `offset` gives way to `insert`; the cursor is then at `cursor`."""

    at_s: float
    document: str
    offset: int
    delete: str
    insert: str
    cursor: int
    typed: bool
    opened: Opened | None = None

    @property
    def edits(self) -> bool:
        return bool(self.delete or self.insert)


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    documents: dict[str, Opened]
    steps: tuple[Step, ...]
    recorded: bool = False

    @property
    def keys(self) -> int:
        return sum(step.typed for step in self.steps)


@dataclass(slots=True)
class Moment:
    """A document between two steps. `version` counts its edits."""

    document: str
    path: str
    language: str
    text: str
    cursor: int = 0
    version: int = 1


@dataclass(slots=True)
class Desk:
    """The documents of a trace on the way through it."""

    moments: dict[str, Moment] = field(default_factory=dict)

    def open(self, name: str, opened: Opened) -> Moment:
        moment = self.moments[name] = Moment(name, opened.path, opened.language, opened.text)
        return moment

    def apply(self, step: Step) -> Moment:
        """The document behind the step, as a value of its own: the one before stays as it was."""
        if step.opened is not None:
            return self.open(step.document, step.opened)
        old = self.moments[step.document]
        end = step.offset + len(step.delete)
        text = old.text[: step.offset] + step.insert + old.text[end:] if step.edits else old.text
        moment = Moment(
            old.document, old.path, old.language, text, step.cursor, old.version + step.edits
        )
        self.moments[step.document] = moment
        return moment


def desk(trace: Trace) -> Desk:
    start = Desk()
    for name, opened in trace.documents.items():
        start.open(name, opened)
    return start


# -- reading --------------------------------------------------------------------------------------


def find(pattern: str, folders: Sequence[Path]) -> list[Path]:
    """The traces of these folders whose name matches, in a fixed order. Raises RequestError."""
    found = [
        path
        for folder in folders
        for path in sorted(folder.glob(pattern))
        if path.suffix == ".json" and path.name != "index.json"
    ]
    if not found:
        where = ", ".join(map(str, folders))
        raise RequestError(f"No trace matches {pattern!r} in {where}; name a glob that does.")
    return found


def read(path: Path) -> Trace:
    """Raises RequestError, with one sentence, for what is no trace or does not fit its own text."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise RequestError(f"{path} cannot be read as a trace ({exc}); name a JSON file.") from exc
    if not isinstance(raw, dict) or not isinstance(raw.get("events"), list):
        raise RequestError(f"{path} is no trace: it has no list of `events`; name another file.")
    trace = _trace(path, raw)
    _check_end(path, raw, trace)
    return trace


def _trace(path: Path, raw: dict[str, Any]) -> Trace:
    language = str(raw.get("language", ""))
    documents: dict[str, Opened] = {}
    if "before_text" in raw:
        documents["0"] = Opened(str(raw.get("path", "")), language, str(raw["before_text"]))
    reader = _Reader(path, documents, language, raw.get("documents", {}))
    steps = [reader.step(number, event) for number, event in enumerate(raw["events"], 1)]
    recorded = raw.get("typing", {}).get("model") == "recorded"
    name = str(raw.get("id", path.stem))
    return Trace(name, documents, tuple(_that_happen(steps)), recorded)


def _that_happen(steps: Sequence[Step]) -> Iterator[Step]:
    """Without the moves that leave the cursor where it is: recorders note one behind an edit."""
    cursors: dict[str, int] = {}
    for step in steps:
        if step.edits or step.opened or cursors.get(step.document) != step.cursor:
            yield step
        cursors[step.document] = step.cursor


class _Reader:
    """Applies each event as it is read, so that one that does not fit is named by its number."""

    def __init__(
        self, path: Path, documents: dict[str, Opened], language: str, paths: dict[str, str]
    ) -> None:
        self._path, self._language, self._paths = path, language, paths
        self._desk = Desk()
        self._at, self._version = 0.0, 0
        for name, opened in documents.items():
            self._desk.open(name, opened)

    def step(self, number: int, event: Any) -> Step:
        try:
            step = self._read(number, event)
        except (KeyError, TypeError, ValueError) as exc:
            raise self._wrong(number, f"is not one ({type(exc).__name__}: {exc})") from exc
        moment = self._desk.apply(step)
        if _splits_pair(moment.text, step.cursor):
            raise self._wrong(
                number, f"leaves the cursor in the middle of a surrogate pair, at {step.cursor}"
            )
        return step

    def _read(self, number: int, event: Any) -> Step:
        at, document = float(event["t_ms"]), str(event.get("doc", 0))
        version = int(event.get("version", 0))
        if at < self._at:
            raise self._wrong(number, f"comes at {at:.0f} ms, before the one at {self._at:.0f} ms")
        if version and version <= self._version:
            raise self._wrong(number, f"has version {version} after version {self._version}")
        self._at, self._version = at, version or self._version
        if event["kind"] == "open":
            name = self._paths.get(document, document)
            opened = Opened(name, self._language, str(event["text"]))
            return Step(at / 1000, document, 0, "", "", 0, False, opened)
        return self._edit(number, event, document)

    def _edit(self, number: int, event: Any, document: str) -> Step:
        offset, delete, insert = int(event["offset"]), event["delete"], event["insert"]
        moment = self._desk.moments.get(document)
        if moment is None:
            raise self._wrong(number, f"edits document {document}, which is not open")
        text = moment.text
        if not 0 <= offset <= len(text):
            raise self._wrong(number, f"is at {offset}, but the text has {len(text)} characters")
        if text[offset : offset + len(delete)] != delete:
            raise self._wrong(number, f"deletes {delete!r:.40} at {offset}, which is not there")
        closed = event["kind"] == "autoclose" or (event["kind"] == "edit" and insert in PAIRS)
        cursor = event.get("cursor", offset + (1 if closed and not delete else len(insert)))
        if not 0 <= cursor <= len(text) + len(insert) - len(delete):
            raise self._wrong(number, f"leaves the cursor at {cursor}, outside the text")
        typed = _is_typed(str(event["kind"]), delete, insert, closed)
        return Step(float(event["t_ms"]) / 1000, document, offset, delete, insert, cursor, typed)

    def _wrong(self, number: int, what: str) -> RequestError:
        return RequestError(f"{self._path}: event {number} {what}; mend the trace.")


def _is_typed(kind: str, delete: str, insert: str, closed: bool) -> bool:
    if kind in NOT_TYPED:
        return False
    if delete:
        return len(insert) == 1 and delete == insert  # a closer that is typed over
    return closed or len(insert) == 1 or _INDENTED_END.fullmatch(insert) is not None


def _splits_pair(text: str, cursor: int) -> bool:
    """Whether the halves of one character, written as two, lie on both sides of the cursor."""
    high, low = text[cursor - 1 : cursor], text[cursor : cursor + 1]
    return "\ud800" <= high <= "\udbff" and "\udc00" <= low <= "\udfff"


def _check_end(path: Path, raw: dict[str, Any], trace: Trace) -> None:
    ends = {"0": raw["after_text"]} if "after_text" in raw else raw.get("after_texts", {})
    here = desk(trace)
    for step in trace.steps:
        here.apply(step)
    for name, text in ends.items():
        if name in here.moments and here.moments[name].text != text:
            raise RequestError(
                f"{path}: its events do not lead to its own last text; mend the trace."
            )


# -- time -----------------------------------------------------------------------------------------


def timed(trace: Trace, seconds: float = 0.0, longest_gap: float = 0.0) -> Trace:
    """The first `seconds` of a trace that starts at its first event; 0 is all of it.

    Pauses over `longest_gap` seconds are cut to it: nothing happens in them.
    """
    steps, at, before = [], 0.0, trace.steps[0].at_s if trace.steps else 0.0
    for step in trace.steps:
        gap = step.at_s - before
        at, before = at + (min(gap, longest_gap) if longest_gap else gap), step.at_s
        if seconds and at > seconds:
            break
        steps.append(replace(step, at_s=at))
    return replace(trace, steps=tuple(steps))


def first_keys(trace: Trace, most: int) -> Trace:
    """The trace up to its `most`th typed key; 0 is all of it."""
    if not most:
        return trace
    typed = [number for number, step in enumerate(trace.steps, 1) if step.typed]
    return replace(trace, steps=trace.steps[: typed[most - 1]]) if len(typed) >= most else trace


# -- what comes next ------------------------------------------------------------------------------


class Ahead(NamedTuple):
    """A later moment of the same run of typing: what is new, and what is right of the cursor."""

    step: int
    typed: str
    after: str


def ahead(steps: Sequence[Step], index: int, after: str) -> Iterator[Ahead]:
    """How the typing goes on behind step `index`, until the person goes elsewhere.

    `after` is the text right of the cursor there, as far as it is compared.
    """
    base, document = steps[index].cursor, steps[index].document
    whole, cursor = after, 0
    for at, step in enumerate(steps[index + 1 : index + 1 + MOST_STEPS], index + 1):
        start, end = step.offset - base, step.offset - base + len(step.delete)
        if step.document != document or step.opened or start < 0 or end > len(whole):
            return
        if not step.edits and step.cursor != base + cursor:
            return
        whole = whole[:start] + step.insert + whole[end:]
        cursor = step.cursor - base
        if not 0 <= cursor <= len(whole):
            return
        yield Ahead(at, whole[:cursor], whole[cursor:])
        if cursor > LONGEST_RUN:
            return
