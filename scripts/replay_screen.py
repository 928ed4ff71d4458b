"""What the person sees at each key, and since when. Knows suggestions and keys; asks nobody.

A suggestion is on the screen only while it fits the buffer: each step either types through it or
takes it away. Times are seconds of one monotonic clock.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from replay_traces import LONGEST_RUN, Moment, Step

NEAR = 200
"""Characters on both sides of a cursor that name it: enough that no other place is like it."""


class Suggestion(NamedTuple):
    """Text at the cursor that replaces `replace` characters behind it.

    `origin` says who gave it: `pass` and `reuse` a daemon's model or memory, `bridge` and `cache`
    a client's memory, `kept` the editor, which shows what is left of it.
    """

    text: str
    replace: int = 0
    origin: str = "pass"
    prefilled: int = 0

    @property
    def free(self) -> bool:
        """Whether no pass was run for it."""
        return self.origin != "pass"

    @property
    def local(self) -> bool:
        """Whether the client answered by itself."""
        return self.origin in ("bridge", "cache", "kept")


class Show(NamedTuple):
    """From `at` on this is shown (None: nothing); the person has seen it grow since `since`."""

    at: float
    since: float
    suggestion: Suggestion | None


class Place(NamedTuple):
    """A cursor in a text, so that the same place is known again."""

    document: str
    cursor: int
    before: str
    after: str


@dataclass(slots=True)
class Key:
    """One step of the trace and what was shown until the next one."""

    step: int
    typed: bool
    at: float
    after: str
    place: Place
    shows: list[Show] = field(default_factory=list)
    answers: list[Suggestion] = field(default_factory=list)
    until: float = float("inf")

    def first(self) -> Show | None:
        """The first suggestion that fitted the buffer, while it still was this one."""
        return next((show for show in self.shows if show.suggestion), None)

    def seen_by(self, moment: float) -> Suggestion | None:
        """What the person had had before the eyes since then or longer, the newest of it."""
        old = [show for show in self.shows if show.suggestion and show.since <= moment]
        return old[-1].suggestion if old else None


def place_of(moment: Moment) -> Place:
    at, text = moment.cursor, moment.text
    return Place(moment.document, at, text[max(0, at - NEAR) : at], text[at : at + NEAR])


class Screen:
    """One person's. `keeps`: the editor itself goes on showing what is typed through."""

    def __init__(self, keeps: bool = True) -> None:
        self._keeps = keeps
        self.keys: list[Key] = []
        self._left: Show | None = None  # what typing has left of the last suggestion

    @property
    def shown(self) -> Suggestion | None:
        key = self.keys[-1] if self.keys else None
        return key.shows[-1].suggestion if key and key.shows else None

    def step(self, number: int, step: Step, old: Moment | None, new: Moment, now: float) -> None:
        """The person did something: the last key's time is over, the next one's begins."""
        self.end(now)
        key = Key(
            number,
            step.typed,
            now,
            new.text[new.cursor : new.cursor + LONGEST_RUN],
            place_of(new),
        )
        self.keys.append(key)
        if self._left and (rest := _typed_through(self._left.suggestion, step, old)):
            self._left = Show(now, self._left.since, rest)
            if self._keeps:
                key.shows.append(self._left)
        else:
            self._left = None

    def show(self, suggestion: Suggestion | None, now: float) -> None:
        """An answer for where the cursor is: draw it, or nothing. The same text is no news.

        An editor that keeps a ghost does not let a newer answer replace it.
        """
        if not self.keys:
            return
        if suggestion:
            self.keys[-1].answers.append(suggestion)
        if self._keeps and self.shown:
            return
        text = suggestion.text if suggestion else ""
        if text == (self.shown.text if self.shown else ""):
            return
        left = self._left.suggestion if self._left else None
        same = self._left if left and left.text == text else None
        show = Show(now, same.since if same else now, suggestion if text else None)
        self.keys[-1].shows.append(show)
        self._left = show if text else None

    def end(self, now: float) -> None:
        if self.keys:
            self.keys[-1].until = min(self.keys[-1].until, now)


def _typed_through(
    suggestion: Suggestion | None, step: Step, old: Moment | None
) -> Suggestion | None:
    """What is left of it behind the step, or None: typed to its end, contradicted, left.

    A pair that the editor closes by itself contradicts it: its own closer would come to stand
    beside the editor's.
    """
    if suggestion is None or old is None or not step.edits or step.offset != old.cursor:
        return None
    if step.document != old.document or not suggestion.text.startswith(step.insert or "\0"):
        return None
    over = len(step.delete)
    typed_over = over and step.delete == step.insert and over <= suggestion.replace
    if (over and not typed_over) or step.cursor != step.offset + len(step.insert):
        return None
    text = suggestion.text[len(step.insert) :]
    return Suggestion(text, suggestion.replace - over, "kept") if text else None


def first_line(text: str) -> str:
    """The first line that says something, with the line ends in front of it."""
    start = len(text) - len(text.lstrip("\n"))
    end = text.find("\n", start)
    return text if end < 0 else text[:end]
