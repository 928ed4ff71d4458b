"""A capture for tests that behaves like a recording of a device, on a CPU.

It notes each operation with its very tensors and runs the same operations on them again. So what
a pass takes from Python while it is recorded stays as it was, and an operation that would wait for
the device, or whose shape depends on content, is refused.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")


class Waits(RuntimeError):
    pass


class _Notes(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in WAITS:
            raise Waits(f"{name} waits for the device")
        if any(isinstance(i, Tensor) and i.dtype == torch.bool for i in _indices(name, args)):
            raise Waits(f"{name} by a mask has a shape that depends on content")
        out = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, out))
        return out


def _indices(name: str, args: Any) -> Any:
    return args[1] if name in ("index", "index_put", "index_put_") else ()


class Tape:
    """How often it recorded and replayed; `fail` makes the next recording fail."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0
        self.fail: Exception | None = None

    def __call__(self, run: Callable[[], Tensor]) -> Callable[[], Tensor]:
        if self.fail is not None:
            raise self.fail
        run()
        with _Notes() as notes:
            result = run()
        self.recorded += 1
        assert notes.calls, "nothing was computed"

        def replay() -> Tensor:
            self.replayed += 1
            for func, args, kwargs, out in notes.calls:
                _overwrite(out, func(*args, **kwargs))
            return result

        return replay


def _overwrite(old: Any, new: Any) -> None:
    for mine, theirs in zip(tree_flatten(old)[0], tree_flatten(new)[0], strict=True):
        if isinstance(mine, Tensor) and mine.data_ptr() != theirs.data_ptr():  # else a view
            mine.copy_(theirs)
