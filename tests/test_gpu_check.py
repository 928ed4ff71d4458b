"""scripts/gpu_check.py runs to its end where there is no GPU, so that it runs where there is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parent.parent / "scripts" / "gpu_check.py"
WIDTHS = ["1", "2", "4", "8", "16", "32", "64"]


@pytest.mark.slow
def test_the_whole_check_runs_on_a_processor_with_tiny_shapes() -> None:
    command = [sys.executable, str(SCRIPT), "--tiny", "--cpu"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert sorted(found["models"]) == ["codellama-7b", "starcoder2-3b"]
    for name, model in found["models"].items():
        assert [list(rows) for rows in model["ms"].values()] == [WIDTHS, WIDTHS], name
        for rows in model["ms"].values():
            assert all(min(row["eager"], row["recorded"]) > 0 for row in rows.values())
        assert model["logits_differ"] < 1e-3 and model["not_recorded"] == 0
        assert model["speculation"]["same"] == model["speculation"]["answers"] > 0
        assert model["speculation"]["tokens_a_pass"] > 1.5
        assert model["cancel"]["longest_ms"] > 0


@pytest.mark.slow
def test_without_a_gpu_it_says_so_at_once() -> None:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 2 and "no GPU here" in ran.stderr


@pytest.mark.gpu
@pytest.mark.slow
def test_on_a_gpu_every_shape_is_recorded_and_agrees() -> None:
    """Skipped where there is none: this part has not run yet."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    command = [sys.executable, str(SCRIPT), "--tiny"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, ran.stderr
    for model in json.loads(ran.stdout.splitlines()[-1])["models"].values():
        assert model["recordings"] >= len(WIDTHS) and model["not_recorded"] == 0
        assert model["logits_differ"] < 0.1
