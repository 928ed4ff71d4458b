#!/usr/bin/env python
"""What a GPU makes of the passes: one JSON line last, in at most four minutes, without a download.

Random models of the shapes of StarCoder2-3B and CodeLlama-7B, made on the device: milliseconds of a
pass by width, as it comes and recorded, at two depths of context, against the bytes that it must
move; whether speculation answers as plain decoding does; how long a cancel takes.
`--tiny --cpu` runs all of it in seconds where there is no GPU; its times mean nothing.
"""

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Queue
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Starcoder2Config

from completiond.core import CancelToken, Prompt
from completiond.drafters.costs import Costs
from completiond.drafters.lookup import Lookup
from completiond.drafters.recycled import Recycled
from completiond.engine import load, packing, timing
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Failed, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.engine.scheduler import PassSize
from completiond.engine.worker import Loaded, Worker
from completiond.model import mixer
from completiond.model.attention import Segment
from completiond.model.graphs import WIDTHS, CudaCapture, GraphRunner, plain
from completiond.model.kv_cache import KVCache, Slot
from completiond.model.library import ATTENTION, LibraryDecoder
from completiond.model.sampling import process

SHAPES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "starcoder2-3b": (
        Starcoder2Config,
        {"vocab_size": 49_152, "hidden_size": 3072, "intermediate_size": 12_288}
        | {"num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2}
        | {"max_position_embeddings": 16_384, "sliding_window": 4096, "use_bias": True},
    ),
    "codellama-7b": (
        LlamaConfig,
        {"vocab_size": 32_016, "hidden_size": 4096, "intermediate_size": 11_008}
        | {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32}
        | {"max_position_embeddings": 16_384},
    ),
}
TINY = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2}


class Scale(NamedTuple):
    """How much is measured: contexts and trials; prompts and tokens of speculation; cancels."""

    contexts: tuple[int, ...] = (1024, 4096)
    trials: int = 20
    prompts: int = 6
    tokens: int = 64
    cancels: int = 30
    copied: int = 2 << 30


SMALL = Scale((64, 128), 2, 2, 12, 4, 1 << 22)


class Never:
    def step(self, ids: Sequence[int]) -> str | None:
        return None


RULES = Rules(Never(), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--cpu", action="store_true", help="on the processor, for a try")
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, few trials")
    parser.add_argument("--seconds", type=float, default=230, help="no new part begins after that")
    arguments = parser.parse_args()
    device = torch.device("cpu" if arguments.cpu else arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here; --tiny --cpu tries the script without one")
    print(json.dumps(check(device, SMALL if arguments.tiny else Scale(), arguments)))


def check(device: torch.device, scale: Scale, arguments: Any) -> dict[str, Any]:
    end = time.monotonic() + arguments.seconds
    copy_rate = _copy_rate(device, scale.copied)
    models: dict[str, Any] = {}
    for name in SHAPES:
        with torch.inference_mode():
            models[name] = _Model(name, device, arguments.tiny).check(scale, copy_rate, end)
        if device.type == "cuda":
            torch.cuda.empty_cache()
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    about = {"check": "gpu", "device": gpu, "torch": torch.__version__, "tiny": arguments.tiny}
    return about | {"copy_gb_s": round(copy_rate / 1e9, 1), "models": models}


def _copy_rate(device: torch.device, size: int) -> float:
    """Bytes a second that a copy reads and writes: what a pass is measured against."""
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * size / min(_seconds(lambda: target.copy_(source), device) for _ in range(8))


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Model:
    """One shape with random weights, and its passes: recorded, and as they come."""

    def __init__(self, name: str, device: torch.device, tiny: bool) -> None:
        make, numbers = SHAPES[name]
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2 if "star" in name else 4}
        ends = {"bos_token_id": 0, "eos_token_id": 0}
        config = make(**(numbers | ends | (TINY | heads if tiny else {})))
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(
                config, dtype=dtype, attn_implementation=ATTENTION
            )
        self.device, self.tiny = device, tiny
        self.decoder = LibraryDecoder(model.eval(), str(dtype).removeprefix("torch."))
        on_gpu = device.type == "cuda"
        self.mixer = mixer.choose(self.decoder.kv) if on_gpu else mixer.Gathered
        self.vocabulary = int(config.vocab_size)
        self.parameters = sum(p.numel() for p in model.parameters())
        table = 0 if config.tie_word_embeddings else self.vocabulary * config.hidden_size
        self.moved = (self.parameters - table) * dtype.itemsize

    def runner(self, most: int = 64) -> GraphRunner:
        capture = CudaCapture(self.device) if self.device.type == "cuda" else plain
        how: dict[str, Any] = {"capture": capture, "mixer": self.mixer}
        return GraphRunner(self.decoder, self.vocabulary, most=most, **how)

    def check(self, scale: Scale, copy_rate: float, end: float) -> dict[str, Any]:
        tokens = max(scale.contexts) + 2 * max(WIDTHS)
        recorded, eager = self.runner(), self.runner(0)
        budget = (tokens + 64) * self.decoder.kv.token_bytes
        mixes = "copied" if self.mixer is mixer.Gathered else "kernel"
        found: dict[str, Any] = {"parameters": self.parameters, "attention": mixes}
        found |= self._times(recorded, eager, budget, (scale, copy_rate, end))
        parts = {"speculation": self._speculation, "cancel": self._cancel}
        for name, part in parts.items():
            found[name] = part(scale) if time.monotonic() < end else "skipped: no time left"
        return found

    def ids(self, count: int, seed: int = 0) -> list[int]:
        rng = random.Random(seed)
        return [rng.randrange(self.vocabulary) for _ in range(count)]

    # -- passes -----------------------------------------------------------------------------------

    def _times(
        self,
        recorded: GraphRunner,
        eager: GraphRunner,
        budget: int,
        how: tuple[Scale, float, float],
    ) -> dict[str, Any]:
        """Milliseconds by context and width, and how far the logits of the two ways differ."""
        scale, copy_rate, end = how
        slots = [r.cache(budget).acquire("t", scale.contexts[-1] + 128) for r in (recorded, eager)]
        table: dict[str, Any] = {}
        differs = 0.0
        for context in scale.contexts:
            for runner, slot in zip((recorded, eager), slots, strict=True):
                _prefill(runner, slot, self.ids(context))
            rows: dict[str, Any] = {}
            for width in WIDTHS if time.monotonic() < end else ():
                both = [
                    self._pass(runner, slot, width, scale.trials)
                    for runner, slot in zip((recorded, eager), slots, strict=True)
                ]
                (fast, mine), (slow, theirs) = both
                differs = max(differs, float((mine - theirs).abs().max()))
                moved = self.moved + (context + width) * self.decoder.kv.token_bytes
                rows[str(width)] = {
                    "eager": round(slow * 1000, 3),
                    "recorded": round(fast * 1000, 3),
                    "bandwidth": round(moved / fast / copy_rate, 3),
                }
            table[str(context)] = rows
        count = {"recordings": len(recorded._recorded), "not_recorded": len(recorded._failed)}
        return {"ms": table, "logits_differ": round(differs, 6)} | count

    def _pass(
        self, runner: GraphRunner, slot: Slot, width: int, trials: int
    ) -> tuple[float, torch.Tensor]:
        segment = Segment(slot, self.ids(width, width), None, range(width))
        logits = runner.forward([segment]).rows.clone()
        took = [_seconds(lambda: runner.forward([segment]), self.device) for _ in range(trials)]
        return statistics.median(took), logits

    # -- speculation ------------------------------------------------------------------------------

    def _core(self, *drafters: Any, rows: int = 0) -> ModelCore:
        """With passes of `rows`, or of what fits the time that the engine aims for."""
        runner = self.runner()
        cache: KVCache = runner.cache(6 * 1024 * self.decoder.kv.token_bytes)
        costs = Costs(timing.time_passes(runner, cache))
        target_ms = 1e9 if rows else max(load.SHORT_MS, load.LARGE_PASS * costs.ms(1))
        size = PassSize(target_ms, rows or costs.rows_within(target_ms))
        return ModelCore(Decoding(runner, drafters, 7), cache, size, context=4096)

    def _speculation(self, scale: Scale) -> dict[str, Any]:
        """Greedy answers with drafts that are right but for some tokens, against plain ones.

        In bf16 a pass of another width rounds differently, so an answer may part where the two
        best tokens are close: the gap there is reported.
        """
        alone, drafting = self._core(rows=256), self._core(Recycled(), Lookup(), rows=256)
        same, passes, gaps = 0, 0, []
        for number in range(scale.prompts):
            prompt = tuple(self.ids(scale.contexts[0] // 2, 100 + number))
            job = Job(number, str(number), "c", Prompt(prompt), scale.tokens)
            truth = _answer(alone, job).outcome.ids
            hint = [t if i % 9 else (t + 1) % self.vocabulary for i, t in enumerate(truth, 1)]
            fields = {name: getattr(job, name) for name in Job.__slots__}
            outcome = _answer(drafting, Job(**(fields | {"hint": tuple(hint)}))).outcome
            same += outcome.ids == truth
            passes += outcome.passes
            gaps += self._gap(alone, prompt, truth, outcome.ids)
        return {
            "answers": scale.prompts,
            "same": same,
            "tokens_a_pass": round(scale.prompts * scale.tokens / passes, 2),
            "gaps_where_they_part": gaps,
        }

    def _gap(
        self, core: ModelCore, prompt: Sequence[int], one: Sequence[int], two: Sequence[int]
    ) -> Iterator[float]:
        """Between the two best logits where the answers part; nothing if they do not."""
        parts = next((i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b), None)
        if parts is not None:
            slot = core.cache.acquire("gap", len(prompt) + len(one))
            logits = _prefill(core.decoding.runner, slot, [*prompt, *one[:parts]])
            first, second = process(logits, Job.__dataclass_fields__["sampling"].default).topk(2)[0]
            slot.release()
            yield round(float(first - second), 5)

    # -- cancelling -------------------------------------------------------------------------------

    def _cancel(self, scale: Scale) -> dict[str, Any]:
        """From an abandonment, at a random moment of a long prompt, to a run that is over."""
        events: Queue[list[Any]] = Queue()
        worker = Worker(events.put)
        core = self._core()
        loaded = Loaded(core, lambda job: RULES)
        thread = threading.Thread(target=worker.run, args=(lambda: loaded,), daemon=True)
        thread.start()
        took, rng = [], random.Random(0)
        assert events.get(timeout=60)[0] == packing.READY
        for number in range(scale.cancels):
            prompt = Prompt(tuple(self.ids(2 * scale.contexts[0], 500 + number)))
            job = Job(number, "b", "c", prompt, scale.tokens)
            worker.deliver([packing.SUBMIT, packing.pack_job(job)])
            time.sleep(rng.random() * 0.04)
            started = time.perf_counter()
            worker.deliver([packing.CANCEL, number, "abandoned", 0.0])
            while not _ended(events.get(timeout=60), number):
                pass
            took.append((time.perf_counter() - started) * 1000)
        worker.deliver([packing.STOP])
        thread.join(60)
        took.sort()
        return {"median_ms": round(statistics.median(took), 2), "longest_ms": round(took[-1], 2)}


def _prefill(runner: Any, slot: Slot, ids: Sequence[int]) -> torch.Tensor:
    """The logits behind `ids`, of which the slot keeps what it has."""
    slot.rewind(ids)
    logits = torch.empty(0)
    while len(slot) < len(ids):
        logits = runner.prefill(slot, ids[len(slot) : len(slot) + 256])
    return logits


def _answer(core: ModelCore, job: Job) -> Done:
    core.admit(job, RULES, CancelToken())
    while True:
        for event in core.step():
            if isinstance(event, Failed):
                raise SystemExit(f"a run failed: {event.message}")
            if isinstance(event, Done):
                return event


def _ended(message: list[Any], number: int) -> bool:
    events = map(packing.unpack_event, message[1] if message[0] == packing.EVENTS else ())
    return any(isinstance(event, Done | Failed) and event.job == number for event in events)


if __name__ == "__main__":
    main()
