"""Files of source code: their text, or one sentence why it cannot be read; their language.

Knows files and encodings, nothing of cursors. A file is UTF-8 (a byte order mark is skipped) unless
another encoding is named: a guess could put garbage into a prompt.
"""

import stat
from pathlib import Path

from completiond.errors import RequestError

_WIDE = ("utf-16", "utf_16", "utf16", "utf-32", "utf_32", "utf32")
"""Encodings whose texts hold NUL bytes."""
LARGEST = 64 << 20
"""Bytes of a file that are still read."""

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


def language_of(path: Path) -> str:
    """As editors name it; empty for a name that says nothing."""
    return _LANGUAGE_OF.get(path.suffix.lstrip(".").lower(), "")


def text_of(file: Path, encoding: str = "utf-8", *, may_name: bool = False) -> str:
    """Raises RequestError if it is no text; `may_name`: the person can name its encoding."""
    return _decode(file, _bytes(file), encoding, may_name)


def _bytes(file: Path) -> bytes:
    try:
        info = file.stat()
        if stat.S_ISDIR(info.st_mode):
            raise RequestError(f"{file} is a directory; name a file in it.")
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


def _decode(file: Path, data: bytes, encoding: str, may_name: bool) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and not encoding.lower().startswith("utf-16"):
        other = ", or pass --encoding utf-16" if may_name else ""
        raise RequestError(f"{file} is UTF-16; save it as UTF-8{other}.")
    no_text = RequestError(f"{file} holds NUL bytes, so it is not text; nothing can be completed.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        if b"\0" in data and not encoding.lower().startswith(_WIDE):
            raise no_text from exc  # an encoding that takes any byte would let a picture in
        line = data.count(b"\n", 0, exc.start) + 1
        other = ", or name what it is, as in --encoding latin-1" if may_name else ""
        raise RequestError(
            f"{file} is not {encoding.upper()} (byte {data[exc.start]:#04x} in line {line}); save "
            f"it as UTF-8{other}."
        ) from exc
    if "\0" in text:
        raise no_text
    return text.removeprefix("\ufeff")
