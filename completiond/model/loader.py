"""A model directory (config.json, safetensors) to a Decoder on a device.

Knows which kernel a device gets and maps the library's errors to ours; the arithmetic is
elsewhere. Never touches the network, never runs code or reads pickles from a checkpoint.
"""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from completiond.errors import DeviceError, ModelCorrupt, ModelUnsupported
from completiond.model.fused import FusedDecoder, fusable
from completiond.model.library import ATTENTION, LibraryDecoder
from completiond.model.quantize import Kernel, choose_kernel, replace_linears

log = logging.getLogger(__name__)


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


def load_decoder(directory: Path, device: torch.device, kernel: str = "auto") -> Decoder:
    """The model of `directory` on `device`, by the fused pass where there is one for it.

    On CPU linear layers use `kernel` and all else is float32; on a GPU all is bfloat16. Raises
    ModelCorrupt, ModelUnsupported or DeviceError.
    """
    on_cpu = device.type == "cpu"
    chosen: Kernel = choose_kernel(kernel) if on_cpu else "bf16"
    shape = fusable(directory) if on_cpu else None
    if shape:
        return _mapped_errors(directory, lambda: FusedDecoder(directory, shape, chosen))
    model = _read(directory, torch.float32 if on_cpu and chosen == "fp32" else torch.bfloat16)
    try:
        if on_cpu:
            _fit_cpu(model, chosen)
        else:
            model.to(device)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as exc:
        raise DeviceError(
            f"{directory.name} does not fit on {device} ({_first_line(exc)}). "
            "Serve a smaller model or free memory there."
        ) from exc
    decoder = LibraryDecoder(model, chosen)
    if on_cpu:
        decoder.kv = replace(decoder.kv, dtype=torch.float32)
    return decoder


def _read(directory: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as library_logging

    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    load: Any = AutoModelForCausalLM.from_pretrained  # its stub knows no loading report
    try:
        model, report = load(
            directory,
            dtype=dtype,
            attn_implementation=ATTENTION,
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            ignore_mismatched_sizes=True,  # reported, like what is missing, and refused below
            output_loading_info=True,
        )
    except SafetensorError as exc:
        raise ModelCorrupt(
            f"The weights in {directory} cannot be read ({_first_line(exc)}). "
            "Remove the model and pull it again."
        ) from exc
    except (OSError, ValueError, KeyError, RuntimeError) as exc:
        raise ModelUnsupported(
            f"{directory} does not load as a causal language model ({_first_line(exc)}). "
            "It needs a config.json of a type that transformers knows, and safetensors weights."
        ) from exc
    _refuse_gaps(directory, report)
    return model.eval()


def _refuse_gaps(directory: Path, report: dict[str, Any]) -> None:
    """The library fills tensors that are missing or of another shape with noise; we do not."""
    bad = [*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])]
    if bad:
        raise ModelCorrupt(
            f"The weights in {directory} lack {len(bad)} tensors or have them in another shape, "
            f"among them {min(bad)}. Remove the model and pull it again."
        )


def _fit_cpu(model: nn.Module, kernel: Kernel) -> None:
    """Linear layers in `kernel`, the large table in bf16, norms and biases in float32."""
    replace_linears(model, kernel)
    for parameter in model.parameters():
        if parameter.dtype == torch.bfloat16 and parameter.dim() == 1:
            parameter.data = parameter.data.float()


def _first_line(exc: BaseException) -> str:
    text = str(exc).strip().splitlines()
    return text[0][:200] if text else type(exc).__name__
