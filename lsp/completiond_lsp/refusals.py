"""Keys that this process answers with nothing by itself, and why. Knows settings and files' names.

Each reason is a word of the record; completiond/reasons.py has the sentences for a person.
"""

import time
from dataclasses import dataclass, field

from completiond.reasons import plainly
from completiond.redaction import keeps_secrets
from completiond_lsp.documents import Document
from completiond_lsp.options import Options
from completiond_lsp.params import InlineRequest
from completiond_lsp.paths import uri_path


def refusal(request: InlineRequest, document: Document | None, options: Options) -> str:
    """Why nobody is asked about this key; empty if the daemon is."""
    if not options.enabled:
        return "switched_off"
    if document is None:
        return "not_open"
    if not options.wants(document.language):
        return "language_off"
    if keeps_secrets(uri_path(request.uri)):
        return "secret_file"
    if request.cursors > 1:
        return "several_cursors"
    return "" if request.version in (None, document.version) else "outdated"


@dataclass(frozen=True, slots=True)
class Refused:
    """The last key, if it was one of those."""

    reason: str
    path: str
    language: str
    position: int
    at: float = field(default_factory=time.monotonic)

    def sentences(self) -> list[str]:
        """As `completiond why` tells of a request."""
        ago = time.monotonic() - self.at
        where = f"{self.path} ({self.language or 'no language'}), character {self.position}"
        return [f"The last key, {ago:.0f} s ago: {where}.", plainly(self.reason)]
