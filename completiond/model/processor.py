"""What this processor multiplies fast, and a limit on it for trying the paths of others.

Torch's libraries read the limit from their own environment variables when they are first used, so
`limit` must come before torch is imported. Knows names of instruction sets; knows no kernels.
"""

import os
import platform
from collections.abc import Mapping
from typing import NamedTuple

_PRODUCT = "FBGEMM_ENABLE_INSTRUCTIONS"
_LIMITS: Mapping[str, Mapping[str, str]] = {
    "auto": {},
    "vnni": {
        _PRODUCT: "AVX512_E1",
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",
    },
    "avx512": {
        _PRODUCT: "AVX512",
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
    },
    "avx2": {
        _PRODUCT: "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}
"""By the value of `engine.isa`: the most that is used of a processor that has more."""


class Processor(NamedTuple):
    """`vnni`: int8 products accumulate in int32 at once. `halves`: bf16 products."""

    vnni: bool
    halves: bool


def limit(isa: str) -> None:
    """Use no more than `isa`, a value of `engine.isa`; before torch is imported."""
    os.environ.update(_LIMITS[isa])


def detect() -> Processor:
    """What may be used here, within the limit."""
    import torch  # not above: `limit` comes first

    most = os.environ.get(_PRODUCT)
    return Processor(
        vnni=torch.cpu._is_vnni_supported() and most in (None, "AVX512_E1"),
        halves=torch.cpu._is_avx512_bf16_supported() and most is None,
    )


def name() -> str:
    """The processor's own name, and the limit if there is one: what is measured depends on it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = (line.partition(":") for line in file)
            model = next((value.strip() for key, _, value in lines if "model name" in key), "")
    except OSError:
        model = ""
    limited = os.environ.get(_PRODUCT)
    return (model or platform.processor() or platform.machine()) + (f", {limited}" * bool(limited))
