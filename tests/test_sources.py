"""What of a client's text is handed over to be drafted from, and when again."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from completiond.core import Snapshot
from completiond.sessions import Buffer
from completiond.sources import LEAST, Sources

TEXT = "".join(f"line {n} of a long file\n" for n in range(1000))
HEAD = 6000
"""Where the prompt of the tests begins."""


@dataclass
class Reads:
    """An engine that is only read to."""

    told: list[tuple[str, str, str]] = field(default_factory=list)

    def read(self, client: str, document: str, text: str) -> None:
        self.told.append((client, document, text))


def around(engine: Any, buffer: Any, text: str, cursor: int, head: int = HEAD) -> None:
    snapshot = Snapshot.around(text, cursor, document="d", version=1, language="", path="f.py")
    at = head - snapshot.offset
    built: Any = SimpleNamespace(head=snapshot.before[at : at + 48])
    ticket: Any = SimpleNamespace(
        client=b"\x01", snapshot=snapshot, request=SimpleNamespace(document="d")
    )
    Sources(engine).around(ticket, buffer, built)


def test_what_the_prompt_leaves_out_on_both_sides_is_read_once_while_one_types() -> None:
    engine, buffer = Reads(), Buffer[Any]()
    for typed in ("", "x", "xy"):
        around(engine, buffer, TEXT[:9000] + typed + TEXT[9000:], 9000 + len(typed))
    (one, before, front), (two, after, behind) = engine.told
    assert {one, two} == {"01"} and before != after
    assert front == TEXT[:HEAD] and TEXT[9000:].startswith(behind) and len(behind) > 4096


def test_a_jump_out_of_the_window_and_another_text_are_read_anew() -> None:
    engine, buffer = Reads(), Buffer[Any]()
    around(engine, buffer, TEXT, 9000)
    around(engine, buffer, TEXT, 22_000, head=19_000)
    assert len(engine.told) == 4
    around(engine, buffer, TEXT.replace("long", "short"), 22_000, head=19_000)
    assert len(engine.told) == 6


def test_line_ends_are_those_of_prompts() -> None:
    engine = Reads()
    around(engine, Buffer[Any](), TEXT.replace("\n", "\r\n"), 9000)
    assert engine.told and not any("\r" in text for *_, text in engine.told)


@pytest.mark.parametrize("text", ["", "short\n", "x" * (LEAST - 1)])
def test_little_text_is_not_read(text: str) -> None:
    engine = Reads()
    around(engine, Buffer[Any](), text, len(text), head=0)
    assert not engine.told
