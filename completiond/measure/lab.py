"""An engine's core in this thread, whose every pass is seen: what benchmarks and audits drive.

Knows one core, its drafters and prompts; measures and compares nothing itself. Needs torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from completiond import engine_process, prompts
from completiond.config import Config
from completiond.core import GREEDY, Sampling, Snapshot, TokenMask
from completiond.drafters.base import DraftContext, Drafter
from completiond.drafters.planner import Policy
from completiond.drafters.policies import FixedK
from completiond.drafters.small_model import SmallModel
from completiond.engine.desk import Start
from completiond.engine.job import Job, Rules
from completiond.engine.load import needs
from completiond.engine.model_core import ModelCore
from completiond.measure import passes
from completiond.measure.passes import Ran
from completiond.measure.spots import Spot
from completiond.model.checkpoint import ModelFiles
from completiond.model.loader import choose_device, choose_kernel
from completiond.prompt.builder import NOTHING, Built, Kept
from completiond.reuse import remainder

PLAIN, AUTO = "plain", "auto"
CATCH_UP = 200
"""Calls in which a drafter that computes has read the longest prompt, chunk by chunk."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of decoding: these drafters and no others. Without any it is plain decoding."""

    name: str
    drafters: tuple[Drafter, ...] = ()


class Question(NamedTuple):
    """What one run is asked: a prompt, where it ends, and what is expected to come."""

    built: Built
    hint: tuple[int, ...] = ()

    def first(self, tokens: int) -> "Question":
        """The same for the first few tokens of the answer."""
        return Question(replace(self.built, max_tokens=tokens))

    def free(self) -> "Question":
        """The same without a word that must be spelled first: every token may come."""
        prompt = replace(self.built.prompt, healed="")
        return Question(replace(self.built, prompt=prompt, healed=""))


@dataclass(slots=True)
class AtIds:
    """A stop rule: the model's own ends, and no other."""

    ends: frozenset[int]

    def step(self, ids: Sequence[int]) -> str | None:
        return "eos" if any(token in self.ends for token in ids) else None


class Lab:
    """`lab.run(arm, questions)`: all questions at once, each from a buffer of its own."""

    def __init__(self, config: Config, start: Start) -> None:
        loaded = engine_process.load(asdict(start))
        assert isinstance(loaded.core, ModelCore), "a scripted engine drafts nothing"
        self.core = loaded.core
        self._rules = loaded.rules
        self._prompts = prompts.prompts_of(config, start)
        self.drafters: tuple[Drafter, ...] = tuple(self.core.decoding.drafters)
        self._weights = draft_weights(config, start)
        self._numbers = count(1)
        self.policy: Policy | None = None  # the engine's own, unless somebody wants another

    @property
    def info(self) -> dict[str, Any]:
        return self.core.info()

    def arms(self) -> list[Arm]:
        """Plain decoding, each drafter alone, and all together where there are several."""
        alone = [Arm(drafter.name, (drafter,)) for drafter in self.drafters]
        together = [Arm(AUTO, self.drafters)] if len(alone) > 1 else []
        return [Arm(PLAIN), *alone, *together]

    def draft_all(self) -> None:
        """As much as drafters have, whether or not it pays: what is to be proved is not speed."""
        self.policy = FixedK(self.core.decoding.draft_tokens)

    def question(self, spot: Spot, tokens: int) -> Question:
        """What is asked at a spot, one request later than at `before`.

        The answer at `before` is computed plainly here: what it still says is the hint, and the
        slot of the buffer holds the prompt, as it does while one types.
        """
        earlier = self._build(spot, spot.before, tokens, NOTHING)
        said = self.run(Arm(PLAIN), [Question(earlier)])[0]
        text = self._prompts.tokenizer.decode(_text_ids(said.ids, earlier))
        now = self._build(spot, spot.before + spot.typed, tokens, earlier.kept)
        rest = remainder(text.removeprefix(earlier.healed), spot.typed)
        hint = self._prompts.tokenizer.encode(now.healed + rest) if rest else []
        question = Question(now, tuple(hint))
        self._catch_up(question)
        return question

    def _build(self, spot: Spot, before: str, tokens: int, kept: Kept) -> Built:
        snapshot = Snapshot.around(
            before + spot.after,
            len(before),
            document=spot.path,
            version=0,
            language=spot.language,
            path=spot.path,
        )
        return self._prompts.builder.build(snapshot, max_tokens=tokens, kept=kept)

    def _catch_up(self, question: Question) -> None:
        """Drafters with keys and values of their own hold the prompt too, as they do in use."""
        prompt = question.built.prompt
        context = DraftContext(buffer_name(0), "nobody", list(prompt.ids), len(prompt.ids))
        for drafter in self.drafters:
            if hasattr(drafter, "cache"):
                for _ in range(CATCH_UP):
                    if len(drafter.propose(context, 1)):
                        break

    def run(
        self,
        arm: Arm,
        questions: Sequence[Question],
        sampling: Sampling = GREEDY,
        client: str = "",
    ) -> list[Ran]:
        """The answers, in order; raises the error by which one of them ended."""
        jobs = [
            self._job(question, buffer_name(place), sampling, client or arm.name)
            for place, question in enumerate(questions)
        ]
        return passes.run(self.core, arm.drafters, jobs, self.policy)

    def _job(
        self, question: Question, buffer: str, sampling: Sampling, client: str
    ) -> tuple[Job, Rules]:
        built, number = question.built, next(self._numbers)
        prompt, hint = built.prompt, question.hint
        job = Job(number, buffer, client, prompt, built.max_tokens, sampling=sampling, hint=hint)
        stop = AtIds(frozenset(built.stop["stop_ids"]))
        return job, Rules(stop, self.mask(question))

    def mask(self, question: Question) -> TokenMask | None:
        """What the first tokens of the answer must spell."""
        built = question.built
        return self._rules(Job(0, "", "", built.prompt, 1, stop=built.stop)).mask

    def text(self, ids: Sequence[int]) -> str:
        return self._prompts.tokenizer.decode(ids)

    def memory(self) -> Mapping[str, int]:
        """Bytes that each drafter says it holds; those that hold next to nothing say nothing."""
        held = {}
        for drafter in self.drafters:
            owner = drafter if hasattr(drafter, "bytes") else getattr(drafter, "cache", None)
            own = self._weights if isinstance(drafter, SmallModel) else 0
            held[drafter.name] = int(getattr(owner, "bytes", 0)) + own
        return held


def draft_weights(config: Config, start: Start) -> int:
    """Bytes of the draft model's weights, as they were reckoned before it was loaded."""
    if start.draft is None:
        return 0
    target, small = ModelFiles.of(start.model), ModelFiles.of(start.draft)
    device = choose_device(config.engine.device)
    kernel = choose_kernel(target.directory, device, config.engine.kernel)
    draft = needs(config, target, small, device, kernel).draft
    return draft.weights if draft else 0


def buffer_name(place: int) -> str:
    return f"lab/{place}"


def _text_ids(ids: Sequence[int], built: Built) -> list[int]:
    ends = set(built.stop["stop_ids"])
    return [token for token in ids if token not in ends]
