"""Control tokens' names and bytes that are no text: nobody wants them typed. Knows text only."""

import re

_NAMES = (
    r"<\|(?:endoftext|fim_[a-z]+|file_sep(?:arator)?|repo_name|im_start|im_end|EOT)\|>"
    r"|<｜[^<>｜]+｜>|</?fim[_-][a-z]+>|<(?:file_sep|repo_name|gh_stars)>|(?<!<)<EOT>|\[PAD\d+\]"
)
"""Not `<filename>`, which every usage message has."""
_NAME = re.compile(rf"(?=[<\[])(?:{_NAMES})")
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd]"
"""Control characters but tab and line feed, and what stands for bytes of no text."""
_BYTES = re.compile(_CONTROL)
_LEAK = re.compile(f"{_NAMES}|{_CONTROL}")


def find_leak(text: str, start: int = 0) -> int | None:
    """Where the name of a control token begins in `text`."""
    found = _NAME.search(text, start)
    return found.start() if found else None


def before_leak(text: str, *, names: bool = True) -> str:
    """`text` up to the first control character, or such a name."""
    found = (_LEAK if names else _BYTES).search(text)
    return text[: found.start()].rstrip(" ") if found else text


def spells_any(*texts: str) -> bool:
    """Whether such names are what the buffer is about: then they are code like any other."""
    return any(_NAME.search(text) for text in texts)
