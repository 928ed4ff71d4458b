"""Any causal language model that transformers knows, as a Decoder.

The model code stays the library's: its attention interface hands queries, keys and values to the
pass's Pack or frame, and a mask of four dimensions, which nobody reads, keeps the library from
building masks and from looking at the positions for it, which would wait for the device.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AutoModelForCausalLM, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface
from transformers.utils import logging as library_logging

from completiond.errors import ModelCorrupt, ModelUnsupported
from completiond.model.kv_cache import KVShape
from completiond.model.quantize import Kernel, kv_dtype, one_thread, replace_linears
from completiond.model.runner import Attends

ATTENTION = "completiond"
_NOT_OURS = ("softcap", "s_aux", "position_bias")
"""What some models add to attention's arguments, and what would be wrong to leave out."""


def _attend(
    module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, pack: Attends, **kwargs: Any
) -> tuple[Tensor, None]:
    """q [1, Hq, N, D] → [1, N, Hq, D], as the library's attention functions are called."""
    strange = [name for name in _NOT_OURS if kwargs.get(name) is not None]
    if strange:
        raise ModelUnsupported(
            f"{type(module).__name__} computes attention with {strange[0]}, which is not "
            "supported; use another model."
        )
    window = kwargs.get("sliding_window") or getattr(module, "sliding_window", None)
    scale = kwargs.get("scaling") or q.shape[-1] ** -0.5
    out = pack.attend(module.layer_idx, q[0], k[0], v[0], scale=scale, window=window)
    return out[None], None


AttentionInterface.register(ATTENTION, _attend)
AttentionMaskInterface.register(ATTENTION, lambda *args, **kwargs: None)


class LibraryDecoder:
    """A transformers model that was loaded with `attn_implementation=ATTENTION`."""

    def __init__(self, model: PreTrainedModel, kernel: str = "plain") -> None:
        self.model = model
        self.kernel = kernel
        config = model.config
        embedding: Tensor = model.get_input_embeddings().weight  # type: ignore[assignment]
        self.layers: int = config.num_hidden_layers
        self.vocab_size: int = config.vocab_size
        self._no_mask = torch.zeros(1, 1, 1, 1, dtype=embedding.dtype, device=embedding.device)
        self.kv = KVShape(
            layers=self.layers,
            heads=_kv_heads(config),
            width=getattr(config, "head_dim", None)
            or config.hidden_size // config.num_attention_heads,
            dtype=embedding.dtype,
            device=embedding.device,
        )

    def __call__(
        self, ids: Tensor, positions: Tensor, pack: Attends, rows: Tensor, want: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        out = self.model(
            input_ids=ids[None],
            position_ids=positions[None],
            attention_mask=self._no_mask,
            use_cache=False,
            logits_to_keep=rows,
            output_hidden_states=bool(want),
            pack=pack,
        )
        hidden = {layer: out.hidden_states[layer][0] for layer in want}
        logits = out.logits[0]
        return logits if logits.dtype == torch.float64 else logits.float(), hidden


def _kv_heads(config: Any) -> int:
    if getattr(config, "multi_query", False):
        return 1
    if getattr(config, "softcap", None) or getattr(config, "attn_logit_softcapping", None):
        raise ModelUnsupported(
            f"Models of type {config.model_type} cap their attention logits, which is not "
            "supported; use another model."
        )
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def load_library(directory: Path, device: torch.device, kernel: Kernel) -> LibraryDecoder:
    """The library's own model of `directory`, its linear layers in `kernel` on a CPU."""
    on_cpu = device.type == "cpu"
    model = _read(directory, torch.float32 if on_cpu and kernel == "fp32" else torch.bfloat16)
    if not on_cpu:
        return LibraryDecoder(model.to(device), kernel)
    _fit_cpu(model, kernel)
    decoder = LibraryDecoder(model, kernel)
    decoder.kv = replace(decoder.kv, dtype=kv_dtype(kernel))
    return decoder


def _read(directory: Path, dtype: torch.dtype) -> Any:
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    load: Any = AutoModelForCausalLM.from_pretrained  # its stub knows no loading report
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
    with one_thread():
        replace_linears(model, kernel)
    for parameter in model.parameters():
        if parameter.dtype == torch.bfloat16 and parameter.dim() == 1:
            parameter.data = parameter.data.float()
