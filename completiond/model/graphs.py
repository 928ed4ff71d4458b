"""Passes that are recorded once per shape and replayed, for devices where starting operations is
dear: a small one takes longer to start than to compute.

Knows which shape a pass is padded to, how many recordings are kept, and what to do when one fails;
knows no weights. How a recording is made is the capture's business: plain calls on a CPU.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from completiond.model.attention import Pack
from completiond.model.block_pool import BlockPool
from completiond.model.frame import Apiece, Frame, Gathered, Key, Mix
from completiond.model.kv_cache import KVCache
from completiond.model.runner import Attends, Decoder, Runner, inputs

log = logging.getLogger(__name__)

WIDTHS = (1, 2, 4, 8, 16, 32, 64)
"""Rows that a pass is padded to; wider ones are prefill, where starting operations is cheap."""
SEGMENTS = (1, 4, 16)
EACH = 16
"""Rows of one segment where several are packed: a run's own token and its drafts."""
LEAST_CONTEXT = 512
"""The smallest context that is recorded; each further one is twice as long."""


class FramedDecoder(Decoder, Protocol):
    """A decoder that leaves attention to whoever it is given."""

    def __call__(
        self, ids: Tensor, positions: Tensor, pack: Attends, rows: Tensor, want: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]: ...


Run = Callable[[], Tensor]


class Capture(Protocol):
    """Records what `run` does to its buffers; the replay does it again and returns its result."""

    def __call__(self, run: Run) -> Run: ...


def plain(run: Run) -> Run:
    """On a CPU a pass is replayed by computing it."""
    return run


class CudaCapture:
    """Recordings of one device; they share the memory of what they compute on the way."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory = torch.cuda.graph_pool_handle()

    def __call__(self, run: Run) -> Run:
        """Raises RuntimeError for a pass that cannot be recorded."""
        here, side = torch.cuda.current_stream(self._device), torch.cuda.Stream(self._device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            run()  # libraries choose kernels and take memory the first time
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory, capture_error_mode="thread_local"):
            result = run()

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay


def key_of(pack: Pack) -> Key | None:
    """The smallest shape that holds the pass, or None where it is too wide to be recorded."""
    rows = [len(s.ids) for s in pack.segments]
    width = _least(WIDTHS, sum(rows))
    segments = _least(SEGMENTS, len(rows))
    if width is None or segments is None:
        return None
    each = width if segments == 1 else min(width, EACH)
    if max(rows) > each:
        return None
    context = LEAST_CONTEXT
    while context < max(len(s.slot) + len(s.ids) for s in pack.segments):
        context *= 2
    return Key(width, segments, each, context)


def _least(steps: Sequence[int], wanted: int) -> int | None:
    return next((step for step in steps if step >= wanted), None)


@dataclass(frozen=True, slots=True)
class Recorded:
    frame: Frame
    replay: Run


class GraphRunner(Runner):
    """A runner over a block pool. Keeps at most `most` recordings, those used last."""

    decoder: FramedDecoder

    def __init__(
        self,
        decoder: FramedDecoder,
        vocab_size: int,
        *,
        capture: Capture = plain,
        most: int = 64,
        mixer: Callable[[], Mix] = Gathered,
    ) -> None:
        super().__init__(decoder, vocab_size)
        self._capture = capture
        self._most = most
        self._mixer = mixer
        self._pool: BlockPool | None = None
        self._recorded: OrderedDict[Key, Recorded] = OrderedDict()
        self._failed: set[Key] = set()

    def cache(self, budget: int) -> KVCache:
        """The pool that all recordings read; there is one, and it stays where it is."""
        assert self._pool is None, "a runner's passes read one pool"
        self._pool = BlockPool(self.kv, budget)
        return KVCache(self.kv, budget, self._pool)

    @property
    def pool(self) -> BlockPool:
        assert self._pool is not None, "a pass needs the cache before it"
        return self._pool

    def _pass(self, pack: Pack, want: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        recorded = None if want else self._recording(pack)
        if recorded is None:
            return self._eager(pack, want)
        recorded.frame.fill(pack)
        return recorded.replay()[: len(pack.logit_rows)], {}

    def _eager(self, pack: Pack, want: Sequence[int]) -> tuple[Tensor, dict[int, Tensor]]:
        ids, positions, rows = inputs(pack, self.kv.device)
        return self.decoder(ids, positions, Apiece(pack, self.pool, self._mixer), rows, want)

    def _recording(self, pack: Pack) -> Recorded | None:
        """What is replayed for this pass; None if it is computed as it comes."""
        key = key_of(pack)
        if key is None or not self._most or key in self._failed:
            return None
        found = self._recorded.get(key) or self._record(key, pack)
        if found is not None:
            self._recorded[key] = found
            self._recorded.move_to_end(key)
        return found

    def _record(self, key: Key, pack: Pack) -> Recorded | None:
        """The first pass of a shape is recorded over its own content, which it then computes."""
        while len(self._recorded) >= self._most:
            self._recorded.popitem(last=False)
        try:
            frame = Frame(key, self.pool, self._mixer)
            frame.fill(pack)
            return Recorded(frame, self._capture(lambda: self._run(frame)))
        except RuntimeError as exc:  # torch.OutOfMemoryError is one
            why = str(exc).strip().partition("\n")[0][:200]
            level = logging.DEBUG if self._failed else logging.WARNING  # said once
            log.log(level, "passes of %d rows are not recorded but computed (%s)", key.width, why)
            self._failed.add(key)
            return None

    def _run(self, frame: Frame) -> Tensor:
        frame.begin()
        return self.decoder(frame.ids, frame.positions, frame, frame.rows, ())[0]
