"""The kernel is the one that measures best, once per machine and shape; each one is right alone."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_checkpoint
import torch

from completiond.model import kernels, measured, processor
from completiond.model.measured import machine
from completiond.model.quantize import KERNELS, Packer, packer

TIMES = {"int8": 1.0, "bf16": 2.0, "fp32": 8.0}


def file() -> Path:
    return measured.cache_dir() / "kernels.json"


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Kernels whose layers were timed, with times that are always the same; an empty cache."""
    asked: list[str] = []

    def layers(kernel: str, shapes: object) -> str:
        asked.append(kernel)
        return kernel

    monkeypatch.setattr(measured, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(kernels, "_layers", layers)
    monkeypatch.setattr(kernels, "_round", lambda kernel, _: TIMES[kernel] / len(kernels.ROWS))
    monkeypatch.setattr(kernels, "packer", lambda kernel: kernel)
    monkeypatch.setattr(kernels.processor, "detect", lambda: processor.Processor(True, True))
    return asked


def test_the_kernel_that_is_asked_for_is_used_unmeasured(timed: list[str]) -> None:
    assert [kernels.choose(kernel, 64, 32) for kernel in KERNELS] == list(KERNELS)
    assert not timed


def test_a_shape_is_measured_once_and_another_one_again(timed: list[str]) -> None:
    assert kernels.choose("auto", 64, 32) == kernels.choose("auto", 64, 32) == "int8"
    assert timed == list(KERNELS)
    kernels.choose("auto", 64, 48)
    assert len(timed) == 2 * len(KERNELS)


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', "\x00", '{"a": {"64 x 32": 3}}'])
def test_a_file_that_is_not_ours_is_measured_over(timed: list[str], text: str) -> None:
    file().parent.mkdir(parents=True)
    file().write_text(text, encoding="utf-8")
    assert kernels.choose("auto", 64, 32) == "int8"
    assert json.loads(file().read_text())[machine()]["64 x 32"] == TIMES


def test_a_busy_moment_costs_all_alike_and_is_not_remembered(
    timed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, rounds = 3 * len(KERNELS), itertools.count()

    def slow_at_first(kernel: str, rows: int) -> float:
        return TIMES[kernel] * (50.0 if next(rounds) < busy else 1.0)

    monkeypatch.setattr(kernels, "_round", slow_at_first)
    assert kernels.choose("auto", 64, 32) == "int8"
    assert not file().exists(), "it is measured again at the next start"
    assert kernels.choose("auto", 64, 32) == "int8" and file().exists()


def test_what_another_machine_measured_is_kept_and_not_believed(timed: list[str]) -> None:
    file().parent.mkdir(parents=True)
    other = {"other | 64 threads | torch 9": {"64 x 32": {"int8": 9.0, "bf16": 1.0, "fp32": 2.0}}}
    file().write_text(json.dumps(other), encoding="utf-8")
    assert kernels.choose("auto", 64, 32) == "int8" and timed
    assert other.items() <= json.loads(file().read_text()).items()


def test_a_cache_that_cannot_be_written_costs_only_the_measurement(
    timed: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(measured, "cache_dir", lambda: tmp_path / "file")
    assert kernels.choose("auto", 64, 32) == "int8"


@pytest.mark.parametrize("faster", kernels.WAYS.values(), ids=kernels.WAYS)
def test_int8_gets_the_library_that_is_faster_on_its_shapes(
    faster: Packer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernels, "_layers", lambda make, _: make)
    monkeypatch.setattr(kernels, "_round", lambda make, _: 1.0 + (make is not faster))
    monkeypatch.setattr(measured, "cache_dir", lambda: tmp_path)
    assert kernels.int8_packer([(64, 32), (128, 32)]) is faster


def test_without_vnni_int8_must_be_much_faster() -> None:
    assert kernels.best({"int8": 1.0, "bf16": 1.4, "fp32": 2.0}, vnni=False) == "bf16"
    assert kernels.best({"int8": 1.0, "bf16": 1.4, "fp32": 2.0}, vnni=True) == "int8"
    assert kernels.best({"int8": 1.0, "bf16": 9.0, "fp32": 2.0}, vnni=False) == "int8"


def test_measuring_a_real_layer_takes_milliseconds_of_every_kernel() -> None:
    layers = {kernel: kernels._layers(packer(kernel), [(256, 64)]) for kernel in KERNELS}
    for rounds in kernels._in_turns(layers).values():
        assert [len(spent) for spent in rounds] == [kernels.ROUNDS] * len(kernels.ROWS)
        assert all(0 < took < 1000 for spent in rounds for took in spent)


FORCED = """
import sys
from completiond.model import processor
processor.limit(sys.argv[1])
import torch
from pathlib import Path
from completiond.model.attention import Segment
from completiond.model.kv_cache import Slot
from completiond.model.loader import load_decoder
from completiond.model.quantize import FbgemmInt8, turned
from completiond.model.runner import Runner

level = torch.backends.cpu.get_cpu_capability()
assert level == {"avx2": "AVX2"}.get(sys.argv[1], "AVX512"), level
largest = turned(torch.ones(8, 896))  # once more turned, all are as large as int8 goes
large = FbgemmInt8(largest * 0.02)(largest[:2])
assert torch.allclose(large, torch.full((2, 8), 0.02 * 896), rtol=0.01), large  # no overflow
ids = [i % 7 + 3 for i in range(20)]
found = []
for kernel in ("fp32", "int8"):
    runner = Runner(load_decoder(Path(sys.argv[2]), torch.device("cpu"), kernel), 20)
    rows = []
    for widths in ([20], [1] * 20, [7, 12, 1]):
        slot, logits = Slot(runner.kv), []
        for n in widths:
            part = ids[len(slot) : len(slot) + n]
            logits.append(runner.forward([Segment(slot, part, None, range(n))]).logits[0])
            slot.keep(part, range(n))
        rows.append(torch.cat(logits))
    assert kernel == "fp32" or all(torch.equal(rows[0], other) for other in rows[1:])
    found.append(rows[0])
print(float((found[0] - found[1]).norm() / found[0].norm()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["avx2", "avx512", "vnni", "auto"])
def test_int8_is_right_and_exact_on_processors_that_have_less(isa: str, tmp_path: Path) -> None:
    if isa != "avx2" and torch.backends.cpu.get_cpu_capability() != "AVX512":
        pytest.skip("this processor has no AVX-512")
    model = tiny_checkpoint.saved(
        tmp_path, hidden_size=72, intermediate_size=200, num_hidden_layers=2
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORCED, isa, str(model)],
        capture_output=True,
        text=True,
        env=os.environ | {"COMPLETIOND_CACHE": str(tmp_path / "cache")},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.05
