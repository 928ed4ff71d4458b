"""FILE:LINE:COL becomes a text and a cursor in it. Knows files and encodings; knows no daemon.

LINE and COL count from 1; COL counts characters and may be one past the end of the line. Lines end
as editors end them: LF, CR LF or CR. A file is UTF-8 (a byte order mark is skipped) unless another
encoding is named: a guess could put the cursor elsewhere, and garbage into the prompt.
"""

import codecs
import os
import re
from dataclasses import dataclass
from pathlib import Path

import typer

from completiond.core import Snapshot
from completiond.errors import RequestError
from completiond.files import language_of, text_of
from completiond.redaction import keeps_secrets, redacted_snapshot

_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Place:
    """A file's text and a cursor: a character offset."""

    path: Path
    text: str
    cursor: int
    line: int

    @property
    def language(self) -> str:
        return language_of(self.path)

    def snapshot(self) -> Snapshot:
        shown = os.path.relpath(self.path)
        return redacted_snapshot(
            self.text,
            self.cursor,
            document=self.path.absolute().as_uri(),
            version=0,
            language=self.language,
            path=self.path.name if shown.startswith("..") else shown,
        )


def parse(text: str) -> tuple[Path, int, int]:
    """The three parts; a file's name may hold colons itself."""
    file, line, column = ["", "", *text.rsplit(":", 2)][-3:]
    if not file or not _is_count(line) or not _is_count(column):
        raise typer.BadParameter(
            f"{text!r} is not FILE:LINE:COL, as in src/main.py:12:5 (both count from 1)."
        )
    return Path(file), int(line), int(column)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 1 << 31


def read(file: Path, line: int, column: int, encoding: str = "utf-8") -> Place:
    """Raises RequestError if the file cannot be read as text or the cursor is outside it."""
    text = text_of(file, _known(encoding), may_name=True)
    if keeps_secrets(str(file.absolute())):
        raise RequestError(f"{file} keeps secrets, by its name; nothing of it is sent on.")
    starts = [0, *(match.end() for match in _END.finditer(text))]
    if line > len(starts):
        lines = "1 line" if len(starts) == 1 else f"{len(starts)} lines"
        raise RequestError(f"{file} has {lines}, so there is no line {line}.")
    start = starts[line - 1]
    end = match.start() if (match := _END.search(text, start)) else len(text)
    if column > end - start + 1:
        raise RequestError(
            f"Line {line} of {file} has {end - start} characters; "
            f"the column may be 1 to {end - start + 1}, not {column}."
        )
    return Place(file, text, start + column - 1, line)


def _known(encoding: str) -> str:
    try:
        codecs.lookup(encoding)
    except LookupError as exc:
        raise typer.BadParameter(f"There is no encoding {encoding!r}.") from exc
    return encoding
