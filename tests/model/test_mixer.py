"""A kernel is used where it runs and agrees with torch's own operations; else it is said why."""

import logging
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from completiond.model import mixer
from completiond.model.frame import Gathered, Mix, Trees
from completiond.model.kv_cache import KVShape

SHAPE = KVShape(2, 2, 16, torch.float32, torch.device("cpu"))


class Close(Gathered):
    """A kernel that rounds differently."""

    def __call__(self, *args: object) -> Tensor:
        return super().__call__(*args) + 1e-6  # type: ignore[arg-type]


class ForgetsTrees(Gathered):
    def __call__(
        self, q: Tensor, stored: Tensor, trees: Trees, scale: float, window: int
    ) -> Tensor:
        own = torch.ones_like(trees.own).tril()
        return super().__call__(q, stored, trees._replace(own=own), scale, window)


class ForgetsWindows(Gathered):
    def __call__(
        self, q: Tensor, stored: Tensor, trees: Trees, scale: float, window: int
    ) -> Tensor:
        return super().__call__(q, stored, trees, scale, 0)


class NotANumber(Gathered):
    def __call__(self, *args: object) -> Tensor:
        return super().__call__(*args) * torch.nan  # type: ignore[arg-type]


class DoesNotCompile(Gathered):
    def __call__(self, *args: object) -> Tensor:
        raise RuntimeError("no C compiler\nand so on")


def test_a_kernel_that_agrees_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixer, "_kernel", lambda kv: Close)
    assert mixer.choose(SHAPE) is Close


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (ForgetsTrees, "off"),
        (ForgetsWindows, "off"),
        (NotANumber, "nan off"),
        (DoesNotCompile, "no C compiler"),
    ],
)
def test_a_kernel_that_errs_or_does_not_run_is_not_taken_and_that_is_said_once(
    kernel: Callable[[], Mix],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(mixer, "_kernel", lambda kv: kernel)
    with caplog.at_level(logging.WARNING):
        assert mixer.choose(SHAPE) is Gathered
    (record,) = caplog.records
    assert f"{why})" in record.getMessage()


@pytest.mark.parametrize("shape", [(48, torch.float32), (8, torch.float32), (16, torch.float64)])
def test_a_width_or_a_type_that_it_does_not_take_is_known_before(
    shape: tuple[int, torch.dtype],
) -> None:
    with pytest.raises(RuntimeError, match="no kernel for heads of width"):
        mixer._kernel(KVShape(2, 2, *shape, torch.device("cpu")))
