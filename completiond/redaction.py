"""Secrets in texts and in the names of files. Knows their shapes; keeps nothing.

A secret is masked by as many asterisks as it has characters, so that every position of the text
stays. What is masked here never reaches a message, so no prompt, cache, log or page can show it.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from completiond.core import Snapshot

MARGIN = 1_024
"""Characters beyond a window that are looked at: a secret may be cut by its edge."""
MASK = "*"

_NAMES = (
    ".env .env.* *.env .envrc .netrc _netrc .pgpass .my.cnf .htpasswd .git-credentials .npmrc "
    ".pypirc .dockercfg .vault-token .boto .s3cfg credentials credentials.json kubeconfig "
    "id_rsa id_dsa id_ecdsa id_ed25519 *.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk "
    "*.ovpn *.tfstate *.tfstate.backup *.tfvars secrets.yml secrets.yaml secrets.json secrets.toml "
    "master.key service-account*.json service_account*.json client_secret*.json"
).split()
_HARMLESS = "*.example *.sample *.template *.dist *.pub".split()

_PRIVATE = "PRIVATE KEY"
_ARMOUR = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_ENCODED = re.compile(r"(?:(?:\\[nrt]|[\s\"'+,;#*>|])*[A-Za-z0-9+/=]{8,}(?:: [^\n]*)?)*")
"""Lines of a key's body, however a program quotes them."""

_SHAPES = (  # how a secret begins, where it is looked for, and what it then looks like
    ("AKIA", r"AKIA[A-Z0-9]{16}\b"),
    ("ASIA", r"ASIA[A-Z0-9]{16}\b"),
    ("AIza", r"AIza[\w-]{35}"),
    ("ya29.", r"ya29\.[\w-]{20,}"),
    ("github_pat_", r"github_pat_\w{22,}"),
    ("ghp_", r"ghp_[A-Za-z0-9]{30,}"),
    ("gho_", r"gho_[A-Za-z0-9]{30,}"),
    ("ghu_", r"ghu_[A-Za-z0-9]{30,}"),
    ("ghs_", r"ghs_[A-Za-z0-9]{30,}"),
    ("ghr_", r"ghr_[A-Za-z0-9]{30,}"),
    ("glpat-", r"glpat-[\w-]{20,}"),
    ("xox", r"xox[abeoprs]-[\w-]{10,}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/services/[\w/]{20,}"),
    ("sk-", r"sk-[\w-]{20,}"),
    ("sk_live_", r"sk_live_[A-Za-z0-9]{16,}"),
    ("sk_test_", r"sk_test_[A-Za-z0-9]{16,}"),
    ("rk_live_", r"rk_live_[A-Za-z0-9]{16,}"),
    ("npm_", r"npm_[A-Za-z0-9]{36}"),
    ("hf_", r"hf_[A-Za-z0-9]{30,}"),
    ("pypi-Ag", r"pypi-Ag[\w-]{40,}"),
    ("SG.", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("dop_v1_", r"dop_v1_[a-f0-9]{64}"),
    ("AccountKey=", r"AccountKey=([A-Za-z0-9+/=]{40,})"),
    ("eyJ", r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"),
    ("://", r"://[^\s:/@\"'{}$<>%]{0,64}:([^\s:/@\"'{}$<>%]{3,128})@"),
    ("Bearer ", r"Bearer ([\w.~+/-]{20,}=*)"),
)
_PATTERNS = [(marker, re.compile(pattern)) for marker, pattern in _SHAPES]
_KEYWORDS: tuple[str, ...] = (
    "passw",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "access_key",
    "accesskey",
)
_KEYWORDS += ("private_key", "privatekey", "credential", "auth_key", "encryption_key")
_ASSIGNED = re.compile(
    r"(?:ord|d|ORD|D)?[sS]?(?![a-z])\w{0,64}[\"'\]]{0,2}\s{0,4}(?::\s?&?[A-Za-z]\w{0,15}\s?)?(?:=>|:=|[:=])\s{0,4}"
    r"(?:[\"'`](?P<quoted>[^\s\"'`{}()\[\]$<>]{8,256})[\"'`]|(?P<bare>[A-Za-z0-9+/_=-]{20,256})\s*$)",
    re.MULTILINE,
)


def is_secret_file(path: str) -> bool:
    """Whether a file of this name keeps secrets, so that nothing of it is used."""
    parts = path.replace("\\", "/").lower().split("/")
    name = parts[-1]
    if any(fnmatchcase(name, harmless) for harmless in _HARMLESS):
        return False
    return parts[-2:-1] in ([".ssh"], [".aws"], [".gnupg"]) or any(
        fnmatchcase(name, secret) for secret in _NAMES
    )


def redact(text: str) -> str:
    """`text` of the same length with its secrets masked."""
    spans = [span for span in _spans(text) if span[0] < span[1]]
    if not spans:
        return text
    parts, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            start = max(start, at)
            parts += [text[at:start], re.sub(r"[^\r\n]", MASK, text[start:end])]
            at = end
    return "".join([*parts, text[at:]])


def redacted_snapshot(text: str, cursor: int, **names: str | int) -> Snapshot:
    """`Snapshot.around` with the secrets of the window masked. Raises RequestError."""
    window = Snapshot.around(text, cursor, **names)  # type: ignore[arg-type]
    start, end = window.offset, cursor + len(window.after)
    low = max(0, start - MARGIN)
    seen = text[low : end + MARGIN]
    clean = redact(seen)
    if clean is seen:
        return window
    return replace(
        window, before=clean[start - low : cursor - low], after=clean[cursor - low : end - low]
    )


def _spans(text: str) -> Iterator[tuple[int, int]]:
    if _PRIVATE in text:
        yield from _key_blocks(text)
    for marker, pattern in _PATTERNS:
        for at in _places(text, marker):
            if _begins(text, at) and (found := pattern.match(text, at)):
                yield found.span(1 if found.lastindex else 0)
    yield from _assigned(text)


def _begins(text: str, at: int) -> bool:
    """Whether no word goes on here, which a mark would be the middle of."""
    return not text[at].isalnum() or not (
        text[at - 1 : at].isalnum() or text[at - 1 : at] in ("_", "-")
    )


def _places(text: str, marker: str) -> Iterator[int]:
    at = text.find(marker)
    while at >= 0:
        yield at
        at = text.find(marker, at + len(marker))


def _key_blocks(text: str) -> Iterator[tuple[int, int]]:
    """What stands between the two lines of a private key; one of them may be out of sight."""
    opened: int | None = 0
    for armour in _ARMOUR.finditer(text):
        if armour[1] == "BEGIN":
            opened = armour.end()
            body = _ENCODED.match(text, opened)
            yield opened, body.end() if body else opened
        elif opened is not None:
            start = opened if opened else _body_start(text, armour.start())
            yield start, armour.start()
            opened = None


def _body_start(text: str, end: int) -> int:
    """Where the lines of a key's body begin that end at `end`."""
    at = end
    while at > 0:
        line = text.rfind("\n", 0, at - 1) + 1
        if not re.fullmatch(r"[\s\"'+,;#*>|\\nr]*[A-Za-z0-9+/=]{4,}[\s\"'+,;\\nr]*", text[line:at]):
            break
        at = line
    return at


def _assigned(text: str) -> Iterator[tuple[int, int]]:
    """Values given to names that sound secret, if they look random."""
    lower = text.lower()
    if len(lower) != len(text):  # a character whose small form is longer
        lower = "".join(c if len(c.lower()) > 1 else c.lower() for c in text)
    for keyword in _KEYWORDS:
        for at in _places(lower, keyword):
            found = _ASSIGNED.match(text, at + len(keyword))
            if found and found["quoted"] and _is_random(found["quoted"], 2.5):
                yield found.span("quoted")
            elif found and found["bare"] and _is_key(found["bare"]):
                yield found.span("bare")


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
    kinds = (r"[a-z]", r"[A-Z]", r"[0-9].*[0-9].*[0-9]")
    return all(re.search(kind, value) for kind in kinds) and _is_random(value, 3.3)
