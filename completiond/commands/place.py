"""FILE:LINE:COL becomes a text and a cursor in it. Knows files and encodings; knows no daemon.

LINE and COL count from 1; COL counts characters and may be one past the end of the line. Lines end
as editors end them: LF, CR LF or CR. A file is UTF-8 (a byte order mark is skipped) unless another
encoding is named: a guess could put the cursor elsewhere, and garbage into the prompt.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

import typer

from completiond.core import Snapshot
from completiond.errors import RequestError
from completiond.redaction import is_secret_file, redacted_snapshot

LARGEST = 64 << 20
"""Bytes of a file that are still read."""

_END = re.compile(r"\r\n|\n|\r")
_LANGUAGES = {
    "c cpp cs css dart elixir go java json kotlin lua perl php r ruby scala sql swift zig": "",
    "py pyi": "python",
    "js mjs cjs": "javascript",
    "ts mts cts": "typescript",
    "jsx": "javascriptreact",
    "tsx": "typescriptreact",
    "rs": "rust",
    "h": "c",
    "cc cxx hpp hh": "cpp",
    "rb": "ruby",
    "pl pm": "perl",
    "kt kts": "kotlin",
    "sh bash zsh": "shellscript",
    "hs": "haskell",
    "ex exs": "elixir",
    "md": "markdown",
    "htm html": "html",
    "yml yaml": "yaml",
    "toml": "toml",
    "vue": "vue",
    "svelte": "svelte",
    "tex": "latex",
    "xml": "xml",
}
_LANGUAGE_OF = {ext: name or ext for exts, name in _LANGUAGES.items() for ext in exts.split()}


@dataclass(frozen=True, slots=True)
class Place:
    """A file's text and a cursor: a character offset."""

    path: Path
    text: str
    cursor: int
    line: int

    @property
    def language(self) -> str:
        return _LANGUAGE_OF.get(self.path.suffix.lstrip(".").lower(), "")

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
    text = _decode(file, _bytes(file), encoding)
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


def _bytes(file: Path) -> bytes:
    try:
        info = file.stat()
        if stat.S_ISDIR(info.st_mode):
            raise RequestError(f"{file} is a directory; name a file in it.")
        if is_secret_file(str(file.absolute())):
            raise RequestError(f"{file} keeps secrets, by its name; nothing of it is sent on.")
        if not stat.S_ISREG(info.st_mode):
            raise RequestError(f"{file} is no regular file; save the text to one.")
        if info.st_size > LARGEST:
            raise RequestError(f"{file} has more than {LARGEST >> 20} MiB; that is too large.")
        return file.read_bytes()
    except FileNotFoundError as exc:
        raise RequestError(f"There is no file {file}.") from exc
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or exc
        raise RequestError(f"{file} cannot be read ({why}).") from exc


def _decode(file: Path, data: bytes, encoding: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and not encoding.lower().startswith("utf-16"):
        raise RequestError(f"{file} is UTF-16; save it as UTF-8, or pass --encoding utf-16.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise RequestError(
            f"{file} is not {encoding.upper()} (byte {data[exc.start]:#04x} in line {line}); save "
            "it as UTF-8, or name what it is, as in --encoding latin-1."
        ) from exc
    except LookupError as exc:
        raise typer.BadParameter(f"There is no encoding {encoding!r}.") from exc
    if "\0" in text:
        raise RequestError(f"{file} holds NUL bytes, so it is not text; nothing can be completed.")
    return text.removeprefix("\ufeff")
