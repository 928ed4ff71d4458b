"""A model directory (config.json, safetensors) to a Decoder on a device.

Knows which pass and which kernel a device gets, and maps foreign errors to ours; the arithmetic is
elsewhere. Never touches the network, never runs code or reads pickles from a checkpoint.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from completiond.errors import DeviceError, ModelCorrupt, ModelUnsupported
from completiond.model import kernels, mixer, quantize
from completiond.model.fused import FusedDecoder, fusable
from completiond.model.graphs import CudaCapture, GraphRunner
from completiond.model.quantize import Kernel
from completiond.model.runner import Decoder, Runner


def choose_device(wanted: str) -> torch.device:
    """`auto`, `cpu` or `cuda:N`. Raises DeviceError for a GPU that is not there."""
    if wanted == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    unknown = f"Device {wanted!r} is not one of auto, cpu or cuda:N."
    try:
        device = torch.device(wanted)
    except RuntimeError as exc:
        raise DeviceError(unknown) from exc
    if device.type not in ("cpu", "cuda"):
        raise DeviceError(unknown)
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise DeviceError(
            f"There is no GPU {device.index or 0}: {count} found. "
            "Use --cpu, or a number that `completiond doctor` lists."
        )
    return device


def load_runner(
    directory: Path, vocab_size: int, device: torch.device, *, kernel: str, graphs: int
) -> Runner:
    """The model of `directory` behind its passes: as they come on a CPU, recorded on a GPU."""
    if device.type == "cpu":
        return Runner(load_decoder(directory, device, kernel), vocab_size)
    with explained(directory, device):
        from completiond.model.library import load_library

        decoder = load_library(directory, device, "bf16")
        how: dict[str, Any] = {"capture": CudaCapture(device), "mixer": mixer.choose(decoder.kv)}
        return GraphRunner(decoder, vocab_size, most=graphs, **how)


def choose_kernel(directory: Path, device: torch.device, wanted: str) -> Kernel:
    """What linear layers of this model are computed with on this device; raises as a load does."""
    if device.type != "cpu":
        return "bf16"
    with explained(directory, device):
        return kernels.choose(wanted, *_largest_layer(directory))


def load_decoder(directory: Path, device: torch.device, kernel: str = "auto") -> Decoder:
    """The model of `directory` on `device`, by the fused pass where there is one for it.

    On CPU linear layers use `kernel` and all else is float32; on a GPU all is bfloat16. Raises
    ModelCorrupt, ModelUnsupported or DeviceError.
    """
    on_cpu = device.type == "cpu"
    chosen = choose_kernel(directory, device, kernel)
    with explained(directory, device):
        shape = fusable(directory) if on_cpu else None
        if shape is not None:
            by_shape = chosen == "int8"
            packer = kernels.int8_packer(shape.products) if by_shape else quantize.packer(chosen)
            return FusedDecoder(directory, shape, chosen, packer)
        # The library takes two seconds to import; a model that is fused does without.
        from completiond.model.library import load_library

        return load_library(directory, device, chosen)


def _largest_layer(directory: Path) -> tuple[int, int]:
    """[out, in] of the layer that takes most of a pass; a rough one will do."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    hidden = int(config.get("hidden_size") or config.get("n_embd") or 1024)
    return int(config.get("intermediate_size") or config.get("n_inner") or 4 * hidden), hidden


@contextmanager
def explained(directory: Path, device: torch.device) -> Iterator[None]:
    """What goes wrong while a model is read, as one sentence that says what to do."""
    try:
        yield
    except SafetensorError as exc:
        raise ModelCorrupt(
            f"The weights in {directory} cannot be read ({_first_line(exc)}). "
            "Remove the model and pull it again."
        ) from exc
    except (torch.OutOfMemoryError, MemoryError) as exc:
        raise _no_room(directory, device, exc) from exc
    except (OSError, ValueError, KeyError, RuntimeError) as exc:
        if "allocate memory" in str(
            exc
        ):  # torch has no class of its own for a CPU allocation that fails
            raise _no_room(directory, device, exc) from exc
        raise ModelUnsupported(
            f"{directory} does not load as a causal language model ({_first_line(exc)}). "
            "It needs a config.json of a type that transformers knows, and safetensors weights."
        ) from exc


def _no_room(directory: Path, device: torch.device, exc: BaseException) -> DeviceError:
    return DeviceError(
        f"{directory.name} does not fit on {device} ({_first_line(exc)}). "
        "Serve a smaller model or free memory there."
    )


def _first_line(exc: BaseException) -> str:
    text = str(exc).strip().splitlines()
    return text[0][:200] if text else type(exc).__name__
