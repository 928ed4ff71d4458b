"""Secrets known by the name that they are given to. Knows what such names and values look like.

A program that handles secrets speaks of them all the time: a value is one only if it looks random,
and an address, the name of a file or words in a row are none.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

_KEYWORDS = (
    "passw pass pwd secret token apikey api_key api-key access_key accesskey private_key "
    "privatekey credential auth_key encryption_key"
).split()
_WORDS = ("pass", "pwd")
"""Only where a word begins: else they are the ends of others."""
_PASSWORDS = ("passw", "pass", "pwd")
"""Nothing else is given to such a name, if it ends so: words in a row are one too."""

_VALUE = re.compile(
    r"(?:ord|d|ORD|D)?[sS]?(?![a-z])(?P<rest>\w{0,64}+)[\"'\]]{0,2}\s{0,4}"
    r"(?::\s?&?[A-Za-z]\w{0,15}\s?)?(?P<is>=>|:=|[:=])(?P<gap>[\s(]{0,12})"
    r"(?:[bBfFrRuU]{0,2}[\"'`](?P<quoted>[^\s\"'`]{8,256})[\"'`]"
    r"|(?P<bare>[A-Za-z0-9+/_=-]{20,256})(?=[ \t]{0,64}$)"
    r"|(?P<word>[^\s\"'`$(){}\[\]<>,;&|]{8,128})(?![^\s\"'`;&|]))",
    re.MULTILINE,
)
_FILLED_IN = re.compile(r"\$?\{[^{}]*\}|[$%]\([^()]*\)s?|<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)")
"""Places in a text where a program puts something else."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://|arn:aws")
_WORDY = re.compile(
    r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]+){0,4}|[A-Z]+)[0-9]{0,3}|[vV]?[0-9]{1,4}",
)
_FILE = re.compile(r"[\w./\\~-]{1,256}\.[A-Za-z]{1,5}[0-9]?|(?:~|\.{1,2}|[A-Za-z]:)?[/\\].{1,256}")
_CHUNK = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
WORD = 3.5
"""Letters of a word of an identifier; what is random changes its kind more often."""

FEW_BITS, SOME_BITS, MANY_BITS = 2.5, 3.3, 4.0
"""Per character: of a quoted value, of a bare one with some digits, of a bare one with one."""


def assigned(text: str) -> Iterator[tuple[int, int]]:
    """Values given to names that sound secret, if they look random."""
    lower = text.lower()
    if len(lower) != len(text):  # a character whose small form is longer
        lower = "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
    for keyword in _KEYWORDS:
        for at in places(lower, keyword):
            if keyword in _WORDS and not _begins_word(text, at):
                continue
            found = _VALUE.match(text, at + len(keyword))
            if found and (group := _secret(found, text[at : at + len(keyword)])):
                yield found.span(group)


def places(text: str, marker: str) -> Iterator[int]:
    at = text.find(marker)
    while at >= 0:
        yield at
        at = text.find(marker, at + len(marker))


def _begins_word(text: str, at: int) -> bool:
    before = text[at - 1 : at]
    return not before.isalpha() or (before.islower() and text[at].isupper())


def _secret(found: re.Match[str], keyword: str) -> str:
    """The group of the match that is a secret, if any."""
    password = keyword.lower() in _PASSWORDS and not found["rest"]
    if found["quoted"]:
        return "quoted" if _is_quoted_secret(found["quoted"], password) else ""
    if found["bare"] and _is_key(found["bare"]):
        return "bare"
    group = "bare" if found["bare"] else "word"
    # Without quotes: as a shell and a connection string write it, and no program.
    if not password or found["is"] != "=" or found["gap"]:
        return ""
    value = found[group]
    shell = keyword.isupper() or not (_is_words(value) or "." in value)
    return group if shell and _is_random(value, FEW_BITS) and not _is_place(value) else ""


def _is_quoted_secret(value: str, password: bool) -> bool:
    if _is_place(value) or (_is_words(value) and not password):
        return False
    if not re.search(r"[{}()\[\]$<>]", value):
        return _is_random(value, FEW_BITS)
    fixed = _FILLED_IN.sub("", value)
    digits = len(re.findall("[0-9]", fixed))
    return len(fixed) >= 20 and digits >= 4 and _is_random(fixed, SOME_BITS)


def _is_place(value: str) -> bool:
    """An address (a password in it is masked by itself) or the name of a file."""
    if _URL.match(value):
        return True
    return bool(_FILE.fullmatch(value)) and _is_words(value)


def _is_words(value: str) -> bool:
    """Words in a row, with a number behind some of them, as names are made of."""
    parts = [part for part in re.split(r"[-_./:\\~]", value) if part]
    return len(parts) > 1 and all(_WORDY.fullmatch(part) for part in parts)


def _is_random(value: str, least_bits: float) -> bool:
    """Letters and digits mixed, without much repetition."""
    if not re.search(r"[A-Za-z]", value) or not re.search(r"[0-9]", value):
        return False
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    return bits >= least_bits


def _is_key(value: str) -> bool:
    """Without quotes it may be an expression: only what no identifier looks like."""
    if re.fullmatch(r"[0-9a-fA-F]{32,}", value):
        return True
    if not re.search("[a-z]", value) or not re.search("[A-Z]", value):
        return False
    chunks = _CHUNK.findall(value)
    if _is_words(value) or sum(map(len, chunks)) >= WORD * len(chunks):
        return False
    if len(re.findall("[0-9]", value)) >= 3:
        return _is_random(value, SOME_BITS)
    return len(value) >= 36 and _is_random(value, MANY_BITS)
