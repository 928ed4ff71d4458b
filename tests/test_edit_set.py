"""The edit-like set is what its rule says of the traces, and was not picked by hand."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt.vocabularies import DATA, real

SCRIPT = Path(__file__).parent.parent / "scripts" / "make_edit_set.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_edit_set", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


edit_set = load()


def event(offset: int, put: str = "", cut: str = "") -> dict[str, object]:
    return {"offset": offset, "insert": put, "delete": cut}


def found(before: str, *events: dict[str, object]) -> list[tuple[str, str, str]]:
    runs = edit_set.runs({"before_text": before, "events": list(events)})
    return [(run.before, run.text, run.after) for run in runs]


def test_what_is_typed_in_one_place_is_one_run_with_its_corrections_done() -> None:
    typed = [event(1, "x"), event(2, "q"), event(2, cut="q"), event(2, "y"), event(1)]
    assert found("ab", *typed) == [("a", "xy", "b")]


def test_another_place_is_another_run_and_sees_the_first() -> None:
    assert found("ab", event(2, "c"), event(0, "z")) == [("ab", "c", ""), ("", "z", "abc")]


def test_a_line_that_is_replaced_leaves_what_replaced_it() -> None:
    assert found("a\nold\nb", event(2, cut="old"), event(2, "new")) == [("a\n", "new", "\nb")]


def test_a_closing_bracket_behind_the_cursor_belongs_to_the_run() -> None:
    assert found("", event(0, "f()"), event(2, "x")) == [("", "f(x)", "")]


@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30))
def test_covered_tokens_are_those_in_a_known_window(ids: list[int], text: list[int]) -> None:
    n = edit_set.MATCH
    known = {tuple(text[i : i + n]) for i in range(len(text) - n + 1)}
    starts = [i for i in range(len(ids) - n + 1) if tuple(ids[i : i + n]) in known]
    assert edit_set.covered(ids, known) == len({i + k for i in starts for k in range(n)})


@pytest.mark.slow
def test_the_committed_list_is_what_the_rule_finds() -> None:
    directory = DATA / "traces_dev"
    if not directory.is_dir():
        pytest.skip(f"no traces in {directory}")
    tokenizer = real("qwen")
    entries = json.loads(edit_set.LIST.read_text(encoding="utf-8"))["items"]
    traces = list(edit_set.traces(directory))
    assert entries == [e for trace in traces for e in edit_set.listed(tokenizer, trace)]
    items = list(edit_set.items(edit_set.LIST, directory))
    assert [len(item.middle) for item in items] == [entry["characters"] for entry in entries]
