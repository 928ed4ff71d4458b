"""A configuration and a small model on disk become an engine; what does not fit is said."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tape import Tape
from tiny_checkpoint import saved

from completiond import config, engine_process
from completiond.core import CancelToken, Outcome, Prompt
from completiond.engine import load, timing
from completiond.engine.job import Done, Failed, Job, Rules
from completiond.engine.model_core import ModelCore
from completiond.errors import DeviceError
from completiond.model import kernels, loader
from completiond.model.checkpoint import ModelFiles, describe
from completiond.model.graphs import GraphRunner
from completiond.prompt.tokenizer import Tokenizer

MIB = 1 << 20


class Never:
    def step(self, ids: Sequence[int]) -> str | None:
        return None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    torch.manual_seed(0)
    return describe("tiny", saved(tmp_path_factory.mktemp("tiny"), "llama"))


def settings(**engine: object) -> config.Config:
    flags = {"engine.device": "cpu", "engine.kernel": "fp32", "engine.threads": 1}
    return config.load(flags | {f"engine.{k}": v for k, v in engine.items()}, environ={})


def answer(core: ModelCore, number: int = 0) -> Outcome:
    job = Job(number, f"b{number}", "c", Prompt((5, 6, 7, 5, 6, 7)), 12)
    core.admit(job, Rules(Never(), None), CancelToken())
    while core.busy:
        for event in core.step():
            assert not isinstance(event, Failed), event
            if isinstance(event, Done):
                return event.outcome
    raise AssertionError("no answer")


def test_an_engine_is_loaded_and_answers_with_and_without_a_draft(files: ModelFiles) -> None:
    core = load.load_core(settings(), files, files)
    info = core.info()
    assert (info["draft"], info["notes"]) == ("tiny", [])
    assert info["drafters"] == ["recycled", "suffix", "lookup", "small_model"]
    assert core.cache.budget == 512 * MIB and len(core.cache) == 0, "the trial left nothing"
    alone = load.load_core(settings(speculation="off"), files)
    assert len(answer(core).ids) == 12
    assert answer(core, 1).ids == answer(alone).ids


def test_parts_are_forced_by_name_and_the_first_layers_draft_in_the_target_s_own_slot(
    files: ModelFiles,
) -> None:
    plain = load.load_core(settings(speculation="off"), files)
    assert plain.info()["drafters"] == []
    truth = answer(plain)
    for names in (
        ["lookahead", "early_exit"],
        ["token_recycling"],
        ["suffix"],
        ["recycled", "lookup"],
    ):
        core = load.load_core(settings(speculation=",".join(names), policy="fixed"), files)
        found = answer(core)
        assert core.info()["drafters"] == names and found.ids == truth.ids
        assert "early_exit" not in names or found.accepted["early_exit"] > 0


def test_the_engine_process_drafts_from_the_texts_that_its_client_sent(files: ModelFiles) -> None:
    engine = {"device": "cpu", "threads": 1, "speculation": "suffix", "policy": "fixed"}
    start = {"kind": "model", "model": files.plain(), "draft": None}
    loaded = engine_process.load(start | {"config": {"engine": engine}})
    ids = Tokenizer.load(files.directory).encode("pqrstuv")
    assert loaded.reading is not None
    loaded.reading.put("c", "f.py", "pqrstuvwxyz")
    while loaded.reading.busy:
        loaded.reading.slice()
    drafted = []
    for number, client in enumerate(("c", "another")):
        job = Job(number, f"b{number}", client, Prompt(tuple(ids)), 1 + 1)
        loaded.core.admit(job, Rules(Never(), None), CancelToken())
        loaded.core.step()
        drafted.append(loaded.core.stats()["drafted"].get("suffix", 0))
        while loaded.core.busy:
            loaded.core.step()
    assert drafted == [1, 1], "one token has room, for the client whose text it is alone"


def test_a_cost_that_was_measured_on_a_busy_machine_is_not_kept_too_high(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is taken for too dear is never tried, and so never found to be cheap."""
    times = {1: 10.0, 2: 500.0, 4: 500.0, 8: 90.0, 16: 20.0, 32: 41.0}
    memory = Remembers()
    monkeypatch.setattr(timing, "Measured", lambda what: memory)
    monkeypatch.setattr(
        timing, "time_passes", lambda runner, cache, widths=(): {r: times[r] for r in widths}
    )
    core = load.load_core(settings(), files)
    costs = core.info()["pass_ms"]
    assert costs["1"] == pytest.approx(10) and costs["16"] == pytest.approx(20, rel=0.1)
    assert costs["2"] < 1.4 * 11 and costs["8"] < 1.4 * 17
    times |= {2: 11.0, 4: 12.0, 8: 13.0}
    for _ in range(3):
        costs = load.load_core(settings(), files).info()["pass_ms"]
    assert [costs[rows] for rows in ("2", "4", "8")] == pytest.approx([11, 12, 13], rel=0.05)


def test_the_best_that_was_ever_seen_is_kept_when_more_widths_are_timed(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Remembers({"1": 5.0, "32": 9.0})
    monkeypatch.setattr(timing, "Measured", lambda what: memory)
    monkeypatch.setattr(
        timing, "time_passes", lambda runner, cache, widths=(): {r: 50.0 for r in widths}
    )
    load.load_core(settings(threads=2), files)
    torch.set_num_threads(1)
    assert (memory.known["1"], memory.known["32"]) == (5.0, 9.0) and memory.known["8"] < 9.0


class Remembers:
    def __init__(self, known: dict[str, float] | None = None) -> None:
        self.known = known or {}

    def get(self, thing: str) -> dict[str, float]:
        return self.known

    def put(self, thing: str, values: dict[str, float]) -> None:
        self.known = values


def test_what_gives_way_is_logged_and_told(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda: 300 * MIB)
    core = load.load_core(settings(), files, files)
    dropped, shrunk = core.info()["notes"]
    assert dropped.startswith("The draft model is left out")
    assert shrunk.startswith("The KV cache gets")
    assert [r.getMessage() for r in caplog.records] == [dropped, shrunk]
    assert core.info()["draft"] == "" and "small_model" not in core.info()["drafters"]
    assert core.cache.budget < 45 * MIB
    assert len(answer(core).ids) == 12


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda: 100 * MIB)
    monkeypatch.setattr(load, "load_runner", None)
    with pytest.raises(DeviceError, match="does not fit on cpu"):
        load.load_core(settings(), files)


def test_memory_that_cannot_be_counted_is_taken_for_enough(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "free_bytes", lambda: 0)
    assert load.load_core(settings(), files).info()["notes"] == []


@pytest.mark.parametrize("where", ["load.load_runner", "timing.time_passes"])
def test_memory_that_runs_out_while_loading_is_a_device_error_with_a_sentence(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 20 GiB")

    monkeypatch.setattr(f"completiond.engine.{where}", fail)
    start = {"kind": "model", "model": files.plain(), "draft": None}
    values = {"engine": {"device": "cpu", "threads": 1}}
    with pytest.raises(DeviceError, match="not enough memory for the model; close other programs"):
        engine_process.load(start | {"config": values})


# As on a GPU, but for the device and the recordings


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Tape]:
    """`load_core` makes what it makes for a GPU, on the CPU."""
    tapes: list[Tape] = []

    def load_runner(
        directory: Path, vocab_size: int, device: torch.device, *, kernel: str, graphs: int
    ) -> GraphRunner:
        monkeypatch.setattr(loader, "fusable", lambda directory: None)
        decoder = loader.load_decoder(directory, device, kernel)
        tapes.append(Tape())
        return GraphRunner(decoder, vocab_size, capture=tapes[-1], most=graphs)  # type: ignore[arg-type]

    monkeypatch.setattr(load, "load_runner", load_runner)
    return tapes


@pytest.mark.slow
def test_a_pool_and_recordings_answer_the_same_for_target_and_draft(
    files: ModelFiles, recorded: list[Tape]
) -> None:
    core = load.load_core(settings(policy="fixed", draft_tokens=4), files, files)
    target, draft = recorded
    timed = target.recorded
    assert timed in (3, 6), "the widths that are timed at start, all of them only once"
    first, second = answer(core), answer(core, 1)
    assert first.ids == second.ids and first.accepted
    assert target.recorded > timed and draft.recorded > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand so on"),
            "CUDA out of memory. Tried to allocate 2 GiB",
        ),
        (IndexError("argmax(): nothing to choose from"), "argmax(): nothing to choose from"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_pass_that_fails_ends_its_runs_and_the_engine_goes_on(
    files: ModelFiles,
    recorded: list[Tape],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    why: str,
) -> None:
    core = load.load_core(settings(), files)
    truth = answer(core).ids

    def fail(*args: object) -> None:
        raise error

    held = Job(1, "b1", "c", Prompt((5, 6, 7, 5, 6, 7)), 12)
    core.admit(held, Rules(Never(), None), CancelToken())
    core.step()
    with monkeypatch.context() as patch:
        patch.setattr(core.decoding.runner, "_pass", fail)
        (event,) = core.step()
    assert isinstance(event, Failed) and event.job == 1
    assert event.message == f"A pass failed ({why}); ask again."
    assert not core.busy and not core.cache.held("b1")
    assert answer(core, 1).ids == truth and core.stats()["failed"] == 1


@pytest.mark.slow
def test_a_pool_that_is_full_ends_the_run_with_a_reason(
    files: ModelFiles, recorded: list[Tape]
) -> None:
    """What runs reserve is counted, so somebody took more than he said; the engine goes on."""
    core = load.load_core(settings(), files)
    pool = core.cache.storage
    taken = pool.take(pool.free)  # type: ignore[attr-defined]
    core.admit(Job(1, "b", "c", Prompt((5, 6)), 4), Rules(Never(), None), CancelToken())
    (event,) = core.step()
    assert isinstance(event, Failed) and "blocks free" in event.message
    pool.give_back(taken)  # type: ignore[attr-defined]
    assert len(answer(core).ids) == 12


def test_what_is_computed_with_is_chosen_once(
    files: ModelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine's choice is not remembered, and takes long there."""
    chosen: list[str] = []

    def choose(wanted: str, out: int, inputs: int) -> str:
        if wanted == "auto":
            chosen.append(wanted)
        return "fp32"

    monkeypatch.setattr(kernels, "choose", choose)
    core = load.load_core(settings(kernel="auto", speculation="off"), files)
    assert (len(chosen), core.info()["kernel"]) == (1, "fp32")
