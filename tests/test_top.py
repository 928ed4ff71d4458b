"""The record in a terminal: what is drawn is what was recorded, at any width, with any name."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rows_made import DAEMON, full, key

from completiond.commands.top_view import AROUND_BAR, Seen, screen
from completiond.protocol.messages import Status
from completiond.record import place
from completiond.record.store import Store

Run = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.usefixtures("apart")
READY = Status(
    1, "ready", "a model", "cpu", 9.0, 2, 1, 1, {"kv_bytes": 3 << 20, "kv_budget": 9 << 20}
)


def drawn(seen: Seen, width: int = 120) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(screen(seen, "an hour", width))
    return console.export_text().splitlines()


def test_what_was_recorded_is_shown(run: Run) -> None:
    store = Store(place.following(None, place.directory()), DAEMON)
    store.write({1: full(), 2: full(kind="none", reason="superseded", outcome="", path="b.py")})
    store.close()
    code, text, _ = run("top", "--once")
    assert code == 0 and "No daemon answers" in text
    assert "2 keys" in text and "suffix 42% of 24" in text and "superseded 1" in text
    assert "a.py" in text and "b.py" in text and "90.8 ms" not in text and "91 ms" in text


def test_without_a_record_it_says_so(run: Run) -> None:
    code, text, _ = run("top", "--once")
    assert code == 0 and "No key has been recorded yet" in text


def test_a_record_that_cannot_be_read_is_said(run: Run) -> None:
    place.directory().mkdir(parents=True)
    (place.directory() / "record-1.db").write_bytes(b"no database" * 500)
    code, text, _ = run("top", "--once")
    assert code == 0 and "cannot be read" in text


def test_the_daemon_is_told_of(run: Run) -> None:
    lines = drawn(Seen(status=READY))
    assert "ready" in lines[0] and "2 clients" in lines[0] and "KV 3 of 9 MiB" in lines[0]


@pytest.mark.parametrize("width", [40, 69, 70, 80, 200])
def test_it_fits_any_terminal(width: int) -> None:
    lines = drawn(Seen(keys=[key(path="x" * 300), key(total_us=None)]), width)
    assert all(len(line) <= width for line in lines)


def test_a_bar_is_as_long_as_its_share_of_the_longest_key() -> None:
    none = {"before_us": 0, "there_us": 0, "lookup_us": 0, "back_us": 0, "total_us": None}
    keys = [key(**none, decode_us=4 * us, prefill_us=us) for us in (40_000, 20_000)]
    bars = [line.count("█") for line in drawn(Seen(keys=keys)) if "█" in line]
    assert bars == [120 - AROUND_BAR, (120 - AROUND_BAR) // 2]


def test_a_name_cannot_tell_the_terminal_anything() -> None:
    text = "\n".join(drawn(Seen(keys=[key(path="a\x1b[2Jb.py"), key(path="[red]c.py")])))
    assert "\x1b" not in text and "a?[2Jb.py" in text and "[red]c.py" in text
