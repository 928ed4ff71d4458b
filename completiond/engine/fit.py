"""Whether everything fits into a device's memory, decided before anything is loaded.

Pure arithmetic on bytes. What has to give way goes in this order: the draft model, then keys and
values down to one context; then the model is refused. Each is one sentence for a person.
"""

from dataclasses import dataclass
from typing import NamedTuple

from completiond.errors import DeviceError
from completiond.model.size import Size

DRAFT_SHARE = 4
"""The draft model's slots get this part of the target's budget, beside it."""
CPU_KV = 512 << 20
"""The KV budget on a processor where none is set."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes. `kv` 0 means: 512 MiB on a processor, on a GPU what is left."""

    device: str
    free: int
    working: int  # for what a pass computes on the way, and for others
    target: Size
    context: int  # tokens that one run may have
    kv: int = 0
    graphs: int = 0  # of one model's recorded passes
    draft: Size | None = None

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"


class Fit(NamedTuple):
    """What is loaded: whether the draft is, the target's KV budget, and what gave way."""

    draft: bool
    kv: int
    notes: tuple[str, ...]


def fit(needs: Needs) -> Fit:
    """Raises DeviceError where the target and one context of it do not fit."""
    notes: list[str] = []
    draft = needs.draft is not None
    wanted = _asked(needs) or _least(needs)
    if draft and _kv_room(needs, draft) < wanted:
        draft = False
        notes.append(
            f"The draft model is left out: with it {_mib(wanted)} for keys and values do not fit "
            f"into the {_mib(needs.free)} that are free on {needs.device}."
        )
    room = _kv_room(needs, draft)
    if room < _least(needs):
        raise DeviceError(_refusal(needs))
    if room < wanted:
        notes.append(
            f"The KV cache gets {_mib(room)} instead of {_mib(wanted)}: more is not free on "
            f"{needs.device} beside the weights."
        )
        return Fit(draft, room, tuple(notes))
    return Fit(draft, _asked(needs) or room, tuple(notes))


def _kv_room(needs: Needs, draft: bool) -> int:
    """What is left for the target's keys and values, with or without a draft model."""
    left = needs.free - needs.working - needs.target.weights - needs.graphs
    if draft and needs.draft is not None:
        left -= needs.draft.weights + needs.graphs
        left = left * DRAFT_SHARE // (DRAFT_SHARE + 1)
    return max(0, left)


def _least(needs: Needs) -> int:
    """One context; less only where no more than that is asked for."""
    one, asked = needs.context * needs.target.token, _asked(needs)
    return min(one, asked) if asked else one


def _asked(needs: Needs) -> int:
    return needs.kv or (CPU_KV if needs.on_cpu else 0)


def _refusal(needs: Needs) -> str:
    total = needs.target.weights + needs.graphs + needs.working + _least(needs)
    return (
        f"The model does not fit on {needs.device}: it needs {_mib(total)} "
        f"({_mib(needs.target.weights)} of weights, {_mib(_least(needs))} for a context of "
        f"{needs.context} tokens) and {_mib(needs.free)} are free; serve a smaller model, set "
        "model.context lower, or free memory there."
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
