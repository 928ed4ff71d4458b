"""The peer without any policy: transformers' `generate`, greedy, bf16, one request at a time.

The prompt is split at the cursor; what comes out is cut and cleaned as ours is. The newest request
wins: the one before it stops at its next token. Every prompt is computed from nothing, as
`generate` does it; so it is slow, and replayed for a few keys only.
"""

import asyncio
import threading
from typing import Any

from replay_account import Account
from replay_screen import Suggestion
from replay_traces import Moment, Step

from completiond import config
from completiond.commands.start import start_of
from completiond.core import Snapshot
from completiond.postprocess.clean import clean
from completiond.prompt import stopping
from completiond.prompt.builder import Built
from completiond.prompts import prompts_of


class Generate:
    """The model and its tokenizer, loaded once."""

    def __init__(self, model: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._settings = config.load({"model.name": model, "completion.layout": "cursor"})
        start = start_of(self._settings)
        self._prompts = prompts_of(self._settings, start)
        self._model = AutoModelForCausalLM.from_pretrained(
            start.model["directory"], dtype=torch.bfloat16
        )
        self._model.eval()
        self._lock = threading.Lock()

    def answer(self, moment: Moment, stop: threading.Event) -> Suggestion | None:
        """Waits for its turn, then computes until it is done or told to stop."""
        snapshot = Snapshot.around(
            moment.text,
            moment.cursor,
            document=moment.document,
            version=moment.version,
            language=moment.language,
            path=moment.path,
        )
        limit = self._settings.completion.max_tokens
        built = self._prompts.builder.build(snapshot, max_tokens=limit)
        with self._lock:
            if stop.is_set():
                return None
            ids, reason = self._run(built, stop)
        if stop.is_set():
            return None
        text = stopping.trim(self._prompts.tokenizer.decode(ids), built.stop, reason)
        shown, _ = clean(text, snapshot)
        return Suggestion(shown, 0, "pass", len(built.prompt.ids)) if shown else None

    def _run(self, built: Built, stop: threading.Event) -> tuple[list[int], str]:
        import torch
        from transformers import StoppingCriteriaList

        prompt = torch.tensor([built.prompt.ids])
        rule = stopping.TextStop(built.stop, self._prompts.tokenizer.token_bytes)
        ended: list[str] = []

        def over(ids: Any, scores: Any, **more: Any) -> Any:
            reason = rule.step([int(ids[0, -1])])
            ended.extend([reason] if reason else [])
            return torch.tensor([bool(reason) or stop.is_set()])

        with torch.inference_mode():
            out = self._model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=built.max_tokens,
                do_sample=False,
                pad_token_id=0,
                stopping_criteria=StoppingCriteriaList([over]),
            )
        return out[0, prompt.shape[1] :].tolist(), ended[0] if ended else "length"


class HfSource:
    """`Generate` as an editor's source of suggestions."""

    def __init__(self, model: Generate) -> None:
        self.account = Account()
        self._model = model
        self._stop = threading.Event()

    async def open(self, name: str, moments: list[Moment]) -> None:
        pass

    def opened(self, moment: Moment) -> None:
        pass

    def change(self, old: Moment, step: Step, new: Moment) -> None:
        pass

    def cancel(self) -> None:
        self._stop.set()

    async def ask(self, moment: Moment) -> Suggestion | None:
        self._stop = stop = threading.Event()
        return await asyncio.to_thread(self._model.answer, moment, stop)

    def shown(self) -> None:
        pass

    async def close(self) -> None:
        self.cancel()
