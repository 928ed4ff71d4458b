"""The record and the daemon's state in Prometheus' text form. Knows the names of metrics; asks
nobody (completiond/record/metrics.py counts, the daemon's status comes along).

Needs the extra `metrics`.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from prometheus_client.core import (
    CollectorRegistry,
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from completiond.record.figures import named
from completiond.record.metrics import BOUNDS_S, Numbers
from completiond.record.rows import RETAINED_S

KIND = CONTENT_TYPE_PLAIN_0_0_4


class _By(NamedTuple):
    """A counter with one label, and the word that such counts of the record begin with."""

    metric: str
    words: str
    label: str
    counts: str


_LABELLED = (
    _By("completiond_keys", "Keys, by how they were answered.", "kind", "kind"),
    _By("completiond_reasons", "Keys, by why there was an answer or none.", "reason", "reason"),
    _By("completiond_outcomes", "Shown answers, by what became of them.", "outcome", "outcome"),
    _By("completiond_drafted_tokens", "Tokens proposed, by source.", "source", "drafted"),
    _By("completiond_held_tokens", "Proposed tokens that were right.", "source", "held"),
)
_TOKENS = ("generated", "prompt", "prefilled", "reused")
_GAUGES = {
    "completiond_kv_bytes": ("KV cache in use.", "kv_bytes"),
    "completiond_kv_budget_bytes": ("KV cache at most.", "kv_budget"),
    "completiond_kv_buffers": ("Buffers in the KV cache.", "kv_slots"),
}


class _Collector:
    def __init__(self, numbers: Numbers | None, status: dict[str, Any] | None) -> None:
        self._numbers = numbers
        self._status = status

    def collect(self) -> Iterator[Metric]:
        if self._numbers is not None:
            yield from _counters(self._numbers)
            yield _durations(self._numbers)
        yield from _gauges(self._status)


def exposition(numbers: Numbers | None, status: dict[str, Any] | None) -> bytes:
    """`status` is a daemon's as a mapping, None if none answers."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(numbers, status))
    return generate_latest(registry)


def _counters(numbers: Numbers) -> Iterator[Metric]:
    counts = numbers.counts
    for one in _LABELLED:
        family = CounterMetricFamily(one.metric, one.words, labels=[one.label])
        for name, n in sorted(named(counts, one.counts).items()):
            family.add_metric([name or "none"], n)
        yield family
    yield _counted("completiond_passes", "Forward passes.", "", {"": counts["passes"]})
    wrote = "Forward passes that wrote tokens: all but those that only read a prompt."
    yield _counted("completiond_writing_passes", wrote, "", {"": counts["wrote"]})
    tokens = {what: counts[what] for what in _TOKENS}
    yield _counted("completiond_tokens", "Tokens by what was done with them.", "what", tokens)
    characters = {what: counts[f"{what} characters"] for what in ("shown", "taken")}
    yield _counted("completiond_characters", "Characters of answers.", "what", characters)
    left = {str(s): counts[f"left {s}"] for s in RETAINED_S}
    yield _counted(
        "completiond_retained_characters", "Accepted and left so long after.", "after_s", left
    )
    of = {str(s): counts[f"left {s} of"] for s in RETAINED_S}
    yield _counted(
        "completiond_followed_characters", "Accepted and looked at so long after.", "after_s", of
    )


def _counted(metric: str, words: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(metric, words, labels=[label] if label else [])
    for name, n in values.items():
        family.add_metric([name] if label else [], n)
    return family


def _durations(numbers: Numbers) -> Metric:
    family = HistogramMetricFamily(
        "completiond_stage_seconds", "How long each stage of a key took.", labels=["stage"]
    )
    for one in numbers.durations:
        up_to = [(str(s), n) for s, n in zip(BOUNDS_S, one.up_to, strict=True)]
        family.add_metric([one.stage], [*up_to, ("+Inf", one.keys)], one.seconds)
    return family


def _gauges(status: dict[str, Any] | None) -> Iterator[Metric]:
    ready = status is not None and status["state"] == "ready"
    yield GaugeMetricFamily("completiond_up", "Whether the daemon answers and is ready.", ready)
    if status is None:
        return
    engine = status["engine"]
    for name in ("clients", "running", "waiting"):
        yield GaugeMetricFamily(f"completiond_{name}", f"{name.title()} now.", status[name])
    yield GaugeMetricFamily("completiond_resident_bytes", "Its memory.", status.get("memory", 0))
    for metric, (words, name) in _GAUGES.items():
        if name in engine:
            yield GaugeMetricFamily(metric, words, engine[name])
    facts = {name: str(engine.get(name, "")) for name in ("device", "kernel", "draft", "policy")}
    facts["model"] = status["model"]
    yield InfoMetricFamily("completiond_engine", "What is served.", facts)
