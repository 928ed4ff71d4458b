"""What is added up from headers is what a loaded model holds."""

from pathlib import Path

import pytest
import torch
from tiny_checkpoint import saved

from completiond.model.loader import load_decoder
from completiond.model.size import size_of
from tiny import FAMILIES, reference, tiny_runner

CPU = torch.device("cpu")


@pytest.mark.parametrize("family", FAMILIES)
def test_on_a_gpu_it_is_two_bytes_a_parameter_and_an_element(tmp_path: Path, family: str) -> None:
    model = reference(family, dtype=torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    size = size_of(tmp_path, on_cpu=False, kernel="int8")
    assert size.weights == 2 * sum(p.numel() for p in model.parameters())
    assert size.token == tiny_runner(family).kv.token_bytes // 4  # that one is in float64


@pytest.mark.parametrize("kernel", ["bf16", "fp32"])
@pytest.mark.parametrize("tied", [False, True])
def test_on_a_processor_it_is_what_the_fused_pass_holds(
    tmp_path: Path, kernel: str, tied: bool
) -> None:
    saved(tmp_path, "llama", tie_word_embeddings=tied)
    size = size_of(tmp_path, on_cpu=True, kernel=kernel)
    decoder = load_decoder(tmp_path, CPU, kernel)
    assert size.token == decoder.kv.token_bytes
    assert 0 <= held_by(decoder) - size.weights < 64  # a constant or two


def held_by(thing: object, seen: set[int] | None = None) -> int:
    """Bytes of all tensors that an object reaches, but for the mapped table."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return thing.nbytes
    inner = list(getattr(thing, "__closure__", None) or ())
    inner = [cell.cell_contents for cell in inner]
    if isinstance(thing, list | tuple):
        inner += thing
    slots = getattr(type(thing), "__slots__", ())
    names = {n for n in (*slots, *getattr(thing, "__dict__", ())) if n not in LEFT_OUT}
    return sum(held_by(x, seen) for x in [*inner, *(getattr(thing, n) for n in names)])


LEFT_OUT = {"_table", "_frequencies", "__dict__", "__weakref__"}


def test_int8_is_a_byte_a_weight_and_a_little_for_each_row(tmp_path: Path) -> None:
    saved(tmp_path, "llama")
    eight, half = (size_of(tmp_path, on_cpu=True, kernel=k).weights for k in ("int8", "bf16"))
    assert half / 2 < eight < half
