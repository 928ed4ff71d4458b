"""Random models small enough for float64: one per family, with the library's own as reference.

`tiny_runner` and `reference` with the same arguments hold the same weights. All are cached: a
runner has no state of its own. Weights are wide enough that attention matters, and the head is
scaled so that the logits have the standard deviation `sharpness`.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    GemmaConfig,
    GPTBigCodeConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Starcoder2Config,
)

from completiond.model.attention import Segment
from completiond.model.kv_cache import Slot
from completiond.model.library import ATTENTION, LibraryDecoder
from completiond.model.quantize import largest_activation
from completiond.model.runner import Runner

torch.set_num_threads(1)  # small matrices lose by threads where cores are shared

WINDOW = 16
"""Sliding window of the families that have one."""
PADDING = 6
"""Rows of the head behind the real vocabulary."""
_WIDE = 0.25  # of the initial weights: four times what the library takes, so that layers matter

_SCALED = {
    "logits_scaling": 3.0,
    "attention_multiplier": 0.2,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 0.5,
}
FAMILIES: dict[str, tuple[Callable[..., PreTrainedConfig], dict[str, Any]]] = {
    "qwen2": (Qwen2Config, {}),
    "llama": (LlamaConfig, {}),
    "starcoder2": (Starcoder2Config, {"sliding_window": WINDOW}),
    "mistral": (MistralConfig, {"sliding_window": WINDOW}),
    "gemma": (GemmaConfig, {"head_dim": 16}),
    "granite": (GraniteConfig, _SCALED),
    "gpt_bigcode": (GPTBigCodeConfig, {}),
}
WINDOWED = ("starcoder2", "mistral")


def coarseness() -> float:
    """How much larger an error of int8 is on this processor than on one with VNNI: weights are
    rounded alike, activations in twice the step, and both errors are independent."""
    return float(((1 + (127 / largest_activation()) ** 2) / 2) ** 0.5)


def tiny_config(family: str, vocab: int = 64, layers: int = 2, width: int = 32) -> PreTrainedConfig:
    make, extra = FAMILIES[family]
    return make(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=1 if family == "gpt_bigcode" else 2,
        max_position_embeddings=2048,
        initializer_range=_WIDE,
        tie_word_embeddings=False,
        pad_token_id=None,
        bos_token_id=0,
        eos_token_id=0,
        **extra,
    )


@lru_cache(maxsize=64)
@torch.no_grad()
def reference(
    family: str = "qwen2",
    *,
    seed: int = 0,
    vocab: int = 64,
    layers: int = 2,
    dtype: torch.dtype = torch.float64,
    sharpness: float = 2.0,
    blur: float = 0.0,
) -> PreTrainedModel:
    """The library's model, all but its norms in `dtype`; `blur` moves its weights."""
    config = tiny_config(family, vocab + PADDING, layers)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").double()
        for parameter in model.parameters():
            if parameter.dim() == 1:  # norms and biases start as ones and zeros
                parameter += 0.1 * torch.randn_like(parameter)
        ids = torch.randint(vocab, (1, 64))
        model.get_output_embeddings().weight *= sharpness / model.eval()(ids).logits.std()
        for parameter in model.parameters():
            parameter += blur * _WIDE * torch.randn_like(parameter)
    return model.to(dtype)


@lru_cache(maxsize=64)
def tiny_runner(
    family: str = "qwen2",
    *,
    seed: int = 0,
    vocab: int = 64,
    layers: int = 2,
    dtype: torch.dtype = torch.float64,
    sharpness: float = 2.0,
    blur: float = 0.0,
) -> Runner:
    """Ours. `vocab` ids are real; the head has PADDING more rows, which the runner cuts off."""
    plain = reference(
        family,
        seed=seed,
        vocab=vocab,
        layers=layers,
        dtype=dtype,
        sharpness=sharpness,
        blur=blur,
    )
    config = deepcopy(plain.config)
    ours = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION).to(dtype).eval()
    ours.load_state_dict(plain.state_dict(), assign=True)
    return Runner(LibraryDecoder(ours), vocab)


@torch.inference_mode()
def reference_logits(ids: Sequence[int], family: str = "qwen2", **same: Any) -> Tensor:
    """[n, vocab]: the library's own logits after each of `ids`, its padded rows cut off."""
    logits = reference(family, **same)(torch.tensor([list(ids)]), use_cache=False).logits[0]
    return logits[:, : same.get("vocab", 64)]


def random_ids(n: int, *, seed: int = 0, vocab: int = 64) -> list[int]:
    return torch.randint(vocab, (n,), generator=torch.Generator().manual_seed(seed)).tolist()


def fresh_slot(runner: Runner, ids: Sequence[int]) -> Slot:
    """A new slot that holds exactly `ids`, computed in one pass."""
    slot = Slot(runner.kv)
    if ids:
        runner.forward([Segment(slot, ids)])
        slot.keep(ids, range(len(ids)))
    return slot


def assert_fresh(runner: Runner, slot: Slot, tolerance: float = 1e-9) -> None:
    """The law of the cache: it equals a fresh prefill of the ids it says it holds."""
    fresh = fresh_slot(runner, slot.ids)
    for layer in range(runner.kv.layers):
        for mine, theirs in zip(slot.keys_values(layer), fresh.keys_values(layer), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)
