"""The arithmetic of `bench.py quality`: agreement, KL, intervals, paired differences, gaps."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

import bench_divergence as divergence  # noqa: E402
import bench_items as items  # noqa: E402
import bench_quality as quality  # noqa: E402
import infill_items  # noqa: E402

HOLE: dict[str, Any] = {
    "id": "1",
    "kind": "line-rest",
    "language": "python",
    "prefix": "x = ",
    "suffix": "\n",
    "middle": "1",
}


def item(key: str, set_name: str = "a") -> infill_items.Item:
    return infill_items.Item(set_name, key, "line-rest", "python", "x = ", "\n", "1")


def test_equal_logits_agree_and_have_no_divergence() -> None:
    logits = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    score = quality.score(logits, logits + 3.0)  # a constant changes no probability
    assert score.top == 1.0
    assert score.positions == 40
    assert abs(score.kl) < 1e-6


def test_kl_is_that_of_the_two_distributions_in_nats() -> None:
    p, q = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])
    want = 0.5 * math.log(2) + 0.25 * math.log(0.5)
    score = quality.score(p.log()[None].repeat(70, 1), q.log()[None].repeat(70, 1))
    assert score.kl == pytest.approx(want, rel=1e-5)
    assert score.top == 0.0


def test_the_reference_is_the_first_of_the_two() -> None:
    sharp, flat = torch.tensor([[9.0, 0.0]]), torch.tensor([[1.0, 0.0]])
    assert quality.score(sharp, flat).kl != pytest.approx(quality.score(flat, sharp).kl)


def test_an_interval_narrows_with_the_root_of_the_number() -> None:
    few, many = quality.with_interval([0.9, 1.0] * 8), quality.with_interval([0.9, 1.0] * 800)
    assert few["mean"] == many["mean"] == 0.95
    widths = [found["interval"][1] - found["interval"][0] for found in (few, many)]
    assert widths[0] / widths[1] == pytest.approx(10, rel=0.1)


def test_a_paired_difference_counts_only_where_the_two_differ() -> None:
    found = items.paired([True, True, False, True], [True, False, False, False])
    assert found["difference"] == 0.5
    assert (found["only_first"], found["only_second"]) == (2, 0)
    low, high = found["interval"]
    assert low < 0.5 < high


def test_two_that_are_always_alike_differ_by_nothing_for_sure() -> None:
    found = items.paired([True, False] * 50, [True, False] * 50)
    assert found["difference"] == 0
    assert found["interval"] == [0, 0]


def test_items_come_by_set_with_what_the_hole_held(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(HOLE) + "\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(json.dumps(HOLE) + "\n", encoding="utf-8")
    assert [found.key for found in infill_items.read_items(tmp_path)] == ["a/1", "b/1"]
    assert infill_items.read_items(tmp_path)[0] == item("1")


def test_a_directory_without_items_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data"):
        infill_items.read_items(tmp_path)


def test_a_run_goes_on_behind_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    results = items.Results(path)
    results.add("int8", item("1"), True, "1")
    results.add("bf16", item("1"), False, "2\n3")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"kernel": "int8", "it')
    again = items.Results(path)
    assert again.exact == {("int8", "a/1"): True, ("bf16", "a/1"): False}
    again.add("int8", item("2"), True, "1")
    assert len(items.Results(path).exact) == 3


def test_exact_matches_are_counted_by_set_and_kernel(tmp_path: Path) -> None:
    results = items.Results(tmp_path / "results.jsonl")
    found = [item("1"), item("2"), item("1", "b")]
    for one in found:
        results.add("bf16", one, one.id == "1", "")
        results.add("int8", one, one.set == "b", "")
    rows = list(items.by_set(found, results, ["bf16", "int8"]))
    assert rows[1:] == ["a | 2 | 1 | 0", "b | 1 | 1 | 1"]


def test_what_is_spread_out_reaches_from_the_first_to_near_the_last() -> None:
    assert infill_items.spread_out(range(100), 4) == [0, 25, 50, 75]
    assert infill_items.spread_out(range(3), 10) == [0, 1, 2]


def plain() -> divergence.Plain:
    logits = [torch.tensor([2.0, 1.5, 0.0]), torch.tensor([0.0, 3.0, 1.0])]
    return divergence.Plain([0, 1], logits, [0.5, 2.0])


def test_equal_rows_do_not_diverge() -> None:
    assert divergence.compare(plain(), plain().logits) == divergence.Again(2, 2, None)


def test_rounding_that_keeps_the_best_token_is_seen_but_is_no_divergence() -> None:
    moved = [plain().logits[0] + 1e-6, plain().logits[1]]
    assert divergence.compare(plain(), moved) == divergence.Again(2, 1, None)


def test_a_divergence_is_the_first_other_token_and_its_gap_is_plains() -> None:
    other = [torch.tensor([1.7, 1.8, 0.0]), torch.tensor([9.0, 0.0, 0.0])]
    again = divergence.compare(plain(), other)
    assert again == divergence.Again(1, 0, 0)
    found = divergence.summary([(plain(), again), (plain(), divergence.Again(2, 2, None))])
    assert (found["runs"], found["diverged"], found["rate"]) == (2, 1, 0.5)
    assert found["gaps"] == [0.5]
    assert found["rows_equal_to_the_bit"] == pytest.approx(2 / 3, abs=1e-4)
