"""The product's promise on the real small model and the default kernel."""

from pathlib import Path

import pytest
import torch

from completiond.config import load
from completiond.core import CancelToken, Prompt, Sampling
from completiond.drafters.policies import FixedK
from completiond.engine.decode import Decoding
from completiond.engine.job import Done, Job, Rules
from completiond.engine.load import load_core
from completiond.model import store
from completiond.model.attention import Segment
from completiond.model.kv_cache import Slot
from completiond.model.loader import choose_device, load_runner
from completiond.prompt.tokenizer import Tokenizer

pytestmark = pytest.mark.model


class Never:
    def step(self, ids: object) -> None:
        return None


def test_speculation_chunks_and_neighbours_change_no_token_of_the_real_model() -> None:
    """Bit for bit on int8: the same ids with chains, with trees and without drafts, in passes of
    any width."""
    files = store.resolve("qwen2.5-coder-0.5b")
    core = load_core(load({"engine.kernel": "int8", "engine.device": "cpu"}), files)
    runner, drafters = core.decoding.runner, core.decoding.drafters
    ways = {
        "plain": Decoding(runner, [], 0),
        "planned": core.decoding,
        "trees": Decoding(runner, drafters, 15, FixedK(15)),
    }
    encode = Tokenizer.load(files.directory).encode
    sources = sorted(Path(__file__).parents[2].glob("completiond/*.py"))
    texts = [path.read_text(encoding="utf-8")[300:1500] for path in sources]
    prompts = [tuple(encode(text)) for text in texts if len(text) > 1000][:6]

    def answers(way: str, rows: int, together: bool, sampling: Sampling) -> list[list[int]]:
        core.decoding = ways[way]
        done: dict[int, list[int]] = {}
        for number, prompt in enumerate(prompts):
            core.size.rows = rows
            core.cache.forget(str(number))
            job = Job(number, str(number), "", Prompt(prompt), 24, sampling)
            core.admit(job, Rules(Never(), None), CancelToken())
            while core.busy and (not together or number == len(prompts) - 1):
                ended = [event for event in core.step() if isinstance(event, Done)]
                done |= {event.job: event.outcome.ids for event in ended}
        return [done[number] for number in range(len(prompts))]

    for sampling in (Sampling(), Sampling(temperature=0.8, seed=7)):
        plain = answers("plain", 16, False, sampling)
        assert answers("planned", 48, False, sampling) == plain
        assert answers("trees", 48, False, sampling) == plain
        assert answers("trees", 24, True, sampling) == plain


def test_a_row_of_a_tree_has_the_logits_of_plain_decoding_to_the_bit() -> None:
    files = store.resolve("qwen2.5-coder-0.5b")
    runner = load_runner(
        files.directory, files.vocab_size, choose_device("cpu"), kernel="int8", graphs=0
    )
    encode = Tokenizer.load(files.directory).encode
    prompt, ids = encode(Path(__file__).read_text(encoding="utf-8"))[:330], [*range(100, 109)]
    parents = [-1, 0, 1, 2, 1, 4, 0, 6, 6]
    slot = runner.cache(1 << 28).acquire("b", 512)
    runner.prefill(slot, prompt)
    tree = runner.forward([Segment(slot, ids, parents, range(len(ids)))]).logits[0].clone()
    for leaf in (3, 5, 7, 8):
        path = [leaf]
        while parents[path[0]] >= 0:
            path.insert(0, parents[path[0]])
        slot.rewind([*prompt, 0])
        for row in path:
            assert torch.equal(runner.prefill(slot, [ids[row]]), tree[row])


def test_a_long_prompt_has_the_same_logits_in_chunks_of_any_width() -> None:
    """Also where they cross the length at which the order of torch's sums changes."""
    files = store.resolve("qwen2.5-coder-0.5b")
    runner = load_runner(
        files.directory, files.vocab_size, choose_device("cpu"), kernel="int8", graphs=0
    )
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    ids = Tokenizer.load(files.directory).encode(text)[:1180]
    assert len(ids) == 1180

    def last(widths: list[int]) -> torch.Tensor:
        slot, start = Slot(runner.kv), 0
        for width in widths:
            logits = runner.prefill(slot, ids[start : start + width])
            start += width
        assert start == len(ids)
        return logits.clone()

    expected = last([128] * 9 + [28])
    for widths in ([1180], [1000, 180], [1020, 1, 1, 1, 1, 1, 1, 154]):
        assert torch.equal(last(widths), expected)
