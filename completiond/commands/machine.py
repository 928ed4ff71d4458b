"""The machine as far as it decides how fast a model runs. Knows /proc and torch's device list."""

import os
from pathlib import Path

_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx_vnni": "AVX-VNNI",
    "avx512_bf16": "bf16",
    "amx_int8": "AMX int8",
    "amx_bf16": "AMX bf16",
    "asimd": "NEON",
    "asimddp": "dot product",
    "i8mm": "int8 matrices",
}


def processor() -> str:
    """Model name, cores that we may use, and the features that matter to kernels."""
    cpu = _fields("/proc/cpuinfo")
    flags = set((cpu.get("flags") or cpu.get("Features") or "").split())
    features = [name for flag, name in _FEATURES.items() if flag in flags]
    cores = len(os.sched_getaffinity(0))
    parts = [cpu.get("model name", ""), f"{cores} cores", ", ".join(features) or "no vector units"]
    return "; ".join(part for part in parts if part)


def memory() -> tuple[int, int]:
    """Bytes that are available, and bytes in all; zeros where /proc does not say."""
    found = _fields("/proc/meminfo")
    return _kib(found.get("MemAvailable", "")), _kib(found.get("MemTotal", ""))


def gpus() -> list[str]:
    """Name and memory of each GPU that torch can use."""
    import torch

    if not torch.cuda.is_available():
        return []
    devices = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
    return [f"{n}: {gpu.name}, {gpu.total_memory / 1e9:.0f} GB" for n, gpu in enumerate(devices)]


def _kib(text: str) -> int:
    return int(text.split()[0]) << 10 if text else 0


def _fields(path: str) -> dict[str, str]:
    """`name: value` lines; the first of each name."""
    found: dict[str, str] = {}
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found
