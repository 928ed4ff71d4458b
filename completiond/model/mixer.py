"""Which attention a frame gets on a device: the kernel where it runs and agrees, else torch's own.

Knows how to try one on a small pass; knows no weights. A kernel that cannot be built on a machine
(no compiler, another device, a width that it does not take) costs speed there, not service.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from subprocess import SubprocessError

import torch
from torch import Tensor

from completiond.model.attention import Pack, Segment
from completiond.model.block_pool import BLOCK, BlockPool
from completiond.model.frame import Frame, Gathered, Key, Mix
from completiond.model.kv_cache import KVShape

log = logging.getLogger(__name__)

PAST = 3 * BLOCK + 5
"""Tokens before the pass that is tried: some blocks, the last of them not full."""
TREES = ((None, 1, 1), ([-1, -1, 0, 0, 1, 2, 5], 7, 12))
"""(parents, rows, query heads a key head) of the passes that are tried: small and large tiles."""
CLOSE = {torch.bfloat16: 0.03, torch.float16: 0.01, torch.float32: 1e-4}


def choose(kv: KVShape) -> Callable[[], Mix]:
    """The mixer for slots of shape `kv`; why it is not the kernel is logged."""
    try:
        kernel = _kernel(kv)
        for parents, rows, groups in TREES:
            ours, theirs = (_tried(mix, kv, parents, rows, groups) for mix in (kernel, Gathered))
            apart = float((ours.float() - theirs.float()).abs().max())
            if not apart <= CLOSE.get(kv.dtype, 1e-4):
                raise RuntimeError(f"the kernel's answer is {apart:.2g} off")
    except (ImportError, RuntimeError, OSError, SubprocessError) as exc:
        why = str(exc).strip().partition("\n")[0][:200] or type(exc).__name__
        log.warning("attention copies its blocks together, which is slower (%s)", why)
        return Gathered
    return kernel


def _kernel(kv: KVShape) -> Callable[[], Mix]:
    if kv.width & (kv.width - 1) or kv.width < 16 or kv.dtype not in CLOSE:
        raise RuntimeError(f"no kernel for heads of width {kv.width} in {kv.dtype}")
    from triton.errors import TritonError

    from completiond.model.paged_kernel import Paged

    class Explained(Paged):
        """Errors of the kernel's compiler have a root of their own."""

        def __call__(self, *args: object) -> Tensor:
            try:
                return super().__call__(*args)  # type: ignore[arg-type]
            except TritonError as exc:
                raise RuntimeError(str(exc)) from exc

    return Explained


def _tried(
    mix: Callable[[], Mix], kv: KVShape, parents: list[int] | None, rows: int, groups: int
) -> Tensor:
    """One layer of a small pass over the same random numbers, whoever mixes."""
    shape = replace(kv, layers=1)
    pool = BlockPool(shape, 8 * BLOCK * shape.token_bytes)
    noise = torch.Generator().manual_seed(0)

    def random(*size: int) -> Tensor:
        return torch.randn(size, generator=noise).to(kv.device, kv.dtype)

    pool.kv.copy_(random(*pool.kv.shape))
    slot = pool.slot()
    slot.reserve(PAST)
    slot.keep([0] * PAST, range(PAST))
    frame = Frame(Key(8, 1, 8, 512), pool, mix)
    frame.fill(Pack([Segment(slot, [0] * rows, parents)], kv.dtype))
    q, k, v = (random(heads, 8, kv.width) for heads in (kv.heads * groups, kv.heads, kv.heads))
    return frame.attend(0, q, k, v, scale=kv.width**-0.5, window=64)[:rows]
