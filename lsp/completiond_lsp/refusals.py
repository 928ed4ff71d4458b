"""Keys that this process answers with nothing by itself, and why. Knows settings and files' names.

Each reason is a word of the record; completiond/reasons.py has the sentences for a person.
"""

import time
from dataclasses import dataclass, field

from completiond.reasons import plainly
from completiond_lsp.buffers import Buffer
from completiond_lsp.options import Options
from completiond_lsp.params import InlineRequest


def refusal(request: InlineRequest, buffer: Buffer | None, options: Options) -> str:
    """Why nobody is asked about this key; empty if the daemon is."""
    if not options.enabled:
        return "switched_off"
    if buffer is None:
        return "not_open"
    if not options.wants(buffer.document.language):
        return "language_off"
    if buffer.secret:
        return "secret_file"
    if request.cursors > 1:
        return "several_cursors"
    return "" if request.version in (None, buffer.document.version) else "outdated"


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
