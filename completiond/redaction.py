"""Secrets in texts and in the names of files. Knows their shapes; keeps nothing.

A secret is masked by as many asterisks as it has characters, so that every position of the text
stays. What is masked here never reaches a message, so no prompt, cache, log or page can show it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase

from completiond.armour import SIGN, key_blocks
from completiond.assigned import assigned, places
from completiond.core import Snapshot

MARGIN = 1_024
"""Characters beyond a window that are looked at: a secret may be cut by its edge."""
KEY = 32_768
"""Characters of a private key that may stand between a window and the key's first or last line."""
MASK = "*"

_NAMES = (
    ".env .env.* .env-* .env_* .env~ *.env .envrc .netrc _netrc .pgpass .my.cnf .htpasswd "
    ".git-credentials .npmrc "
    ".pypirc .dockercfg .vault-token .boto .s3cfg credentials credentials.json kubeconfig "
    "id_rsa id_dsa id_ecdsa id_ed25519 *.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk "
    "*.ovpn *.tfstate *.tfstate.backup *.tfvars *.tfvars.json .terraformrc *.tfrc.json "
    "secrets.yml secrets.yaml secrets.json secrets.toml "
    "master.key service-account*.json service_account*.json client_secret*.json"
).split()
_HARMLESS = "*.example *.sample *.template *.dist *.pub".split()

_IN_URL = r"(?:[^\s:/@\"'{}$<>%]|%[0-9A-Fa-f]{2})"
"""A `%` is part of a password only if it stands for a character, not for a value."""
_MIXED = r"(?=[\w-]{0,200}[0-9])(?=[\w-]{0,200}[A-Z])"
_AUTHORIZATION = (
    r"\w{13}[\"'\]]{0,2}\s{0,2}[:=,]\s{0,2}[\"'`]?(?:[Bb]asic|[Tt]oken|[Bb]earer) "
    r"(?=[\w.~+/-]{0,256}[0-9=])([\w.~+/-]{12,}=*)"
)

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
    ("xox", r"xox[abeoprs](?:\.xox[bp])?-[\w-]{10,}"),
    ("xapp-", r"xapp-[0-9]-[\w-]{20,}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/services/[\w/]{20,}"),
    ("sk-", r"sk-(?=[A-Za-z]{0,48}[0-9])[A-Za-z0-9]{20,}(?![\w-])"),
    ("sk-", rf"sk-(?:proj|ant|svcacct|admin|or)-{_MIXED}[\w-]{{20,}}"),
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
    ("://", rf"://{_IN_URL}{{0,64}}:({_IN_URL}{{3,128}})@"),
    ("Bearer ", r"Bearer (?=[\w.~+/-]{0,256}[0-9])([\w.~+/-]{20,}=*)"),
    ("Authorization", _AUTHORIZATION),
    ("authorization", _AUTHORIZATION),
)
_PATTERNS = [(marker, re.compile(pattern)) for marker, pattern in _SHAPES]


def is_secret_file(path: str) -> bool:
    """Whether a file of this name keeps secrets, so that nothing of it is used."""
    parts = path.replace("\\", "/").lower().split("/")
    name = parts[-1]
    if any(fnmatchcase(name, harmless) for harmless in _HARMLESS):
        return False
    return parts[-2:-1] in ([".ssh"], [".aws"], [".gnupg"]) or any(
        fnmatchcase(name, secret) for secret in _NAMES
    )


def keeps_secrets(path: str) -> bool:
    """The same for a file on disk, which may be a link to one of such a name."""
    if is_secret_file(path):
        return True
    try:
        return is_secret_file(os.path.realpath(path))
    except (OSError, ValueError):  # no file can have this name
        return False


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
    low, high = _looked_at(text, start, end)
    seen = text[low:high]
    clean = redact(seen)
    if clean is seen:
        return window
    return replace(
        window, before=clean[start - low : cursor - low], after=clean[cursor - low : end - low]
    )


def _looked_at(text: str, start: int, end: int) -> tuple[int, int]:
    """The window and what decides about it: a margin, and the ends of a key that it may be in."""
    low, high = max(0, start - MARGIN), end + MARGIN
    first = text.rfind(SIGN, max(0, low - KEY), low)
    last = text.find(SIGN, high, high + KEY)
    return max(0, first - MARGIN) if first >= 0 else low, last + MARGIN if last >= 0 else high


def _spans(text: str) -> Iterator[tuple[int, int]]:
    yield from key_blocks(text)
    for marker, pattern in _PATTERNS:
        read = 0  # what a secret of this shape holds is not read again as another one
        for at in places(text, marker):
            if at >= read and _begins(text, at) and (found := pattern.match(text, at)):
                read = found.end()
                yield found.span(1 if found.lastindex else 0)
    yield from assigned(text)


def _begins(text: str, at: int) -> bool:
    """Whether no word goes on here, which a mark would be the middle of."""
    return not text[at].isalnum() or not (
        text[at - 1 : at].isalnum() or text[at - 1 : at] in ("_", "-")
    )
