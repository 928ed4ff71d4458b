"""The worker: flags at once, one message per pass, and a reason for everything that cannot run."""

import threading
from typing import Any

import pytest

from completiond.core import CancelToken
from completiond.engine import packing
from completiond.engine.job import Done, Failed, Job, Progress, Rules
from completiond.engine.scripted import Script, ScriptedCore, script_of
from completiond.engine.thread_engine import ThreadEngine
from completiond.engine.worker import Loaded, Worker
from completiond.errors import DeviceError, RequestError
from tests.engine.fakes import RULES, ids_of, job


def rules(_: Job) -> Rules:
    return RULES


class Told:
    """What the worker said, unpacked; `on` calls a hook with each list of events."""

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []
        self.worker = Worker(self.messages.append)

    def run(self, core: Any, *messages: list[Any]) -> bool:
        for message in messages:
            self.worker.deliver(message)
        self.worker.deliver([packing.STOP])
        return self.worker.run(lambda: Loaded(core, rules))

    @property
    def passes(self) -> list[list[Any]]:
        kind = packing.EVENTS
        return [[packing.unpack_event(e) for e in m[1]] for m in self.messages if m[0] == kind]

    @property
    def events(self) -> list[Any]:
        return [event for one in self.passes for event in one]


def submit(one: Job) -> list[Any]:
    return [packing.SUBMIT, packing.pack_job(one)]


class UntilIdle(ScriptedCore):
    """Puts the STOP behind the work: the worker takes a STOP as soon as it sees it."""

    def __init__(self, script: Script, worker: Worker) -> None:
        super().__init__(script)
        self.worker = worker

    def step(self) -> list[Any]:
        events = super().step()
        if not self.busy:
            self.worker.deliver([packing.STOP])
        return events


def scripted(told: Told, text: str = "ab\n") -> UntilIdle:
    return UntilIdle(script_of({"answers": [ids_of(text)]}), told.worker)


def run_until_idle(told: Told, core: UntilIdle, *messages: list[Any]) -> None:
    for message in messages:
        told.worker.deliver(message)
    assert told.worker.run(lambda: Loaded(core, rules))


def test_says_ready_first_then_one_message_per_pass():
    told = Told()
    run_until_idle(told, scripted(told), submit(job(1)), submit(job(2)))
    assert told.messages[0][0] == packing.READY
    assert [[type(e) for e in one] for one in told.passes] == [
        [Progress, Progress],
        [Progress, Progress],
        [Progress, Done, Progress, Done],
    ]


def test_a_model_that_cannot_be_loaded_is_told_with_its_code():
    told = Told()

    def load() -> Loaded:
        raise DeviceError("There is no cuda:7; choose cpu.")

    assert told.worker.run(load) is False
    assert told.messages == [[packing.REFUSED, "device", "There is no cuda:7; choose cpu."]]


def test_a_defect_while_loading_is_told_and_raised():
    told = Told()
    with pytest.raises(ZeroDivisionError):
        told.worker.run(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    assert told.messages[0][:2] == [packing.REFUSED, "engine"]
    assert "ZeroDivisionError" in told.messages[0][2]


def test_cancel_is_seen_although_its_job_is_still_in_the_mailbox():
    told = Told()
    messages = [submit(job(1)), submit(job(2)), [packing.CANCEL, 2, "abandoned", 0.0]]
    run_until_idle(told, scripted(told), *messages)
    (second,) = [e.outcome for e in told.events if isinstance(e, Done) and e.job == 2]
    assert (second.reason, second.passes) == ("abandoned", 0)


def test_cancel_and_revive_reach_a_running_job_at_once():
    told = Told()
    core = scripted(told)
    run_until_idle(
        told,
        core,
        submit(job(1)),
        [packing.CANCEL, 1, "superseded", 0.0],
        [packing.REVIVE, 1],
    )
    assert told.events[-1].outcome.reason == "line"


def test_a_run_that_nobody_waits_for_any_more_goes_on_last():
    told = Told()
    core = scripted(told)
    run_until_idle(told, core, submit(job(1)), submit(job(2)), [packing.DEMOTE, 1])
    assert [e.job for e in told.events if isinstance(e, Done)] == [2, 1]


def test_flags_of_runs_that_are_over_or_unknown_are_of_no_effect():
    told = Told()
    run_until_idle(told, scripted(told), submit(job(1)))
    for message in (
        [packing.CANCEL, 1, "abandoned", 0.0],
        [packing.REVIVE, 99],
        [packing.DEMOTE, 9],
    ):
        told.worker.deliver(message)
    assert told.run(scripted(told))


def test_what_cannot_be_admitted_fails_alone():
    class Picky(UntilIdle):
        def admit(self, one: Job, rules: Rules, cancel: CancelToken) -> None:
            if one.id == 1:
                raise RequestError("No.")
            super().admit(one, rules, cancel)

    told = Told()
    core = Picky(script_of({"answers": [ids_of("\n")]}), told.worker)
    run_until_idle(told, core, submit(job(1)), submit(job(2)))
    assert told.events[0] == Failed(1, "request", "No.")
    assert told.events[-1].job == 2


def test_stats_are_answered_while_runs_go_on():
    told = Told()
    run_until_idle(told, scripted(told), submit(job(1)), [packing.STATS, 7])
    (answer,) = [m for m in told.messages if m[0] == packing.STATS]
    assert answer[1] == 7
    assert answer[2]["waiting"] == 1


def test_an_idle_worker_waits_and_wakes():
    told = Told()
    core = scripted(told)
    thread = threading.Thread(target=lambda: told.worker.run(lambda: Loaded(core, rules)))
    thread.start()
    told.worker.deliver(submit(job(1)))
    thread.join(5)
    assert not thread.is_alive()
    assert told.events[-1].outcome.ids == list(ids_of("ab\n"))


@pytest.mark.parametrize("healed", ["", "naïve 🙂"])
def test_jobs_and_events_survive_the_packing(healed):
    from completiond.core import Outcome, Prompt, Sampling, Segment

    prompt = Prompt((1, 2, 300), (Segment("prefix", 0, 2), Segment("typed", 2, 3)), healed)
    one = Job(3, "b", "c", prompt, 9, Sampling(0.5, 4, 0.9, 7), {"mode": "line"}, (4, 5), 10, -1)
    stream = packing.unpacker()
    stream.feed(packing.pack([packing.SUBMIT, packing.pack_job(one)]))
    assert packing.unpack_job(next(stream)[1]) == one
    outcome = Outcome([1], "eos", 3, 1, 2, 1, {"lookup": 2}, {"lookup": 1}, 5, 6, 7, 8, 9)
    events = [Progress(3, (1, 2)), Done(3, outcome), Failed(3, "device", "No.")]
    stream.feed(packing.pack(packing.pack_events(events)))
    assert [packing.unpack_event(e) for e in next(stream)] == events


class Reads:
    """A reading of two slices for each text."""

    def __init__(self, told: Told) -> None:
        self.left, self.log, self.told = 0, list[Any](), told

    @property
    def busy(self) -> bool:
        return self.left > 0

    def put(self, *text: str) -> None:
        self.left += 2
        self.log.append(text)

    def forget(self, client: str) -> None:
        self.log.append(client)

    def slice(self) -> None:
        if self.left:
            self.left -= 1
            self.log.append("slice")
            if not self.left:
                self.told.worker.deliver([packing.STOP])


def test_texts_are_read_while_there_is_nothing_to_compute_and_a_job_goes_before_them():
    told = Told()
    reads = Reads(told)
    told.worker.deliver([packing.READ, "me", "f.py", "text"])
    told.worker.deliver([packing.FORGET, "you"])
    told.worker.deliver(submit(job(1)))
    core = ScriptedCore(script_of({"answers": [ids_of("ab\n")]}))
    passes: list[int] = []
    step = core.step

    def stepped() -> list[Any]:
        passes.append(reads.log.count("slice"))
        return step()

    core.step = stepped  # type: ignore[method-assign]
    assert told.worker.run(lambda: Loaded(core, rules, reads))  # type: ignore[arg-type]
    assert reads.log == [("me", "f.py", "text"), "you", "slice", "slice"]
    assert passes == [0, 0, 0] and len(told.events) == 4


async def test_texts_reach_the_reading_of_an_engine_that_is_ready_and_no_other():
    told = Told()
    reads = Reads(told)
    core = ScriptedCore(script_of({"answers": [ids_of("ab\n")]}))
    engine = ThreadEngine(lambda: Loaded(core, rules, reads))  # type: ignore[arg-type]
    engine.read("me", "early.py", "nobody is there yet")
    await engine.start()
    await engine.ready()
    engine.read("me", "f.py", "text")
    engine.forget("me")
    await engine.submit(job(1)).outcome
    await engine.stop(drain=True)
    assert [entry for entry in reads.log if entry != "slice"] == [("me", "f.py", "text"), "me"]


def test_a_core_that_drafts_from_no_text_takes_none():
    told = Told()
    core = scripted(told)
    run_until_idle(told, core, [packing.READ, "me", "f.py", "text"], submit(job(1)))
    assert isinstance(told.events[-1], Done)
