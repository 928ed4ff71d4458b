"""The scripted core keeps the laws of the seam, with exact counts."""

import pytest

from completiond.core import Prompt, Sampling, Segment
from completiond.engine.job import Done, Job, Progress, Rules
from completiond.engine.scripted import Script, ScriptedCore, script_of
from completiond.errors import Overloaded, RequestError
from tests.engine.fakes import (
    RULES,
    Spell,
    StopAt,
    admit,
    done,
    ids_of,
    job,
    run_out,
    said,
)


def core(text: str = "answer\nmore", **more: float) -> ScriptedCore:
    return ScriptedCore(script_of({"answers": [ids_of(text)], **more}))


def test_answers_from_the_script_up_to_the_stop_rule():
    engine = core()
    admit(engine, job())
    events = run_out(engine)
    assert said(events) == "answer\n"
    outcome = done(events).outcome
    assert outcome.reason == "line"
    assert outcome.ids == list(ids_of("answer\n"))
    assert (outcome.prompt_tokens, outcome.reused, outcome.prefilled) == (3, 0, 3)
    assert outcome.passes == 7  # the pass that prefills yields the first token


def test_progress_tells_every_id_once_and_done_comes_last():
    engine = core(tokens_per_pass=3)
    admit(engine, job())
    events = run_out(engine)
    assert [e.ids for e in events if isinstance(e, Progress)] == [
        ids_of("a"),
        ids_of("nsw"),
        ids_of("er\n"),
    ]
    assert isinstance(events[-1], Done)
    assert sum(isinstance(e, Done) for e in events) == 1


@pytest.mark.parametrize(
    ("text", "max_tokens", "reason"),
    [("ab", 64, "eos"), ("abcdef", 4, "length"), ("ab", 0, "length")],
)
def test_every_end_has_a_reason(text, max_tokens, reason):
    engine = core(text)
    admit(engine, job(max_tokens=max_tokens))
    events = run_out(engine)
    assert done(events).outcome.reason == reason
    assert said(events) == text[:max_tokens]


def test_prefill_goes_in_chunks():
    engine = core("x", prefill_tokens_per_pass=4)
    admit(engine, job(prompt="0123456789"))
    assert engine.step() == []
    assert engine.step() == []
    assert said(engine.step()) == "x"
    assert done(run_out(engine)).outcome.prefilled == 10


def test_the_mask_is_obeyed_before_the_script_goes_on():
    engine = core("xyz")
    admit(engine, job(), rules=Rules(StopAt(), Spell(ids_of("qx"))))
    assert said(run_out(engine)) == "qxyz"


def test_a_document_is_continued_where_the_prompt_ends():
    engine = ScriptedCore(script_of({"document": ids_of("def f():\n    return 42\n")}))
    ids = (300, *ids_of("unknown def f():\n"), 301, *ids_of("    ret"))
    segments = (Segment("prefix", 1, 18), Segment("typed", 19, len(ids)))
    one = Job(1, "b", "c", Prompt(ids, segments), 64)
    admit(engine, one)
    assert said(run_out(engine)) == "urn 42\n"


def test_sampled_answers_follow_the_seed_and_greedy_is_the_first():
    engine = ScriptedCore(script_of({"answers": [ids_of(t) for t in ("a", "b", "c")]}))
    hot = [Sampling(temperature=0.6, seed=seed) for seed in (1, 2, 3)]
    admit(engine, job(1), *(job(i + 2, sampling=s) for i, s in enumerate(hot)))
    events = run_out(engine)
    assert [said(events, i) for i in (1, 2, 3, 4)] == ["a", "b", "c", "a"]


def test_runs_of_different_buffers_interleave_pass_by_pass():
    engine = core("xyz")
    admit(engine, job(1), job(2))
    order = [e.job for e in run_out(engine) if isinstance(e, Progress)]
    assert sorted(order) == [1, 1, 1, 2, 2, 2]
    assert all({order[i], order[i + 1]} == {1, 2} for i in (0, 2, 4))


def test_two_runs_of_one_buffer_never_share_its_slot():
    engine = core("xyz")
    admit(engine, job(1, buffer="same"), job(2, buffer="same"))
    order = [e.job for e in run_out(engine) if isinstance(e, Progress)]
    assert order == [1, 1, 1, 2, 2, 2]


def test_higher_priority_goes_first_and_equals_in_order():
    engine = core("x", width=1)
    admit(engine, job(1), job(2), job(3, priority=1))
    assert [e.job for e in run_out(engine) if isinstance(e, Done)] == [3, 1, 2]


def test_each_buffer_keeps_its_slot_and_the_longest_idle_is_forgotten():
    engine = core("\n", slots=2)
    prompts = {1: "aaaa", 2: "bbbb", 3: "aaaac", 4: "bbbbd"}
    for ident, prompt in prompts.items():
        admit(engine, job(ident, prompt=prompt, buffer=prompt[0]))
        outcome = done(run_out(engine), ident).outcome
        assert outcome.reused == (0 if ident < 3 else 4)
    admit(engine, job(5, prompt="cccc", buffer="c"))
    run_out(engine)
    admit(engine, job(6, prompt="aaaa", buffer="a"))
    assert done(run_out(engine), 6).outcome.reused == 0
    assert engine.stats()["evicted"] == 2


def test_the_last_token_of_a_prompt_is_always_computed():
    engine = core("\n")
    for ident in (1, 2):
        admit(engine, job(ident, buffer="same"))
        run = done(run_out(engine), ident).outcome
    assert (run.reused, run.prefilled) == (2, 1)


def test_cancelled_while_queued_never_computes():
    engine = core("xyz", width=1)
    _, second = admit(engine, job(1), job(2))
    engine.step()
    second.cancel("abandoned")
    events = run_out(engine)
    outcome = done(events, 2).outcome
    assert (outcome.reason, outcome.passes, outcome.ids) == ("abandoned", 0, [])
    assert outcome.tokens_after_cancel == 0
    assert done(events, 1).outcome.reason == "eos"


def test_abandoned_stops_at_the_next_pass_and_disturbs_nobody():
    engine = core("abcdef")
    first, _ = admit(engine, job(1), job(2))
    events = engine.step()
    first.cancel("abandoned")
    events += engine.step()
    outcome = done(events, 1).outcome
    assert (outcome.reason, outcome.ids, outcome.tokens_after_cancel) == ("abandoned", [97], 0)
    assert said(events + run_out(engine), 2) == "abcdef"


def test_superseded_lives_for_one_more_pass_without_grace():
    engine = core("abcdef")
    (token,) = admit(engine, job())
    events = engine.step()
    token.cancel("superseded", 0.0)
    events += run_out(engine)
    outcome = done(events).outcome
    assert (outcome.reason, outcome.ids) == ("superseded", list(ids_of("ab")))
    assert outcome.tokens_after_cancel == 1


def test_superseded_lives_for_its_grace_and_counts_from_its_end():
    engine = core("abc")
    (token,) = admit(engine, job())
    engine.step()
    token.cancel("superseded", 60.0)
    outcome = done(run_out(engine)).outcome
    assert (outcome.reason, outcome.tokens_after_cancel) == ("eos", 0)
    assert outcome.cancel_to_free_ns == 0


def test_revived_runs_go_on():
    engine = core("abc")
    (token,) = admit(engine, job())
    events = engine.step()
    token.cancel("superseded", 0.0)
    events += engine.step()
    assert token.revive()
    events += run_out(engine)
    assert (said(events), done(events).outcome.reason) == ("abc", "eos")


def test_time_is_up_for_running_and_queued_runs():
    engine = core("abc", pass_ms=2, width=1)
    admit(engine, job(1, max_ms=1), job(2, max_ms=1))
    events = run_out(engine)
    assert done(events, 1).outcome.reason == "timeout"
    assert (done(events, 2).outcome.reason, done(events, 2).outcome.passes) == ("timeout", 0)


def test_what_cannot_run_is_refused_with_a_reason():
    engine = ScriptedCore(Script(context=8))
    with pytest.raises(Overloaded):
        admit(engine, job(prompt="0123456789"))
    with pytest.raises(RequestError):
        engine.admit(Job(1, "b", "c", Prompt(()), 1), RULES, admit(core(), job())[0])
    assert not engine.busy


def test_counters_add_up():
    engine = core("xyz")
    first, _ = admit(engine, job(1), job(2))
    first.cancel("abandoned")
    run_out(engine)
    stats = engine.stats()
    assert (stats["runs"], stats["cancelled"], stats["generated"]) == (2, 1, 3)
    assert (stats["waiting"], stats["running"], stats["passes"]) == (0, 0, 3 + 1)


def test_clients_take_turns_however_many_runs_each_has():
    engine = core("xyz", width=2)
    admit(engine, *(job(i, client="flood") for i in range(1, 9)), job(9, client="other"))
    ended = [e.job for e in run_out(engine) if isinstance(e, Done)]
    assert ended.index(9) <= 1


def test_a_run_ahead_gets_no_pass_while_another_waits_or_runs():
    engine = core("abcdef")
    admit(engine, job(1, priority=-1))
    events = engine.step()
    admit(engine, job(2))
    events += run_out(engine)
    told = [e.job for e in events if isinstance(e, Progress)]
    assert told == [1, *[2] * 6, *[1] * 5]
    assert said(events, 1) == said(events, 2) == "abcdef"


def test_a_run_ahead_holds_neither_a_slot_nor_a_place_that_another_wants():
    for width, buffer in ((8, "same"), (1, "other")):
        engine = core("abc", width=width)
        admit(engine, job(1, buffer="same", priority=-1))
        engine.step()
        admit(engine, job(2, buffer=buffer))
        events = run_out(engine)
        assert done(events, 1).outcome.reason == "abandoned"
        assert done(events, 2).outcome.reason == "eos"


def test_a_run_ahead_that_was_taken_over_goes_on_beside_others():
    engine = core("abc")
    (token,) = admit(engine, job(1, priority=-1))
    engine.step()
    token.revive()
    admit(engine, job(2))
    assert {e.job for e in engine.step() if isinstance(e, Progress)} == {1, 2}


def test_fifteen_typists_are_slowed_by_one_who_floods_no_more_than_by_a_sixteenth_typist():
    def passes_of(flood: int) -> list[int]:
        """Passes from asking to the answer, of fifteen clients that ask one after the other."""
        engine = core("abcd", width=8)
        asked: dict[int, int] = {}
        took: list[int] = []
        ident, now, flooding = 0, 0, set[int]()

        def ask(client: str) -> int:
            nonlocal ident
            ident += 1
            admit(engine, job(ident, client=client))
            return ident

        for n in range(15):
            asked[ask(f"typist {n}")] = 0
        clients = dict(zip(asked, range(15), strict=True))
        while len(took) < 300:
            while len(flooding) < flood:
                flooding.add(ask("flood"))
            now += 1
            for event in engine.step():
                if isinstance(event, Done) and event.job in flooding:
                    flooding.discard(event.job)
                elif isinstance(event, Done):
                    took.append(now - asked.pop(event.job))
                    client = clients.pop(event.job)
                    again = ask(f"typist {client}")
                    asked[again], clients[again] = now, client
        return sorted(took)

    alone, one_more, flooded = passes_of(0), passes_of(1), passes_of(60)
    assert max(flooded) <= max(one_more) + 1
    assert flooded[150] <= one_more[150] + 1 <= alone[150] + 2
    assert max(flooded) <= 3 * flooded[150]
