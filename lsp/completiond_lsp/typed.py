"""What was typed at a cursor since a moment. Knows edits and text; no editor, no daemon.

An answer outlives the keys that spell its beginning: what is left of it still belongs at the
cursor. Any other edit makes it worthless.
"""

from dataclasses import dataclass

from completiond_lsp.documents import Edit


@dataclass(slots=True)
class Typed:
    """Follows the edits of a document from `start`, the offset where the cursor was."""

    start: int
    text: str = ""
    broken: bool = False

    def follow(self, edit: Edit) -> None:
        """Take an edit: typing on, or backspace over what was typed; another one breaks it."""
        if edit.removed == 0 and edit.start == self.cursor:
            self.text += edit.text
        elif (
            not edit.text and edit.start >= self.start and edit.start + edit.removed == self.cursor
        ):
            self.text = self.text[: edit.start - self.start]
        elif edit.removed or edit.text:
            self.broken = True

    @property
    def cursor(self) -> int:
        """Where the cursor is if it moved by typing only."""
        return self.start + len(self.text)

    def rest(self, answer: str) -> str:
        """What is left of an answer for `start`; empty if the typing left its path."""
        typed = line_feeds(self.text)
        return answer[len(typed) :] if not self.broken and answer.startswith(typed) else ""


def line_feeds(text: str) -> str:
    """`text` with `\\n` as its only line end: an editor puts in its document's own."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
