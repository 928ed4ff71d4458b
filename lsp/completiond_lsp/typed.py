"""What was typed at a cursor since a moment. Knows edits and text; no editor, no daemon.

An answer outlives the keys that spell its beginning, closers that the editor puts right of the
cursor, and edits of the lines above: what is left of it still belongs at the cursor. Any other
edit makes it worthless.
"""

from dataclasses import dataclass

from completiond.brackets import balance, within
from completiond_lsp.documents import Edit


@dataclass(slots=True)
class Typed:
    """Follows the edits of a document from `start`, the offset where the cursor was.

    `text` is what stands there now and did not then, `line` what stood in front on the same line.
    """

    start: int
    text: str = ""
    broken: bool = False
    line: str = ""

    def follow(self, edit: Edit) -> None:
        """Take an edit: of what was typed, or of lines above this one; another one breaks it."""
        at, end = edit.start - self.start, edit.start + edit.removed
        if at >= 0 and at + edit.removed <= len(self.text):
            self.text = self.text[:at] + edit.text + self.text[at + edit.removed :]
        elif end < self.start - len(self.line):
            self.start += len(edit.text) - edit.removed
        elif edit.removed or edit.text:
            self.broken = True

    @property
    def cursor(self) -> int:
        """Where the cursor is if it moved by typing only, and the editor closed nothing."""
        return self.start + len(self.text)

    def closers(self, cursor: int) -> str | None:
        """What the editor put behind `cursor` for what was typed before it.

        None if the cursor is not where typing has moved it.
        """
        at = cursor - self.start
        if self.broken or not 0 <= at <= len(self.text):
            return None
        head, tail = self.text[:at], self.text[at:]
        opens = balance(head, self.line).opens if tail else ""
        closers = "".join(tail.split())
        return tail if not tail or (closers and within(closers, opens)) else None

    def rest(self, answer: str, cursor: int | None = None) -> str:
        """What is left of an answer for `start`; empty if the typing left its path."""
        cursor = self.cursor if cursor is None else cursor
        if self.closers(cursor) is None:
            return ""
        typed = line_feeds(self.text[: cursor - self.start])
        return answer[len(typed) :] if answer.startswith(typed) else ""


def line_feeds(text: str) -> str:
    """`text` with `\\n` as its only line end: an editor puts in its document's own."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
