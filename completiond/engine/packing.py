"""The nouns of the door as plain lists, which msgpack carries. Knows no sockets and no processes.

A message is a list whose first item is its kind. The stream needs no lengths: msgpack values frame
themselves.

    front → engine   START [dict]  SUBMIT [job]  CANCEL [id, reason, grace_s]  REVIVE [id]
                     DEMOTE [id]  STATS [nonce]  STOP []
                     READ [client, document, text]  FORGET [client]
    engine → front   READY [info]  REFUSED [code, sentence]  EVENTS [[event, …]]  STATS [nonce, {}]
"""

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter
from typing import Any

import msgpack

from completiond.core import Outcome, Prompt, Sampling, Segment
from completiond.engine.job import Done, Event, Failed, Job, Progress

START, SUBMIT, CANCEL, REVIVE, DEMOTE = "start", "submit", "cancel", "revive", "demote"
STATS, STOP, READ, FORGET = "stats", "stop", "read", "forget"
READY, REFUSED, EVENTS = "ready", "refused", "events"

MAX_UNREAD = 64 << 20
"""Bytes that one side may have in hand without a whole message: far over any prompt or answer."""

_PROGRESS, _DONE, _FAILED = range(3)
_outcome_values = attrgetter(*(field.name for field in fields(Outcome)))


def unpacker() -> Any:
    """Feed it what the socket gave; iterate over the whole messages."""
    return msgpack.Unpacker(max_buffer_size=MAX_UNREAD, strict_map_key=False)


def pack(message: list[Any]) -> bytes:
    data: bytes = msgpack.packb(message)
    return data


def pack_job(job: Job) -> list[Any]:
    prompt, sampling = job.prompt, job.sampling
    return [
        job.id,
        job.buffer,
        job.client,
        [prompt.ids, prompt.segments, prompt.healed],
        job.max_tokens,
        [sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed],
        dict(job.stop),
        job.hint,
        job.astray,
        job.max_ms,
        job.priority,
        job.scored,
    ]


def unpack_job(values: list[Any]) -> Job:
    ident, buffer, client, prompt, max_tokens, sampling, stop, hint, astray, *others = values
    max_ms, priority, scored = others
    ids, segments, healed = prompt
    return Job(
        id=ident,
        buffer=buffer,
        client=client,
        prompt=Prompt(tuple(ids), tuple(Segment(*segment) for segment in segments), healed),
        max_tokens=max_tokens,
        sampling=Sampling(*sampling),
        stop=stop,
        hint=tuple(hint),
        astray=astray,
        max_ms=max_ms,
        priority=priority,
        scored=scored,
    )


def pack_events(events: Iterable[Event]) -> list[Any]:
    return [_pack_event(event) for event in events]


def _pack_event(event: Event) -> list[Any]:
    match event:
        case Progress(job, ids, passes, prefilled):
            return [_PROGRESS, job, ids, passes, prefilled]
        case Done(job, outcome):
            return [_DONE, job, _outcome_values(outcome)]
        case Failed(job, code, message):
            return [_FAILED, job, code, message]


def unpack_event(values: list[Any]) -> Event:
    match values:
        case [kind, job, ids, passes, prefilled] if kind == _PROGRESS:
            return Progress(job, tuple(ids), passes, prefilled)
        case [kind, job, outcome] if kind == _DONE:
            return Done(job, Outcome(*outcome))
        case [kind, job, code, message] if kind == _FAILED:
            return Failed(job, code, message)
    raise ValueError(f"not an event: {values!r:.100}")
