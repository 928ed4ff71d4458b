"""What is answered, as OpenAI's text completions have it: one object, or its parts, or an error.

Knows JSON; knows no runs.
"""

import json
from dataclasses import dataclass, field
from time import time
from typing import Any
from uuid import uuid4

from completiond.errors import (
    CompletiondError,
    EngineError,
    Overloaded,
    ProtocolError,
    RequestError,
    TooLarge,
    UnknownModel,
)

DONE = b"data: [DONE]\n\n"
CUT_OFF = ("length", "timeout")
_STATUS: dict[type[CompletiondError], int] = {
    TooLarge: 413,
    UnknownModel: 404,
    Overloaded: 429,
    RequestError: 400,
    ProtocolError: 400,
    EngineError: 503,
}
"""Of an error, the first class that fits; any other is a failure of ours."""


@dataclass(frozen=True, slots=True)
class Completion:
    """The same id, time and model for every part of one answer."""

    model: str
    id: str = field(default_factory=lambda: f"cmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time()))

    def part(self, text: str, reason: str = "") -> dict[str, Any]:
        """Some of its text; `reason` is that of the engine, once it is over."""
        finish = None if not reason else "length" if reason in CUT_OFF else "stop"
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }

    def whole(self, text: str, reason: str, *, prompt: int, generated: int) -> dict[str, Any]:
        usage = {"prompt_tokens": prompt, "completion_tokens": generated}
        return self.part(text, reason) | {"usage": usage | {"total_tokens": prompt + generated}}


def event(data: dict[str, Any]) -> bytes:
    """One of a stream."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def status_of(error: CompletiondError) -> int:
    return next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)


def failure(sentence: str, status: int, code: str) -> dict[str, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": sentence, "type": kind, "param": None, "code": code}}
