"""What was measured is kept; a file that is damaged costs a measurement and nothing else."""

import json
from pathlib import Path

import pytest

from completiond.model import measured
from completiond.model.measured import Measured, machine


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(measured, "cache_dir", lambda: tmp_path)
    return tmp_path


def test_what_was_put_is_got_beside_what_was_there(cache: Path) -> None:
    Measured("times").put("a", {"x": 1.5})
    Measured("times").put("b", {"y": 2.0})
    assert Measured("times").get("a") == {"x": 1.5} and Measured("times").get("b") == {"y": 2.0}
    assert Measured("times").get("c") == {} and Measured("others").get("a") == {}


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000, "[]", '{"m": 1}', "\0", "null"])
def test_a_damaged_file_is_an_empty_one_and_is_mended(cache: Path, text: str) -> None:
    (cache / "times.json").write_text(text, encoding="utf-8")
    assert Measured("times").get("a") == {}
    Measured("times").put("a", {"x": 1.0})
    assert Measured("times").get("a") == {"x": 1.0}


@pytest.mark.parametrize("value", ["1", None, -1, float("inf"), float("nan"), 10**400, [1], True])
def test_a_value_that_is_no_measurement_is_none(cache: Path, value: object) -> None:
    known = {machine(): {"a": {"x": value}}}
    (cache / "times.json").write_text(json.dumps(known), encoding="utf-8")
    assert Measured("times").get("a") == {}
