"""What happened between two moments of a buffer, found by comparing their windows.

Knows snapshots and text. Windows move in steps while one types, and editors put closers right of
the cursor: neither makes another text of it. So only what both windows show is compared, and the
text after the cursor may have grown by closers of what was typed, or lost those that were.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from completiond.brackets import CLOSERS, balance, within
from completiond.core import WINDOW_STEP, Snapshot

FAR = WINDOW_STEP
"""Characters after the cursor behind which nothing reads on: a window's edge may be there."""
LONGEST_TYPED = 2_048
"""Characters in which brackets are looked for: more is no typing at one place."""
MOST_CLOSERS = 8
GLANCE = 16
SEEN = 256
"""Characters in which closers are looked for."""


class Since(NamedTuple):
    """What was typed forward; how much of the text after the cursor are closers that came with it,
    and how many of the closers that stood there were typed over."""

    typed: str
    closers: str = ""
    over: int = 0


def since(old: Snapshot, new: Snapshot) -> Since | None:
    """What was typed forward between two moments; None if the text changed otherwise."""
    typed = _typed(old, new)
    if typed is None:
        return None
    if _same(old.after, new.after):
        return Since(typed)
    return _with_closers(typed, old, new) if len(typed) <= LONGEST_TYPED else None


def typed_since(old: Snapshot, new: Snapshot) -> str | None:
    """The typed part alone."""
    found = since(old, new)
    return found.typed if found is not None else None


def same_around(old: Snapshot, new: Snapshot) -> bool:
    """Whether only the window's text before the cursor may differ between two moments."""
    return _overlap(old, new) is not None and _same(old.after, new.after)


def place(snapshot: Snapshot) -> int:
    """The cursor's absolute offset."""
    return snapshot.offset + len(snapshot.before)


def accepted(snapshot: Snapshot, text: str) -> Snapshot:
    """The buffer as an editor leaves it when `text` is taken: with the buffer's own line ends."""
    end = "\r\n" if "\r\n" in snapshot.before else "\n"
    return replace(snapshot, before=snapshot.before + text.replace("\n", end))


def _typed(old: Snapshot, new: Snapshot) -> str | None:
    start = _overlap(old, new)
    at = place(old)
    if start is None or not start <= at <= place(new):
        return None
    shown = old.before if start == old.offset else old.before[start - old.offset :]
    if not new.before.startswith(shown, start - new.offset):
        return None
    return new.before[at - new.offset :]


def _overlap(old: Snapshot, new: Snapshot) -> int | None:
    """Where the text that both windows show before the cursor begins, if they can be compared.

    Windows that begin elsewhere share thousands of characters, or the cursor has jumped.
    """
    if old.document != new.document:
        return None
    if old.offset == new.offset:
        return old.offset if old.prefix_hash == new.prefix_hash else None
    start = max(old.offset, new.offset)
    return start if min(place(old), place(new)) - start >= WINDOW_STEP else None


def _same(old: str, new: str) -> bool:
    """Whether two texts after the cursor are one, as far as their windows reach."""
    if len(old) == len(new):
        return old == new
    short, long = sorted((old, new), key=len)
    return len(short) >= FAR and long.startswith(short)


def _with_closers(typed: str, old: Snapshot, new: Snapshot) -> Since | None:
    """The same, where the text after the cursor differs by closers at its beginning."""
    fitting = list(_fitting(typed, old.after, new.after))
    if not fitting:
        return None
    line = old.before[old.before.rfind("\n") + 1 :]
    closes, opens = balance(typed, line)
    for closers, over in fitting:
        came = within(_without_blanks(closers), opens)
        if came and within(old.after[:over], closes):
            return Since(typed, closers, over)
    return None


def _fitting(typed: str, old: str, new: str) -> Iterator[tuple[str, int]]:
    """Ways in which `new` is `old` without `over` closers, behind others.

    Behind a line end that was typed, closers stand on lines of their own.
    """
    lines = "\n" in typed
    lost = _ends(old, blanks=False)
    came = _ends(new, blanks=lines)
    pushed = len(new) - len(new.lstrip()) if lines else 0
    for over in (0, *lost):
        for end in (0, *came):
            if _agree(old, over, new, end):
                yield new[:end], over
        if over < len(lost) and "\n" in new[:pushed] and _agree(old, over, new, pushed):
            yield new[:pushed], over


def _agree(old: str, over: int, new: str, end: int) -> bool:
    """Whether the texts behind two places are the same; most are not from the first character."""
    glance = old[over : over + GLANCE] == new[end : end + GLANCE]
    return glance and _same(old[over:], new[end:])


def _ends(text: str, *, blanks: bool) -> list[int]:
    """Where the closers end with which `text` begins, on several lines if there may be blanks."""
    head = text[:SEEN]
    rest = head.lstrip(CLOSERS + " \t\r\n" if blanks else CLOSERS)
    closers = (at for at, char in enumerate(head[: len(head) - len(rest)], 1) if char in CLOSERS)
    return list(islice(closers, MOST_CLOSERS))


def _without_blanks(closers: str) -> str:
    return "".join(closers.split())
